//! One attempt as operators read it, in a record and in the debug header: with the stable codes that callers get, not with
//! the names that nodes use among themselves.

use base::Code;
use serde::{Serialize, Serializer};
use wire::call::{Hop, Note};

/// One attempt at one upstream, or at a node of which nothing was heard about its upstreams. Times are microseconds
/// since the attempt began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Attempt {
    /// The node that tried.
    pub node: String,
    /// The replica, the provider or the node that was asked.
    pub upstream: String,
    /// The name of the provider's key that it was asked with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_key: Option<String>,
    /// The HTTP status that the upstream answered with, when it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Why it came to nothing, when it did.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "stable")]
    pub code: Option<Code>,
    /// What the upstream said to a failed attempt, at most 300 characters, without what looks like a secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Until a connection was in hand.
    pub connected_us: u32,
    /// Until the first byte of the body; absent when none came.
    pub first_byte_us: Option<u32>,
    /// Until it ended.
    pub total_us: u32,
}

impl Attempt {
    /// An attempt with what its upstream said.
    #[must_use]
    pub fn new(hop: &Hop, note: Option<&Note>) -> Self {
        let said = note.map(|note| note.said.as_str()).filter(|said| !said.is_empty());
        Self {
            node: hop.node.to_string(),
            upstream: hop.upstream.to_string(),
            provider_key: hop.key.as_ref().map(ToString::to_string),
            status: hop.result.ok().or_else(|| note?.status),
            code: hop.result.err(),
            message: said.map(str::to_owned),
            connected_us: hop.connected_us,
            first_byte_us: hop.first_byte_us,
            total_us: hop.total_us,
        }
    }

    /// The same for callers who debug: an upstream's words are for operators.
    #[must_use]
    pub fn without_words(self) -> Self {
        Self { message: None, ..self }
    }
}

/// A code as callers get it.
///
/// # Errors
/// The serializer's.
#[expect(clippy::ref_option, reason = "serde hands fields over by reference")]
pub(super) fn stable<S: Serializer>(code: &Option<Code>, serializer: S) -> Result<S::Ok, S::Error> {
    code.map(Code::as_str).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_code_is_spelled_as_callers_get_it() {
        for code in Code::ALL {
            let hop = Hop {
                node: "edge-eu".parse().unwrap(),
                upstream: "tiny-1".parse().unwrap(),
                key: None,
                result: Err(*code),
                connected_us: 1,
                first_byte_us: None,
                total_us: 2,
            };
            let told = serde_json::to_value(Attempt::new(&hop, None)).unwrap();
            assert_eq!((&told["code"], told.get("status")), (&json!(code.as_str()), None));
            let answered = serde_json::to_value(Attempt::new(&Hop { result: Ok(200), ..hop }, None)).unwrap();
            assert_eq!((&answered["status"], answered.get("code")), (&json!(200), None));
        }
    }
}
