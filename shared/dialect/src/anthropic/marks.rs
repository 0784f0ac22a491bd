//! Two things that the Messages API has no place for, in places that it has: ids of tool calls with characters that it refuses,
//! and signatures that another provider put on a call of a tool.
//!
//! Both are pure functions of what they stand for, so that every turn of a conversation, in every region, says the same.

use std::borrow::Cow;

/// Begins each id that is spelt otherwise. An id that begins so by itself is spelt otherwise too, so that no two ids meet.
const SPELT: &str = "esc-";

/// Begins the signature of a thought that stands for the signature of the call after it.
const OF_CALL: &str = "of-call:";

/// The id as this API takes it, of letters, digits, `_` and `-`.
pub(super) fn id(id: &str) -> Cow<'_, str> {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if !id.is_empty() && !id.starts_with(SPELT) && id.bytes().all(|byte| fine(byte) || byte == b'-') {
        return Cow::Borrowed(id);
    }
    let mut spelt = SPELT.to_owned();
    for byte in id.bytes() {
        if fine(byte) {
            spelt.push(char::from(byte));
        } else {
            spelt.push_str(&format!("-{byte:02x}"));
        }
    }
    Cow::Owned(spelt)
}

/// A call's signature as that of an empty thought before it: callers give thoughts back unchanged.
pub(super) fn signature_of_call(signature: &str) -> String {
    format!("{OF_CALL}{signature}")
}

/// The call's signature that a thought stands for.
pub(super) fn call_of_signature(signature: &str) -> Option<&str> {
    signature.strip_prefix(OF_CALL)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Case B041.
    #[test]
    fn ids_are_spelt_with_what_the_api_takes_and_stay_different() {
        let ids = ["fs.read:0", "a.b", "a:b", "a-b", "", "esc-", "esc-a-2eb", "toolu_01-x", "é"];
        let spelt: Vec<_> = ids.iter().map(|one| id(one)).collect();
        for one in &spelt {
            assert!(!one.is_empty());
            assert!(one.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)), "{one}");
        }
        let mut distinct = spelt.clone();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), ids.len());
        assert_eq!((&*spelt[3], &*spelt[7]), ("a-b", "toolu_01-x"), "good ids stay");
    }
}
