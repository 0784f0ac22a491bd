//! Features of a call that cost beyond a plain answer: which it uses, and what is changed of its body where they are off. What
//! cannot be left out without another call coming of it (a tool that must be called, images, sound) is only told.

use std::borrow::Cow;
use std::ops::Range;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::facts::Facts;
use super::scan::{given, span};

/// How many fields are read here, in the order of [`of`].
pub(super) const FIELDS: [&str; 10] = [
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "functions",
    "function_call",
    "reasoning_effort",
    "thinking",
    "enable_thinking",
    "modalities",
    "audio",
];

/// Efforts that are low, or less.
const LOW: [&str; 3] = ["none", "minimal", "low"];

/// What a call uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// Tools, or functions.
    pub tools: bool,
    /// One of them must be called.
    pub needs_tool: bool,
    /// More than one answer (`n`).
    pub choices: bool,
    /// More reasoning than low effort.
    pub reasoning: bool,
    /// Images.
    pub images: bool,
    /// Sound, in or out.
    pub audio: bool,
}

/// What to leave out of a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Off {
    /// Tools and functions, and how to choose among them.
    pub tools: bool,
    /// Answers but one.
    pub choices: bool,
    /// Reasoning beyond low effort.
    pub reasoning: bool,
}

/// Where that stands; offsets into the body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Spans {
    /// Values of the members that go with tools.
    tools: Vec<Range<usize>>,
    /// The value of `n`.
    choices: Option<Range<usize>>,
    /// Values that ask for reasoning, and what takes their place.
    reasoning: Vec<(Range<usize>, &'static str)>,
}

/// A replacement of a part of a body.
pub(super) type Edit = (Range<usize>, Cow<'static, str>);

#[derive(Deserialize)]
struct Thinking<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<Cow<'a, str>>,
}

/// What a call with these fields uses, and where.
pub(super) fn of(
    body: &[u8],
    fields: [Option<&RawValue>; FIELDS.len()],
    n: Option<&RawValue>,
    facts: &Facts,
) -> (Uses, Spans) {
    let [tools, choice, parallel, functions, call, effort, thinking, enable, modalities, audio] = fields;
    let has_many = given(n).is_some_and(|n| n.get() != "1");
    let has_tools = given(tools).is_some() || given(functions).is_some();
    let with_tools = [tools, choice, parallel, functions, call].into_iter().flatten();
    let reasoning = [
        (effort.filter(|effort| is_beyond_low(effort)), "\"low\""),
        (thinking.filter(|thinking| thinks(thinking)), "{\"type\":\"disabled\"}"),
        (enable.filter(|enable| enable.get() == "true"), "false"),
    ];
    let reasoning = reasoning.into_iter().filter_map(|(value, less)| Some((span(body, value?), less)));
    let spans = Spans {
        tools: if has_tools { with_tools.map(|value| span(body, value)).collect() } else { Vec::new() },
        choices: n.filter(|_n| has_many).map(|n| span(body, n)),
        reasoning: reasoning.collect(),
    };
    let uses = Uses {
        tools: has_tools,
        needs_tool: has_tools && [choice, call].into_iter().flatten().any(demands),
        choices: has_many,
        reasoning: !spans.reasoning.is_empty(),
        images: facts.images > 0,
        audio: facts.sounds.parts > 0 || given(audio).is_some() || given(modalities).is_some_and(says_audio),
    };
    (uses, spans)
}

impl Spans {
    /// What to change of `body` so that this is off.
    pub(super) fn edits(&self, body: &[u8], off: Off) -> Vec<Edit> {
        let mut edits = Vec::new();
        if off.tools {
            edits.extend(members(body, &self.tools).into_iter().map(|member| (member, "".into())));
        }
        if off.choices {
            edits.extend(self.choices.clone().map(|value| (value, "1".into())));
        }
        if off.reasoning {
            edits.extend(self.reasoning.iter().map(|(value, less)| (value.clone(), (*less).into())));
        }
        edits
    }
}

/// Whether a tool must be called: `required`, or one that is named.
fn demands(choice: &RawValue) -> bool {
    let named: Option<String> = serde_json::from_str(choice.get()).ok();
    choice.get().starts_with('{') || named.is_some_and(|word| word == "required")
}

fn is_beyond_low(effort: &RawValue) -> bool {
    let word: Option<String> = serde_json::from_str(effort.get()).ok();
    word.is_some_and(|word| !LOW.contains(&word.as_str()))
}

fn thinks(thinking: &RawValue) -> bool {
    let asked: Option<Thinking<'_>> = serde_json::from_str(thinking.get()).ok();
    thinking.get().starts_with('{') && asked.is_none_or(|asked| asked.kind.as_deref() != Some("disabled"))
}

fn says_audio(modalities: &RawValue) -> bool {
    let words: Option<Vec<String>> = serde_json::from_str(modalities.get()).ok();
    words.is_some_and(|words| words.iter().any(|word| word == "audio"))
}

/// The members of the top-level object that have these values, each with its key and one comma: what is left is an object
/// again. The body is known to be one, so that what stands around a value is known, too.
fn members(body: &[u8], values: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut values: Vec<_> = values.to_vec();
    values.sort_by_key(|value| value.start);
    let mut members: Vec<Range<usize>> = Vec::new();
    for value in values {
        let start = key_start(body, value.start);
        let comma = skip(body, value.end);
        let (end, is_last) = match body.get(comma) {
            Some(b',') => (skip(body, comma + 1), false),
            _closing => (value.end, true),
        };
        match members.last_mut() {
            Some(before) if before.end == start => before.end = end,
            Some(_) | None => members.push(start..end),
        }
        if is_last && let Some(last) = members.last_mut() {
            // No comma follows that could go with it: the one before it goes.
            let before = back(body, last.start);
            last.start = if body.get(before) == Some(&b',') { before } else { last.start };
        }
    }
    members
}

/// Where the key begins whose value is at `value`. None of the keys that we look for has a quote in it.
fn key_start(body: &[u8], value: usize) -> usize {
    let colon = back(body, value);
    let closing = back(body, colon);
    let quote = body.get(..closing).and_then(|before| before.iter().rposition(|byte| *byte == b'"'));
    quote.unwrap_or(value)
}

/// The last byte before `at` that is no white space.
fn back(body: &[u8], at: usize) -> usize {
    let before = body.get(..at).unwrap_or_default();
    before.iter().rposition(|byte| !byte.is_ascii_whitespace()).unwrap_or(at)
}

/// The first byte from `at` on that is no white space.
fn skip(body: &[u8], at: usize) -> usize {
    let rest = body.get(at..).unwrap_or_default();
    at + rest.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::openai::{Patch, scan_chat};

    const ALL: Off = Off { tools: true, choices: true, reasoning: true };

    fn body(fields: &str) -> Bytes {
        format!(r#"{{"model":"m","messages":[{{"role":"user","content":"hi"}}]{fields}}}"#).into()
    }

    fn uses(fields: &str) -> Uses {
        scan_chat(&body(fields)).unwrap().uses
    }

    fn without(text: &Bytes, off: Off) -> Bytes {
        scan_chat(text).unwrap().patch(text, &Patch { off, ..Patch::default() })
    }

    #[test]
    fn what_a_call_uses_is_read() {
        assert_eq!(
            uses(r#","tools":null,"n":1,"reasoning_effort":"low","thinking":{"type":"disabled"}"#),
            Uses::default()
        );
        let tools = Uses { tools: true, ..Uses::default() };
        assert_eq!(uses(r#","tools":[],"tool_choice":"auto""#), tools);
        for choice in [
            r#""tool_choice":"required""#,
            r#""tool_choice":{"type":"function"}"#,
            r#""function_call":{"name":"f"}"#,
        ] {
            assert_eq!(
                uses(&format!(r#","functions":[{{}}],{choice}"#)),
                Uses { needs_tool: true, ..tools },
                "{choice}"
            );
        }
        for reasoning in
            [r#""reasoning_effort":"xhigh""#, r#""thinking":{"type":"enabled"}"#, r#""enable_thinking":true"#]
        {
            assert!(uses(&format!(",{reasoning}")).reasoning, "{reasoning}");
        }
        for audio in [r#""modalities":["text","audio"]"#, r#""audio":{"voice":"a"}"#] {
            assert_eq!(uses(&format!(",{audio}")), Uses { audio: true, ..Uses::default() });
        }
        let parts = r#"{"model":"m","n":3,"messages":[{"role":"user","content":[{"type":"image_url"},{"type":"input_audio"},{"type":"file"}]}]}"#;
        let media = Uses { images: true, audio: true, choices: true, ..Uses::default() };
        assert_eq!(scan_chat(&Bytes::from_static(parts.as_bytes())).unwrap().uses, media);
    }

    #[test]
    fn what_is_off_is_left_out_and_every_other_byte_stays() {
        for (given, left) in [
            (r#", "tools" : [{"x":"}"}] , "z" : 1.50"#, r#", "z" : 1.50"#),
            (r#", "z":1 , "tools":[]"#, r#", "z":1 "#),
            (r#","tools":[],"tool_choice":"auto""#, ""),
            (r#","tools":[],"z":1,"parallel_tool_calls":true, "to\u006fl_choice":"none" "#, r#","z":1 "#),
            (r#","n":4,"reasoning_effort": "high","x":null"#, r#","n":1,"reasoning_effort": "low","x":null"#),
            (r#","thinking":{"type":"enabled","budget_tokens":9}"#, r#","thinking":{"type":"disabled"}"#),
            (r#","enable_thinking":true,"n":1"#, r#","enable_thinking":false,"n":1"#),
            (r#","tool_choice":"auto""#, r#","tool_choice":"auto""#),
        ] {
            let text = body(given);
            assert_eq!(without(&text, ALL), body(left), "{given}");
            assert_eq!(without(&text, Off::default()), text);
        }
    }

    #[test]
    fn a_feature_in_front_of_all_goes_and_a_cap_takes_its_place() {
        let text = Bytes::from_static(
            br#"{"tools":[1],"tool_choice":"auto","messages":[{"role":"user"}],"model":"m"}"#,
        );
        let ask = scan_chat(&text).unwrap();
        let patch = Patch { off: ALL, cap: Some(base::Tokens(7)), ..Patch::default() };
        assert_eq!(ask.patch(&text, &patch), r#"{"max_tokens":7,"messages":[{"role":"user"}],"model":"m"}"#);
    }

    proptest! {
        /// However members stand, the rest is an object with the same values, and nothing that is off is used.
        #[test]
        fn what_is_left_is_the_rest(order in Just(vec![0, 1, 2, 3, 4, 5, 6, 7]).prop_shuffle(), gap in "[ \n]{0,2}", cap in proptest::option::of(1_u64..9)) {
            let members = [
                r#""model":"m""#, r#""messages":[{"role":"user","content":"\"tools\":1,"}]"#, r#""tools":[{"a":[1,2]}]"#,
                r#""tool_choice":"auto""#, r#""parallel_tool_calls":false"#, r#""n":3"#, r#""reasoning_effort":"high""#, r#""z":[",",1]"#,
            ];
            let text = order.iter().map(|at| members[*at].replacen(':', &format!("{gap}:{gap}"), 1)).collect::<Vec<_>>();
            let text = Bytes::from(format!("{{{gap}{}{gap}}}", text.join(&format!("{gap},{gap}"))));
            let ask = scan_chat(&text).unwrap();
            let left = ask.patch(&text, &Patch { off: ALL, cap: cap.map(base::Tokens), ..Patch::default() });
            prop_assert_eq!(scan_chat(&left).unwrap().uses, Uses::default());
            let mut before: serde_json::Value = serde_json::from_slice(&text).unwrap();
            let object = before.as_object_mut().unwrap();
            for gone in ["tools", "tool_choice", "parallel_tool_calls"] {
                object.remove(gone);
            }
            object.insert("n".to_owned(), 1.into());
            object.insert("reasoning_effort".to_owned(), "low".into());
            if let Some(cap) = cap {
                object.insert("max_tokens".to_owned(), cap.into());
            }
            prop_assert_eq!(serde_json::from_slice::<serde_json::Value>(&left).unwrap(), before);
        }
    }
}
