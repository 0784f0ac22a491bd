//! A call in its caller's dialect, and the same call as a target is sent it.
//!
//! Same-dialect calls are not rebuilt: the caller's bytes go on, with the model's name, a cap and the wish for usage put
//! in where they differ; everything unknown passes untouched. Answers of the same dialect need no conversion at all. A
//! target of another dialect is sent what is written from the canonical call, which is read from the bytes so patched; what
//! it cannot express is refused by the field's name, or dropped and told.

mod foreign;

use std::collections::BTreeSet;
use std::time::Duration;

use base::Tokens;
use bytes::Bytes;
use dialect::canon::{Losses, Unfit};
use dialect::gemini::Batch;
use dialect::openai::{self, Ask, BadRequest, Encoding, Facts, Media, Off, Patch};
use dialect::{Api, Form, Place, Target};
use edge_core::bound::{Bound, Size};
use edge_core::plan::{Attempt, Offer, Path};
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, TRANSFER_ENCODING};
use seam::Host;
use telemetry::trace::Context;
use wire::call::{CallHead, ServeAt};
use wire::catalog::{Dialect, Feature, Model, Operation, Timeouts};

use crate::counting::{Counting, Said};
use crate::identity::Caller;
use crate::ingress::{Arrival, Asks, Verb};
use crate::translate::Telling;
use foreign::Foreign;

/// Tokens that OpenAI's template puts around a message, its role included, and before the answer (OpenAI cookbook, "How to
/// count tokens with tiktoken").
const MESSAGE: u64 = 4;
const REPLY: u64 = 3;

/// A body that is no call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unreadable {
    /// It is not JSON by its header.
    #[error("the content type is not JSON")]
    MediaType,
    /// It is compressed.
    #[error("the body has a content encoding")]
    Encoded,
    /// It is not what the operation takes.
    #[error("the body is malformed")]
    Body(#[source] BadRequest),
    /// It is no call of its API, or none that another could carry.
    #[error("the body is no call")]
    Unfit(#[source] Unfit),
}

/// A call whose body was read.
#[derive(Debug)]
pub(crate) struct Call {
    operation: Operation,
    form: Form,
    /// Texts are embedded one by one, or as a list, where its API tells the two apart.
    batch: Batch,
    /// What its caller said, where that was in another API than OpenAI's; `body` is its form in that one.
    foreign: Option<Foreign>,
    body: Bytes,
    ask: Ask,
    said: Said,
    /// Features it uses that are off.
    off: BTreeSet<Feature>,
}

/// How a call uses a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// It can be made without.
    Spare,
    /// Without it, it were another call.
    Needed,
}

/// Whether the body's headers allow to read it; asked before the body is.
///
/// # Errors
/// [`Unreadable`] says why not.
pub(crate) fn readable(headers: &HeaderMap) -> Result<(), Unreadable> {
    let plain = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
    if headers.get(CONTENT_ENCODING).is_some_and(|value| !plain(value)) {
        return Err(Unreadable::Encoded);
    }
    // The last coding is `chunked`, or the length would be unknown; one before it is not ours to undo.
    if headers.get_all(TRANSFER_ENCODING).iter().any(|value| !is_chunked(value.as_bytes())) {
        return Err(Unreadable::Encoded);
    }
    match headers.get(CONTENT_TYPE) {
        Some(value) if !is_json(value.as_bytes()) => Err(Unreadable::MediaType),
        Some(_) | None => Ok(()),
    }
}

fn is_chunked(value: &[u8]) -> bool {
    value.trim_ascii().eq_ignore_ascii_case(b"chunked")
}

fn is_json(value: &[u8]) -> bool {
    let essence = value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    essence.eq_ignore_ascii_case(b"application/json")
}

/// Reads a call from its body.
///
/// # Errors
/// [`Unreadable`] says what is wrong and how to mend it.
pub(crate) fn read(asks: &Asks, body: Bytes) -> Result<Call, Unreadable> {
    let operation = asks.verb.operation();
    let (foreign, body) = match asks.form.api {
        Api::Openai => (None, body),
        Api::Anthropic | Api::Gemini => {
            let (foreign, form) = Foreign::read(asks, body).map_err(Unreadable::Unfit)?;
            (Some(foreign), form)
        }
    };
    let ask = match operation {
        Operation::Chat => openai::scan_chat(&body),
        Operation::Embeddings => openai::scan_embeddings(&body),
    };
    let ask = ask.map_err(Unreadable::Body)?;
    Ok(Call {
        operation,
        form: Form { include_usage: ask.include_usage, ..asks.form },
        batch: if asks.verb == Verb::EmbedBatch { Batch::Many } else { Batch::One },
        foreign,
        ask,
        body,
        said: Said::default(),
        off: BTreeSet::new(),
    })
}

impl Call {
    /// The name asked for.
    pub(crate) fn model(&self) -> &str {
        &self.ask.model
    }

    /// What to do.
    pub(crate) const fn operation(&self) -> Operation {
        self.operation
    }

    /// Whether an event stream was asked for.
    pub(crate) const fn stream(&self) -> bool {
        self.ask.stream
    }

    /// In which form its caller is told.
    pub(crate) const fn form(&self) -> Form {
        self.form
    }

    /// Whether texts are embedded one by one or as a list.
    pub(crate) const fn batch(&self) -> Batch {
        self.batch
    }

    /// Length of the body in bytes, as it came.
    pub(crate) fn len(&self) -> usize {
        self.foreign.as_ref().map_or(self.body.len(), Foreign::len)
    }

    /// Counts how much it says to the models that `offer` may come to.
    pub(crate) async fn count(&mut self, counting: &Counting, host: &Host, offer: &Offer) {
        self.said = counting.said(host, self.operation, &self.body, offer).await;
    }

    /// How it uses a feature; `None`: not at all.
    pub(crate) const fn uses(&self, feature: Feature) -> Option<Use> {
        let uses = &self.ask.uses;
        match feature {
            Feature::Tools if uses.needs_tool => Some(Use::Needed),
            Feature::Tools if uses.tools => Some(Use::Spare),
            Feature::Choices if uses.choices => Some(Use::Spare),
            Feature::Reasoning if uses.reasoning => Some(Use::Spare),
            Feature::Images if uses.images => Some(Use::Needed),
            Feature::Audio if uses.audio => Some(Use::Needed),
            Feature::Tools | Feature::Choices | Feature::Reasoning | Feature::Images | Feature::Audio => None,
        }
    }

    /// From now on it goes without these.
    pub(crate) fn turn_off(&mut self, features: &BTreeSet<Feature>) {
        self.off.extend(features);
    }

    /// What it goes without.
    pub(crate) const fn off(&self) -> &BTreeSet<Feature> {
        &self.off
    }

    /// How large it is for a model.
    pub(crate) fn size(&self, model: &Model) -> Size {
        let facts = &self.ask.facts;
        let images = u32::try_from(facts.images).unwrap_or(u32::MAX);
        let framing = match self.operation {
            Operation::Chat => MESSAGE.saturating_mul(facts.messages as u64).saturating_add(REPLY),
            Operation::Embeddings => 0,
        };
        let media = media(facts, model);
        let likely_media = facts.media(media).unwrap_or_default();
        let likely = self.said.likely(model).saturating_add(Tokens(framing)).saturating_add(likely_media);
        let input = facts.token_bound(self.said.counted(model), media);
        Size {
            input: input.ok(),
            unbounded: input.err(),
            likely,
            // What a model says of sound and files is the most that they come to.
            likely_is_whole: input.is_ok() && facts.sounds.parts == 0 && facts.files == 0,
            cap: self.ask.cap,
            answers: if self.off.contains(&Feature::Choices) { 1 } else { self.ask.choices },
            images,
        }
    }
}

/// What the media of a call come to at most at a model.
fn media(facts: &Facts, model: &Model) -> Media {
    let sounds = model.audio.and_then(|audio| {
        let length = facts.sounds.ms(audio.least_kbps).zip(audio.tokens_per_s);
        let by_length = length.map(|(ms, per_s)| ms.saturating_mul(per_s.into()).div_ceil(1_000));
        let by_part = audio.most_tokens.map(|most| most.0.saturating_mul(facts.sounds.parts as u64));
        by_length.into_iter().chain(by_part).min().map(Tokens)
    });
    Media { image: model.image_tokens, sounds, file: model.file_tokens }
}

/// A call as one target is sent it.
#[derive(Debug)]
pub(crate) struct Outbound {
    pub(crate) head: CallHead,
    pub(crate) body: Bytes,
    /// What the target's API cannot carry of it.
    pub(crate) losses: Losses,
    /// How the answer is told, where the target speaks another API than the caller.
    pub(crate) telling: Option<Telling>,
}

/// Why a target is sent nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unsent {
    /// Nothing is left of the call's time.
    #[error("the call's time is over")]
    TooLate,
    /// The target's API cannot express the call.
    #[error("the call cannot be said in the target's API")]
    Unfit(#[source] Unfit),
}

/// What an attempt is told beside the call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trying {
    /// From 1.
    pub(crate) number: u16,
    /// Its place in the call's trace.
    pub(crate) trace: Context,
    /// So much is gone of the call's whole time.
    pub(crate) elapsed: Duration,
    /// How long the call may wait for a place there.
    pub(crate) place: Duration,
}

/// The call for one target.
///
/// # Errors
/// [`Unsent`] says why there is none.
pub(crate) fn outbound(
    arrival: &Arrival,
    caller: &Caller,
    call: &Call,
    target: (&Attempt, &Bound),
    trying: Trying,
) -> Result<Outbound, Unsent> {
    let (attempt, bound) = target;
    let Trying { number, trace, elapsed, place } = trying;
    let model = &attempt.candidate.model;
    let timeouts = left(model.timeouts, elapsed).ok_or(Unsent::TooLate)?;
    let target = egress::target_of(model.dialect);
    let Written { body, losses, encoding } = call.written(target, (model, bound)).map_err(Unsent::Unfit)?;
    let is_own = call.form.api == Api::Openai && target == Target::Openai;
    let telling = (!is_own).then(|| Telling::of(target, arrival, call, encoding));
    let principal = caller.principal();
    let head = CallHead {
        request: arrival.request,
        attempt: number,
        tenant: principal.tenant.clone(),
        key: principal.key.clone(),
        model: model.name.clone(),
        operation: call.operation,
        serve_at: match attempt.path {
            Path::Local | Path::Peer(_) => ServeAt::Replicas,
            Path::Central(_) => ServeAt::Provider,
        },
        stream: call.ask.stream,
        hide_usage: call.ask.stream && !call.ask.include_usage,
        timeouts,
        place_ms: u32::try_from(place.as_millis()).unwrap_or(u32::MAX),
        headers: egress::headers::for_upstream(&arrival.headers),
        traceparent: Some(trace.to_string()),
        tokens: bound.likely_tokens(),
        priority: principal.priority.max(arrival.behalf.priority),
        weight: principal.weight,
        dialect: model.dialect,
    };
    Ok(Outbound { head, body, losses, telling })
}

impl Call {
    /// The caller's bytes with what differs at `model`.
    fn patched(&self, model: &Model, bound: &Bound) -> Bytes {
        let is_off = |feature| self.off.contains(&feature);
        let off = Off {
            tools: is_off(Feature::Tools),
            choices: is_off(Feature::Choices),
            reasoning: is_off(Feature::Reasoning),
        };
        let name = Some(model.upstream_name());
        let include_usage = model.dialect == Dialect::Openai;
        self.ask.patch(&self.body, &Patch { model: name, include_usage, cap: bound.wire_cap, off })
    }

    /// The call in the API of its target.
    fn written(&self, target: Target, (model, bound): (&Model, &Bound)) -> Result<Written, Unfit> {
        let encoding = Encoding::default();
        match (&self.foreign, target) {
            (foreign, Target::Openai) => {
                let losses = foreign.as_ref().map_or_else(|| Api::Openai.losses(), |of| of.lost().clone());
                Ok(Written { body: self.patched(model, bound), losses, encoding })
            }
            (Some(foreign), Target::Anthropic | Target::Gemini) => {
                let (body, losses) = foreign.written(target, (model, bound), &self.off)?;
                Ok(Written { body, losses, encoding })
            }
            (None, Target::Anthropic | Target::Gemini) => self.converted(target, (model, bound)),
        }
    }

    /// A call of OpenAI's API in another.
    fn converted(&self, target: Target, (model, bound): (&Model, &Bound)) -> Result<Written, Unfit> {
        let (form, mut losses) = (self.patched(model, bound), Api::Openai.losses());
        let (body, encoding) = match self.operation {
            Operation::Chat => {
                let call = Api::Openai.read_call(Place::default(), &form, &mut losses)?;
                let most = model.output_cap.map(|most| most.0);
                (target.write_call(&call, most, &mut losses)?, Encoding::default())
            }
            Operation::Embeddings => {
                let (embed, encoding) = openai::read_embeddings_call(&form, &mut losses)?;
                (target.write_embeddings_call(&embed, &mut losses)?, encoding)
            }
        };
        Ok(Written { body: body.into(), losses, encoding })
    }
}

/// A call in the API of its target.
struct Written {
    body: Bytes,
    /// What its caller said and the target does not get.
    losses: Losses,
    /// How its caller wants vectors.
    encoding: Encoding,
}

fn left(timeouts: Timeouts, elapsed: Duration) -> Option<Timeouts> {
    let gone = u32::try_from(elapsed.as_millis()).unwrap_or(u32::MAX);
    let total_ms = timeouts.total_ms.checked_sub(gone).filter(|left| *left > 0)?;
    Some(Timeouts { total_ms, ..timeouts })
}

#[cfg(test)]
mod tests {
    use edge_core::plan::Offers;
    use proptest::prelude::*;
    use tokens::{Digest, Tokenizer, Vocabulary};
    use wire::catalog::{Audio, Catalog};

    use super::*;
    use crate::fixtures;

    #[test]
    fn only_json_that_is_not_compressed_is_read() {
        let sent = |name, value: &'static str| {
            let headers: HeaderMap = [(name, HeaderValue::from_static(value))].into_iter().collect();
            readable(&headers)
        };
        assert_eq!(sent(CONTENT_TYPE, "application/json; charset=utf-8"), Ok(()));
        assert_eq!(sent(CONTENT_TYPE, "text/plain"), Err(Unreadable::MediaType));
        assert_eq!(sent(CONTENT_TYPE, "application/x-www-form-urlencoded"), Err(Unreadable::MediaType));
        assert_eq!(sent(CONTENT_ENCODING, "gzip"), Err(Unreadable::Encoded));
        assert_eq!(sent(TRANSFER_ENCODING, "gzip, chunked"), Err(Unreadable::Encoded));
        assert_eq!(sent(TRANSFER_ENCODING, "Chunked"), Ok(()));
        assert_eq!(readable(&HeaderMap::new()), Ok(()));
    }

    #[tokio::test]
    async fn what_is_counted_lowers_the_bound_and_what_is_estimated_does_not() {
        let text = "the pilot walked down to the pier and counted the boats ".repeat(20);
        let sizes = sizes(&format!(r#"[{{"role":"user","content":"{text}"}}]"#)).await;
        let [counted, unknown] = &sizes;
        let tokens = Tokenizer::O200kBase.count(&text).unwrap();
        assert!(unknown.input.unwrap().0 > text.len() as u64);
        assert!(counted.input.unwrap().0 < text.len() as u64 / 2);
        assert!(counted.input.unwrap() > tokens);
        assert_eq!(counted.likely, tokens.saturating_add(Tokens(MESSAGE + REPLY)));
        let error = unknown.likely.0.abs_diff(counted.likely.0) * 1_000;
        assert!(error <= counted.likely.0 * tokens::estimate::ERROR_PER_MILLE, "{sizes:?}");
    }

    #[tokio::test]
    async fn images_are_bounded_where_the_model_says_by_how_much() {
        let url = format!("data:image/png;base64,{}", "A".repeat(40_000));
        let [known, unknown] = sizes(&format!(
            r#"[{{"role":"user","content":[{{"type":"image_url","image_url":{{"url":"{url}"}}}}]}}]"#
        ))
        .await;
        assert_eq!(unknown.input, None);
        assert!((1_000..2_000).contains(&known.input.unwrap().0), "{known:?}");
        assert!((1_000..1_100).contains(&known.likely.0), "{known:?}");
    }

    #[tokio::test]
    async fn sound_is_held_for_its_length_and_a_file_for_what_the_model_says() {
        let sound = |data: &str| format!(r#"{{"type":"input_audio","input_audio":{{"data":"{data}"}}}}"#);
        let size = async |audio: Option<Audio>, file_tokens: Option<u64>, part: &str| {
            let plain = fixtures::model("m", "http://127.0.0.1:1");
            let model = Model { audio, file_tokens: file_tokens.map(Tokens), ..plain };
            let messages = format!(r#"[{{"role":"user","content":[{part}]}}]"#);
            counted(&Counting::new(), &model, &messages).await.size(&model)
        };
        let audio = Audio { tokens_per_s: Some(10), least_kbps: Some(8), most_tokens: None };
        let most = |most| Some(Audio { most_tokens: Some(Tokens(most)), ..audio });
        let (minute, text) = (sound(&"A".repeat(80_000)), size(None, None, "").await.input.unwrap().0);
        let held = async |audio, part| size(audio, None, part).await.input.map(|tokens| tokens.0 - text);
        assert_eq!(held(Some(audio), &minute).await, Some(610));
        assert_eq!(held(most(500), &minute).await, Some(500), "the smaller of both");
        assert_eq!(
            held(Some(Audio { least_kbps: None, ..audio }), &minute).await,
            None,
            "its rate is not known"
        );
        assert_eq!(held(Some(audio), &[minute.clone(), minute.clone()].join(",")).await, Some(1_221));
        let file = r#"{"type":"file","file":{"file_id":"f"}}"#;
        let (known, unknown) = (size(None, Some(9_000), file).await, size(None, None, file).await);
        assert_eq!(known.input.map(|tokens| tokens.0 - text), Some(9_000));
        assert_eq!((known.likely_is_whole, unknown.input, unknown.unbounded), (false, None, Some("file")));
    }

    proptest! {
        /// Whatever a message says, a strict budget holds at least its tokens, and no more than a token for each byte.
        #[test]
        fn a_counted_bound_lies_between_the_tokens_and_the_bytes(said in ".{0,300}", role in "system|user|tool") {
            let content = serde_json::Value::from(said.as_str());
            let messages = format!(r#"[{{"role":"{role}","content":{content}}}]"#);
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let [counted, unknown] = runtime.block_on(sizes(&messages)).map(|size| size.input.unwrap());
            prop_assert!(Tokenizer::O200kBase.count(&said).unwrap() <= counted && counted <= unknown);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// The same of a tokenizer of a file, which may make more tokens of a text than it has bytes.
        #[test]
        fn a_bound_by_a_file_is_never_below_the_tokens(said in "[a-c 1ü\u{1d160}\u{fb2c}]{0,300}", role in "user|tool") {
            let plain = serde_json::Value::from(said.as_str()).to_string();
            let escaped: String = said.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
            let tiny = Vocabulary::read(fixtures::TINY_TOKENIZER.as_bytes(), Digest::default()).unwrap();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            for content in [plain, format!("\"{escaped}\"")] {
                let messages = format!(r#"[{{"role":"{role}","content":{content}}}]"#);
                let held = runtime.block_on(size_by_file(&messages)).input.unwrap();
                prop_assert!(tiny.count(&said).unwrap() <= held, "{held:?}");
            }
        }
    }

    /// A call's sizes: at a model of a known tokenizer that bounds its images, and at one of which nothing is known.
    async fn sizes(messages: &str) -> [Size; 2] {
        let unknown = fixtures::model("m", "http://127.0.0.1:1");
        let known = Model {
            tokenizer: Some("o200k_base".to_owned()),
            image_tokens: Some(Tokens(1_000)),
            ..unknown.clone()
        };
        let call = counted(&Counting::new(), &known, messages).await;
        [&known, &unknown].map(|model| call.size(model))
    }

    /// A call's size at a model whose tokenizer is a file.
    async fn size_by_file(messages: &str) -> Size {
        let (counting, dir) = (Counting::new(), tempfile::tempdir().unwrap());
        let json = Bytes::from_static(fixtures::TINY_TOKENIZER.as_bytes());
        let file = dir.path().join("tiny.json");
        seam::write_atomic(Host::real().disk().as_ref(), &file, json).await.unwrap();
        let plain = fixtures::model("m", "http://127.0.0.1:1");
        let model = Model { tokenizer: Some("tiny".to_owned()), ..plain };
        counting.read_files(&Host::real(), dir.path(), &catalog(&model)).await;
        counted(&counting, &model, messages).await.size(&model)
    }

    async fn counted(counting: &Counting, model: &Model, messages: &str) -> Call {
        let offers = Offers::compile(&catalog(model), &"here".parse().unwrap());
        let body = format!(r#"{{"model":"m","messages":{messages}}}"#);
        let mut call = read(&Asks::default(), body.into()).unwrap();
        call.count(counting, &Host::real(), offers.find("m").unwrap()).await;
        call
    }

    fn catalog(model: &Model) -> Catalog {
        let mut catalog = Catalog::default();
        catalog.models.insert(model.name.clone(), model.clone());
        catalog
    }

    #[test]
    fn the_calls_time_is_what_is_left_of_it() {
        let timeouts = Timeouts { total_ms: 1_000, ..Timeouts::default() };
        let after = |ms| left(timeouts, Duration::from_millis(ms)).map(|left| left.total_ms);
        assert_eq!((after(0), after(400), after(1_000)), (Some(1_000), Some(600), None));
    }
}
