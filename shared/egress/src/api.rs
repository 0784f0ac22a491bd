//! What differs among the APIs that upstreams speak: where a call goes, how we make ourselves known, and whose headers
//! they know.

use std::borrow::Cow;

use dialect::Target;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};
use wire::call::CallHead;
use wire::catalog::{Dialect, Operation};

use crate::Credential;

const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const X_GOOG_API_KEY: HeaderName = HeaderName::from_static("x-goog-api-key");
const ANTHROPIC_VERSION: HeaderName = HeaderName::from_static("anthropic-version");

/// The one version of Anthropic's API that there is (<https://docs.anthropic.com/en/api/versioning>, read 2026-12-01).
const VERSION: HeaderValue = HeaderValue::from_static("2023-06-01");

/// Whose headers begin so.
const OWN: [(&str, Dialect); 2] = [("openai-", Dialect::Openai), ("anthropic-", Dialect::Anthropic)];

/// The conversion of an API.
#[must_use]
pub const fn target_of(dialect: Dialect) -> Target {
    match dialect {
        Dialect::Openai => Target::Openai,
        Dialect::Anthropic => Target::Anthropic,
        Dialect::Gemini => Target::Gemini,
    }
}

/// Where a call to the model that the upstream calls `model` goes, behind the root of the upstream's API; `None` where the
/// API has no such operation.
pub(crate) fn path(call: &CallHead, model: &str) -> Option<Cow<'static, str>> {
    let of_model = |method: &str| {
        // Models of one's own have a collection of their own.
        let collection = if model.contains('/') { "" } else { "models/" };
        format!("/v1beta/{collection}{}:{method}", encoded(model)).into()
    };
    Some(match (call.dialect, call.operation) {
        (Dialect::Openai, operation) => operation.openai_path().into(),
        (Dialect::Anthropic, Operation::Chat) => "/v1/messages".into(),
        (Dialect::Anthropic, Operation::Embeddings) => return None,
        (Dialect::Gemini, Operation::Chat) if call.stream => of_model("streamGenerateContent?alt=sse"),
        (Dialect::Gemini, Operation::Chat) => of_model("generateContent"),
        (Dialect::Gemini, Operation::Embeddings) => of_model("batchEmbedContents"),
    })
}

/// A name as it may stand in a path, its slashes too.
fn encoded(name: &str) -> String {
    let mut path = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' | b'@' => {
                path.push(byte.into());
            }
            other => path.push_str(&format!("%{other:02X}")),
        }
    }
    path
}

/// Puts what makes us known, and what else the API demands.
pub(crate) fn introduce(dialect: Dialect, credential: Option<&Credential>, headers: &mut HeaderMap) {
    let (name, value) = match dialect {
        Dialect::Openai => (AUTHORIZATION, credential.map(Credential::bearer)),
        Dialect::Anthropic => (X_API_KEY, credential.map(Credential::secret)),
        Dialect::Gemini => (X_GOOG_API_KEY, credential.map(Credential::secret)),
    };
    if let Some(value) = value {
        headers.insert(name, value.clone());
    }
    if dialect == Dialect::Anthropic {
        headers.entry(ANTHROPIC_VERSION).or_insert(VERSION);
    }
}

/// Whether a header is none of another API's own.
pub(crate) fn knows(dialect: Dialect, header: &str) -> bool {
    OWN.iter().all(|(prefix, owner)| *owner == dialect || !header.starts_with(prefix))
}
