//! Who calls: the API key's hash leads to its holder.
//!
//! Decided here, from what each API's clients send a key in and the configuration in force: whether the key is one, whether
//! it was revoked, and whether the configuration is fresh enough for its tenant. Keys are looked up by their SHA-256, so
//! that the time a look-up takes tells a guesser nothing about any key. The key itself goes no further than [`sent`].

use std::borrow::Cow;
use std::sync::Arc;

use base::{KeyHash, Mono};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use percent_encoding::percent_decode_str;
use ring::digest;

use crate::snapshot::{Principal, Snapshot, Snapshots};

const SCHEME: &str = "bearer ";

/// Headers that hold nothing but a key, as clients of Anthropic's and of Gemini's API send them.
const PLAIN: [&str; 2] = ["x-api-key", "x-goog-api-key"];

/// The longest text that can be a key; a longer one is not hashed.
const LONGEST: usize = 512;

/// Why nobody is known to call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unknown {
    /// There is no key.
    #[error("no key was sent")]
    Missing,
    /// The header is none of ours.
    #[error("the authorization header is malformed")]
    Malformed,
    /// Several keys were sent, and they differ.
    #[error("several keys were sent")]
    Several,
    /// No key has this hash.
    #[error("the key is unknown")]
    NoSuchKey,
    /// The key was revoked.
    #[error("the key is revoked")]
    Revoked,
    /// There is no configuration yet.
    #[error("there is no configuration yet")]
    NoConfiguration,
    /// The configuration is older than the tenant allows.
    #[error("the configuration is stale")]
    Stale,
}

/// Who calls, and the configuration that says so; the whole call is judged by it.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    principal: Arc<Principal>,
    snapshot: Arc<Snapshot>,
}

impl Caller {
    pub(crate) const fn principal(&self) -> &Arc<Principal> {
        &self.principal
    }

    pub(crate) const fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }
}

/// Finds out who calls.
///
/// # Errors
/// [`Unknown`] says why nobody is known.
pub(crate) fn identify(
    sent: Result<KeyHash, Unknown>,
    snapshots: &Snapshots,
    now: Mono,
) -> Result<Caller, Unknown> {
    let key = sent?;
    let snapshot = snapshots.load();
    let principal = snapshot.principal(&key).cloned();
    let age = snapshots.age(now);
    match principal {
        None if age == std::time::Duration::MAX => Err(Unknown::NoConfiguration),
        None => Err(Unknown::NoSuchKey),
        Some(principal) if principal.revoked => Err(Unknown::Revoked),
        Some(principal) if age > principal.max_stale => Err(Unknown::Stale),
        Some(principal) => Ok(Caller { principal, snapshot }),
    }
}

/// The key that a caller sent, as it is known: in a header, or in a member `key` of the `query`, where its API has that.
///
/// # Errors
/// [`Unknown`] when there is none, or no one key.
pub(crate) fn sent<'a>(
    headers: &HeaderMap,
    query: impl Iterator<Item = &'a str>,
) -> Result<KeyHash, Unknown> {
    let plain = PLAIN.iter().flat_map(|name| headers.get_all(*name)).map(|value| Cow::from(value.as_bytes()));
    let in_query = query.filter_map(|pair| pair.strip_prefix("key="));
    let in_query = in_query.map(|key| Cow::from(percent_decode_str(key)));
    let mut known = bearer(headers)?.map(hash);
    for key in plain.chain(in_query) {
        let key = key.trim_ascii();
        if key.len() > LONGEST {
            return Err(Unknown::Malformed);
        }
        // Clients that hold no key of this kind may send the header all the same.
        if !key.is_empty() && *known.get_or_insert_with(|| hash(key)) != hash(key) {
            return Err(Unknown::Several);
        }
    }
    known.ok_or(Unknown::Missing)
}

/// The key in the `Authorization` header.
fn bearer(headers: &HeaderMap) -> Result<Option<&[u8]>, Unknown> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Unknown::Malformed);
    }
    let value = value.as_bytes();
    let (scheme, key) = value.split_at_checked(SCHEME.len()).ok_or(Unknown::Malformed)?;
    let key = key.trim_ascii();
    if !scheme.eq_ignore_ascii_case(SCHEME.as_bytes()) || key.is_empty() || key.len() > LONGEST {
        return Err(Unknown::Malformed);
    }
    Ok(Some(key))
}

/// The hash under which a key is known.
pub(crate) fn hash(key: &[u8]) -> KeyHash {
    KeyHash::of_digest(digest::digest(&digest::SHA256, key).as_ref())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use base::{Era, Revision, Stamp};

    use super::*;
    use crate::fixtures;

    #[test]
    fn a_key_leads_to_its_holder_whatever_the_case_of_the_scheme() {
        let snapshots = snapshots();
        let caller = identify(bearer("bearer sk-test"), &snapshots, at(1)).unwrap();
        assert_eq!(caller.principal().key.as_str(), "k1");
        assert!(identify(bearer("Bearer  sk-test "), &snapshots, at(1)).is_ok());
    }

    #[test]
    fn what_is_no_key_is_told_apart() {
        let snapshots = snapshots();
        let refused = |pairs: &[(&str, &str)]| identify(by(pairs, ""), &snapshots, at(1)).unwrap_err();
        let bearer = |value: &str| refused(&[("authorization", value)]);
        assert_eq!(refused(&[]), Unknown::Missing);
        assert_eq!(bearer("Basic c2st"), Unknown::Malformed);
        assert_eq!(bearer("Bearer "), Unknown::Malformed);
        assert_eq!(bearer("Bearer sk-wrong"), Unknown::NoSuchKey);
        assert_eq!(bearer("Bearer sk-revoked"), Unknown::Revoked);
        let twice = [("authorization", "Bearer sk-test"), ("authorization", "Bearer sk-other")];
        assert_eq!(refused(&twice), Unknown::Malformed);
        assert_eq!(refused(&[("x-api-key", &"k".repeat(LONGEST + 1))]), Unknown::Malformed);
        assert_eq!(refused(&[("x-api-key", " ")]), Unknown::Missing);
    }

    #[test]
    fn each_apis_clients_may_send_the_key_their_way_and_two_must_be_the_same() {
        let snapshots = snapshots();
        let of = |pairs: &[(&str, &str)], query: &'static str| {
            identify(by(pairs, query), &snapshots, at(1)).map(|caller| caller.principal().key.to_string())
        };
        let known = Ok("k1".to_owned());
        assert_eq!(of(&[("x-api-key", "sk-test")], ""), known);
        assert_eq!(of(&[("x-goog-api-key", "sk-test")], ""), known);
        assert_eq!(of(&[], "alt=sse&key=sk%2Dtest"), known);
        let both = [("authorization", "Bearer sk-test"), ("x-api-key", "sk-test")];
        assert_eq!(of(&both, "key=sk-test"), known);
        assert_eq!(of(&both, "key=sk-revoked"), Err(Unknown::Several));
        let differ = [("x-api-key", "sk-test"), ("x-goog-api-key", "sk-wrong")];
        assert_eq!(of(&differ, ""), Err(Unknown::Several));
        assert_eq!(of(&[("x-api-key", "sk-test"), ("x-api-key", "sk-x")], ""), Err(Unknown::Several));
        assert_eq!(of(&[("authorization", "Bearer sk-test"), ("x-api-key", "")], ""), known);
    }

    #[test]
    fn configuration_that_is_absent_or_too_old_serves_nobody() {
        let empty = Snapshots::new("here".parse().unwrap());
        assert_eq!(identify(bearer("Bearer sk-test"), &empty, at(1)).unwrap_err(), Unknown::NoConfiguration);
        let snapshots = snapshots();
        assert_eq!(identify(bearer("Bearer sk-test"), &snapshots, at(3_700)).unwrap_err(), Unknown::Stale);
    }

    fn snapshots() -> Snapshots {
        let snapshots = Snapshots::new("here".parse().unwrap());
        let stamp = Stamp { era: Era(1), revision: Revision(1) };
        snapshots.install(stamp, fixtures::catalog(), at(0));
        snapshots
    }

    fn at(seconds: u64) -> Mono {
        Mono::ZERO + Duration::from_secs(seconds)
    }

    fn bearer(authorization: &str) -> Result<KeyHash, Unknown> {
        by(&[("authorization", authorization)], "")
    }

    fn by(pairs: &[(&str, &str)], query: &'static str) -> Result<KeyHash, Unknown> {
        sent(&headers(pairs), query.split('&'))
    }

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(http::HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
        }
        headers
    }
}
