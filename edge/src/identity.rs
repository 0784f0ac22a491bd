//! Who calls: the API key's hash leads to its holder.
//!
//! Decided here, from the `Authorization` header and the configuration in force: whether the key is one, whether it was
//! revoked, and whether the configuration is fresh enough for its tenant. Keys are looked up by their SHA-256, so that
//! the time a look-up takes tells a guesser nothing about any key. The key itself goes no further than this function.

use std::sync::Arc;

use base::{KeyHash, Mono};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use ring::digest;

use crate::snapshot::{Principal, Snapshot, Snapshots};

const SCHEME: &str = "bearer ";

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
pub(crate) fn identify(headers: &HeaderMap, snapshots: &Snapshots, now: Mono) -> Result<Caller, Unknown> {
    let key = key(headers)?;
    let snapshot = snapshots.load();
    let principal = snapshot.principal(&hash(key)).cloned();
    let age = snapshots.age(now);
    match principal {
        None if age == std::time::Duration::MAX => Err(Unknown::NoConfiguration),
        None => Err(Unknown::NoSuchKey),
        Some(principal) if principal.revoked => Err(Unknown::Revoked),
        Some(principal) if age > principal.max_stale => Err(Unknown::Stale),
        Some(principal) => Ok(Caller { principal, snapshot }),
    }
}

/// The key that a caller sent.
fn key(headers: &HeaderMap) -> Result<&[u8], Unknown> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next().ok_or(Unknown::Missing)?.as_bytes();
    if values.next().is_some() {
        return Err(Unknown::Malformed);
    }
    let (scheme, key) = value.split_at_checked(SCHEME.len()).ok_or(Unknown::Malformed)?;
    let key = key.trim_ascii();
    if !scheme.eq_ignore_ascii_case(SCHEME.as_bytes()) || key.is_empty() || key.len() > LONGEST {
        return Err(Unknown::Malformed);
    }
    Ok(key)
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
        let caller = identify(&sent("bearer sk-test"), &snapshots, at(1)).unwrap();
        assert_eq!(caller.principal().key.as_str(), "k1");
        assert!(identify(&sent("Bearer  sk-test "), &snapshots, at(1)).is_ok());
    }

    #[test]
    fn what_is_no_key_is_told_apart() {
        let snapshots = snapshots();
        let refused = |headers: &HeaderMap| identify(headers, &snapshots, at(1)).unwrap_err();
        assert_eq!(refused(&HeaderMap::new()), Unknown::Missing);
        assert_eq!(refused(&sent("Basic c2st")), Unknown::Malformed);
        assert_eq!(refused(&sent("Bearer ")), Unknown::Malformed);
        assert_eq!(refused(&sent("Bearer sk-wrong")), Unknown::NoSuchKey);
        assert_eq!(refused(&sent("Bearer sk-revoked")), Unknown::Revoked);
        let mut twice = sent("Bearer sk-test");
        twice.append(AUTHORIZATION, "Bearer sk-other".parse().unwrap());
        assert_eq!(refused(&twice), Unknown::Malformed);
    }

    #[test]
    fn configuration_that_is_absent_or_too_old_serves_nobody() {
        let empty = Snapshots::new("here".parse().unwrap());
        assert_eq!(identify(&sent("Bearer sk-test"), &empty, at(1)).unwrap_err(), Unknown::NoConfiguration);
        let snapshots = snapshots();
        assert_eq!(identify(&sent("Bearer sk-test"), &snapshots, at(3_700)).unwrap_err(), Unknown::Stale);
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

    fn sent(authorization: &str) -> HeaderMap {
        [(AUTHORIZATION, authorization.parse().unwrap())].into_iter().collect()
    }
}
