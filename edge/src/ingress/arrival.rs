//! A call as it arrived: its head is here, its body still on its way.

use std::sync::Arc;

use base::{KeyHash, Mono, Name, Priority, RequestId, UserHash, WallMs};
use http::{HeaderMap, Uri};
use ring::digest;
use telemetry::trace::Context;
use wire::catalog::Operation;

use super::{Asks, Via, query};
use crate::identity::Unknown;
use crate::passes::Passes;

/// A call as it arrived; its body is still on its way.
#[derive(Debug)]
pub(crate) struct Arrival {
    /// Which call.
    pub(crate) request: RequestId,
    /// When its first byte came in.
    pub(crate) started: Mono,
    /// The same, on the wall clock.
    pub(crate) at: WallMs,
    /// What its path says of it.
    pub(crate) asks: Asks,
    /// What to do.
    pub(crate) operation: Operation,
    /// Its caller's key, as the key is known.
    pub(crate) key: Result<KeyHash, Unknown>,
    /// How it came in.
    pub(crate) via: Arc<Via>,
    /// The request's headers.
    pub(crate) headers: HeaderMap,
    /// On whose behalf, as its caller says.
    pub(crate) behalf: Behalf,
    /// Whether hops, attempts and timings are asked for.
    pub(crate) debug: bool,
    /// This call's place in its trace.
    pub(crate) trace: Context,
    /// The caller's span.
    pub(crate) parent: Option<u64>,
    /// The node's own limits, taken.
    pub(crate) _pass: Passes,
}

/// On whose behalf a call is made, beside its key's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Behalf {
    /// The scenario it belongs to.
    pub(crate) scenario: Option<Name>,
    /// The end user, by a hash; calls that name none are of one user.
    pub(crate) user: u64,
    /// How pressing it is at most.
    pub(crate) priority: Priority,
}

impl Behalf {
    /// The end user, when the caller named one.
    pub(crate) fn named_user(&self) -> Option<UserHash> {
        (self.user != NOBODY).then_some(UserHash(self.user))
    }
}

/// On whose behalf a request says that it is made.
///
/// # Errors
/// [`BadHeader`] when a header is malformed.
pub(crate) fn behalf(headers: &HeaderMap) -> Result<Behalf, BadHeader> {
    Ok(Behalf { scenario: scenario(headers)?, user: user(headers)?, priority: priority(headers)? })
}

/// The end user, known by 63 bits of a hash.
fn user(headers: &HeaderMap) -> Result<u64, BadHeader> {
    let mut values = headers.get_all(USER).iter();
    let Some(value) = values.next() else { return Ok(NOBODY) };
    let name = value.as_bytes().trim_ascii();
    if name.is_empty() || name.len() > UserHash::LONGEST_NAME || values.next().is_some() {
        return Err(BadHeader(USER));
    }
    Ok(UserHash::of_digest(digest::digest(&digest::SHA256, name).as_ref()).0)
}

/// The scenario that a request says it belongs to.
///
/// # Errors
/// [`BadHeader`] when it is no name.
fn scenario(headers: &HeaderMap) -> Result<Option<Name>, BadHeader> {
    let mut values = headers.get_all(SCENARIO).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let name = value.to_str().ok().and_then(|text| text.parse().ok());
    match (name, values.next()) {
        (Some(name), None) => Ok(Some(name)),
        (_no_name, _second) => Err(BadHeader(SCENARIO)),
    }
}

/// How pressing a request says that it is.
fn priority(headers: &HeaderMap) -> Result<Priority, BadHeader> {
    let mut values = headers.get_all(PRIORITY).iter();
    let Some(value) = values.next() else { return Ok(Priority::default()) };
    let named = Priority::ALL.into_iter().find(|priority| priority.as_str().as_bytes() == value.as_bytes());
    match (named, values.next()) {
        (Some(priority), None) => Ok(priority),
        (_no_priority, _second) => Err(BadHeader(PRIORITY)),
    }
}

/// A header that says something that it cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the header {0} is malformed")]
pub(crate) struct BadHeader(pub(crate) &'static str);

/// Whether a request asks for its hops, attempts and timings.
pub(crate) fn asks_debug(headers: &HeaderMap, uri: &Uri) -> bool {
    let by_header = headers.get("x-portolan-debug").is_some_and(|value| value.as_bytes() == b"true");
    by_header || query(uri).any(|pair| pair == "debug=true")
}

/// Names the scenario.
const SCENARIO: &str = "x-portolan-scenario";

/// Says how pressing the call is; never more than its key may say.
pub(crate) const PRIORITY: &str = "x-portolan-priority";

/// Names the end user: whatever the application knows them by.
pub(crate) const USER: &str = "x-portolan-user";

/// Stands for the end users of calls that name none.
const NOBODY: u64 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_told_apart_and_those_without_a_name_are_one() {
        let user = |names: &[&str]| {
            let mut headers = HeaderMap::new();
            for name in names {
                headers.append(USER, name.parse().unwrap());
            }
            behalf(&headers).map(|behalf| behalf.user)
        };
        assert_eq!(user(&[]), Ok(NOBODY));
        assert_eq!(user(&["ann"]), user(&[" ann "]));
        assert_ne!(user(&["ann"]), user(&["Ann"]));
        assert_eq!(user(&["ann", "bob"]), Err(BadHeader(USER)));
        assert_eq!(user(&[""]), Err(BadHeader(USER)));
        assert_eq!(user(&["x".repeat(257).as_str()]), Err(BadHeader(USER)));
    }

    #[test]
    fn a_call_says_how_pressing_it_is_once_and_in_words_that_are_known() {
        let priority = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(PRIORITY, value.parse().unwrap());
            }
            behalf(&headers).map(|behalf| behalf.priority)
        };
        assert_eq!(priority(&[]), Ok(Priority::Interactive));
        assert_eq!(priority(&["batch"]), Ok(Priority::Batch));
        assert_eq!(priority(&["urgent"]), Err(BadHeader(PRIORITY)));
        assert_eq!(priority(&["batch", "batch"]), Err(BadHeader(PRIORITY)));
    }
}
