//! What an answer used, in this API's counts: `input_tokens` leaves out what was read from and written to the cache.

use serde_json::{Map, Value, json};

use crate::canon::Usage;

/// No call uses so many tokens. Servers that lost count report such numbers, which would empty any budget.
const SENSELESS: u64 = 1_000_000_000;

/// Reports of one answer so far. Each is of all until then, so that the latest of each count is the one that counts; a count
/// that a later report lacks, or gives as 0, stays.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reports {
    plain: Option<u64>,
    read: Option<u64>,
    written: Option<u64>,
    output: Option<u64>,
    thinking: Option<u64>,
    /// A count was none: what is known is not to be billed.
    spoilt: bool,
}

impl Reports {
    /// Takes a `usage` object.
    pub(super) fn add(&mut self, usage: &Value) {
        let thinking = usage.get("output_tokens_details").and_then(|details| details.get("thinking_tokens"));
        self.spoilt |= ![
            latest(&mut self.plain, usage.get("input_tokens")),
            latest(&mut self.read, usage.get("cache_read_input_tokens")),
            latest(&mut self.written, usage.get("cache_creation_input_tokens")),
            latest(&mut self.output, usage.get("output_tokens")),
            latest(&mut self.thinking, thinking),
        ]
        .into_iter()
        .all(|sound| sound);
    }

    /// What they say in all; `None`: nothing that can be trusted.
    pub(super) fn usage(&self) -> Option<Usage> {
        let Self { plain, read, written, output, thinking, spoilt } = *self;
        if spoilt || (plain.is_none() && output.is_none()) {
            return None;
        }
        let output = output.unwrap_or(0);
        Some(Usage {
            input: [plain, read, written].into_iter().flatten().sum(),
            cached: read,
            cache_written: written,
            input_audio: None,
            output,
            thinking: thinking.map(|thinking| thinking.min(output)),
            output_audio: None,
        })
    }
}

/// Gives whether the count is one, or is not there.
fn latest(known: &mut Option<u64>, count: Option<&Value>) -> bool {
    match count {
        None | Some(Value::Null) => true,
        Some(value) => match value.as_u64().filter(|count| *count < SENSELESS) {
            Some(count) => {
                *known = if count > 0 { Some(count) } else { known.or(Some(0)) };
                true
            }
            None => false,
        },
    }
}

/// Reads the `usage` of a whole answer.
pub(super) fn read(usage: &Value) -> Option<Usage> {
    let mut reports = Reports::default();
    reports.add(usage);
    reports.usage()
}

/// Writes a `usage` object. Callers' SDKs demand one: nothing reported is written as zeros.
pub(super) fn write(usage: Option<&Usage>) -> Map<String, Value> {
    let Usage { input, cached, cache_written, input_audio: _, output, thinking, output_audio: _ } =
        usage.copied().unwrap_or_default();
    let parts = cached.unwrap_or(0).saturating_add(cache_written.unwrap_or(0));
    let mut object = Map::new();
    object.insert("input_tokens".to_owned(), input.saturating_sub(parts).into());
    object.insert("output_tokens".to_owned(), output.into());
    for (name, count) in [("cache_read_input_tokens", cached), ("cache_creation_input_tokens", cache_written)]
    {
        object.extend(count.map(|count| (name.to_owned(), count.into())));
    }
    let details = thinking.map(|thinking| json!({"thinking_tokens": thinking}));
    object.extend(details.map(|details| ("output_tokens_details".to_owned(), details)));
    object
}
