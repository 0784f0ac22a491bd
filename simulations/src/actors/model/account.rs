//! The keys of a provider's account as the provider sees them: one may be revoked, one may have made all calls that it may.

use std::collections::BTreeMap;
use std::time::Duration;

use base::Mono;
use http::HeaderMap;
use http::header::HeaderValue;

use crate::history::Pass;
use crate::scenario::AccountKey;

/// What a provider knows of its keys.
#[derive(Debug, Default)]
pub(super) struct Account {
    /// By credential: when its span began, and its calls since.
    spans: BTreeMap<String, (Mono, u64)>,
}

impl Account {
    /// Whether the key that has `credential` may make a call at `now`, and what the answer tells of its limits.
    pub(super) fn admit(&mut self, key: &AccountKey, credential: &str, now: Mono) -> (Pass, HeaderMap) {
        let since = now.since(Mono::ZERO);
        if key.revoked_after_s.is_some_and(|after| since >= Duration::from_secs(after)) {
            return (Pass::Revoked, HeaderMap::new());
        }
        let Some(most) = key.requests else { return (Pass::Served, HeaderMap::new()) };
        let span = Duration::from_secs(key.per_s);
        let (began, made) = self.spans.entry(credential.to_owned()).or_insert((now, 0));
        if now.since(*began) >= span {
            (*began, *made) = (now, 0);
        }
        let left = span.saturating_sub(now.since(*began));
        if *made >= most {
            return (Pass::Wait(left.as_millis().div_ceil(1_000).try_into().unwrap_or(1)), HeaderMap::new());
        }
        *made += 1;
        let told = [
            ("x-ratelimit-limit-requests", most.to_string()),
            ("x-ratelimit-remaining-requests", (most - *made).to_string()),
            ("x-ratelimit-reset-requests", format!("{}ms", left.as_millis())),
        ];
        let told = told.into_iter().filter_map(|(name, value)| {
            Some((http::HeaderName::from_static(name), HeaderValue::try_from(value).ok()?))
        });
        (Pass::Served, told.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Mono = Mono::from_nanos(10_000_000_000);

    #[test]
    fn a_key_is_refused_once_it_made_its_calls_and_once_it_is_revoked() {
        let key = AccountKey { name: "a".into(), revoked_after_s: Some(60), requests: Some(1), per_s: 6 };
        let mut account = Account::default();
        let (pass, told) = account.admit(&key, "sk", AT);
        assert_eq!((pass, told["x-ratelimit-reset-requests"].as_bytes()), (Pass::Served, &b"6000ms"[..]));
        assert_eq!(account.admit(&key, "sk", AT + Duration::from_millis(500)).0, Pass::Wait(6));
        assert_eq!(account.admit(&key, "sk", AT + Duration::from_secs(6)).0, Pass::Served);
        assert_eq!(account.admit(&key, "sk", AT + Duration::from_secs(60)).0, Pass::Revoked);
    }
}
