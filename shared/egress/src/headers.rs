//! Which headers cross. To the upstream only those on a list: a list of forbidden ones always forgets one more name that
//! carries a key (case B112). To the caller all but those that belong to the upstream's connection or origin.

use http::HeaderName;
use http::header::{CONNECTION, HeaderMap};

/// Headers of a caller that an upstream may see. None of them carries a credential.
const TO_UPSTREAM: [&str; 10] = [
    "accept",
    "accept-language",
    "anthropic-beta",
    "anthropic-version",
    "baggage",
    "content-type",
    "openai-beta",
    "tracestate",
    "user-agent",
    "x-request-id",
];

/// Prefix of what OpenAI's and Anthropic's clients tell about themselves: language, version, retry count.
const CLIENT_FACTS: &str = "x-stainless-";

/// Headers of an upstream that no caller sees: they describe its connection, its origin or its body before our reading.
const NOT_TO_CALLER: [&str; 21] = [
    "alt-svc",
    "clear-site-data",
    "connection",
    "content-encoding",
    "content-length",
    "date",
    "keep-alive",
    "location",
    "nel",
    "proxy-authenticate",
    "proxy-connection",
    "refresh",
    "report-to",
    "server",
    "set-cookie",
    "strict-transport-security",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "www-authenticate",
];

/// Prefixes of an origin's rules for other origins, and of what is left of the limits of its key; ours are our own.
const OF_ORIGIN: [&str; 3] = ["access-control-", "x-ratelimit-", "anthropic-ratelimit-"];

/// Whether an upstream may see the caller's header `name` (in lower case).
#[must_use]
pub fn passes_to_upstream(name: &str) -> bool {
    TO_UPSTREAM.contains(&name) || name.starts_with(CLIENT_FACTS)
}

/// The caller's headers that an upstream may see, as a call carries them.
#[must_use]
pub fn for_upstream(headers: &HeaderMap) -> Vec<(String, Vec<u8>)> {
    let passing = headers.iter().filter(|(name, _value)| passes_to_upstream(name.as_str()));
    passing.map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec())).collect()
}

/// Removes from an upstream's answer what its caller must not see.
pub(crate) fn for_caller(headers: &mut HeaderMap) {
    let nominated: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in &nominated {
        headers.remove(name);
    }
    let foreign = |name: &&HeaderName| {
        let name = name.as_str();
        NOT_TO_CALLER.contains(&name) || OF_ORIGIN.iter().any(|prefix| name.starts_with(prefix))
    };
    let ours: Vec<HeaderName> = headers.keys().filter(foreign).cloned().collect();
    for name in &ours {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    /// Case B112.
    #[test]
    fn no_credential_of_the_caller_passes() {
        let sent = map(&[
            ("authorization", "Bearer vk-1"),
            ("x-api-key", "vk-2"),
            ("api-key", "vk-3"),
            ("x-goog-api-key", "vk-4"),
            ("xi-api-key", "vk-5"),
            ("cookie", "s=6"),
            ("proxy-authorization", "x"),
            ("x-internal-secret", "7"),
            ("content-type", "application/json"),
            ("x-stainless-lang", "python"),
        ]);
        let names: Vec<_> = for_upstream(&sent).into_iter().map(|(name, _value)| name).collect();
        assert_eq!(names, ["content-type", "x-stainless-lang"]);
    }

    #[test]
    fn what_belongs_to_the_upstreams_connection_stays_there() {
        let mut answer = map(&[
            ("connection", "keep-alive, X-Hop"),
            ("keep-alive", "timeout=5"),
            ("x-hop", "1"),
            ("set-cookie", "a=b"),
            ("content-length", "5"),
            ("access-control-allow-origin", "*"),
            ("x-ratelimit-remaining-tokens", "149984"),
            ("anthropic-ratelimit-requests-reset", "2026-01-01T00:00:00Z"),
            ("openai-processing-ms", "7"),
            ("x-unknown", "kept"),
        ]);
        for_caller(&mut answer);
        let names: Vec<_> = answer.keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["openai-processing-ms", "x-unknown"]);
    }
}
