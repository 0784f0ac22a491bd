//! Roots of upstreams' APIs: `http://` or `https://`, a host, perhaps a port and a path; nothing secret in them.

/// Why a text is not the root of an upstream's API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum UrlError {
    /// Neither http nor https.
    #[error("must begin with http:// or https://")]
    Scheme,
    /// No host, or one that no name or address can have.
    #[error("has no well-formed host; write http://host:port or https://host/path")]
    Host,
    /// A port outside 1 to 65535.
    #[error("has a port that is not a number from 1 to 65535")]
    Port,
    /// A user or password.
    #[error("may not hold a user or password, which logs would show; give credentials to a provider")]
    Credentials,
    /// A query or fragment.
    #[error("may not have a query or a fragment; the operation's path is put behind it")]
    Query,
    /// White space or another character that a URL cannot hold.
    #[error("holds a character that a URL cannot have")]
    Character,
    /// The version belongs to the operation's path.
    #[error("ends with /v1, which the gateway adds itself; leave it out")]
    Version,
}

/// Checks `text`.
///
/// # Errors
/// The first [`UrlError`] found.
pub(super) fn check(text: &str) -> Result<(), UrlError> {
    if text
        .chars()
        .any(|c| !c.is_ascii_graphic() || matches!(c, '"' | '<' | '>' | '\\' | '^' | '`' | '{' | '|' | '}'))
    {
        return Err(UrlError::Character);
    }
    let rest =
        text.strip_prefix("http://").or_else(|| text.strip_prefix("https://")).ok_or(UrlError::Scheme)?;
    if rest.contains(['?', '#']) {
        return Err(UrlError::Query);
    }
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    if authority.contains('@') {
        return Err(UrlError::Credentials);
    }
    if path.trim_end_matches('/') == "v1" || path.trim_end_matches('/').ends_with("/v1") {
        return Err(UrlError::Version);
    }
    check_authority(authority)
}

fn check_authority(authority: &str) -> Result<(), UrlError> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(bracketed) => {
            let (address, rest) = bracketed.split_once(']').ok_or(UrlError::Host)?;
            address.parse::<std::net::Ipv6Addr>().map_err(|_bad| UrlError::Host)?;
            let port =
                if rest.is_empty() { None } else { Some(rest.strip_prefix(':').ok_or(UrlError::Host)?) };
            ("v6", port)
        }
        None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
    };
    let well_formed = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    if host.is_empty() || host.len() > 253 || !host.trim_end_matches('.').split('.').all(well_formed) {
        return Err(UrlError::Host);
    }
    match port.map(str::parse::<u16>) {
        None => Ok(()),
        Some(Ok(number)) if number > 0 => Ok(()),
        Some(Ok(_zero)) => Err(UrlError::Port),
        Some(Err(_not_a_number)) => Err(UrlError::Port),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_of_apis_pass_and_everything_else_says_why() {
        for good in [
            "http://10.0.0.1:8000",
            "https://api.example.com",
            "https://x.example/openai/",
            "http://[::1]:80",
            "http://localhost",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for (bad, why) in [
            ("ftp://x", UrlError::Scheme),
            ("example.com", UrlError::Scheme),
            ("http://", UrlError::Host),
            ("http://a..b", UrlError::Host),
            ("http://[::g]", UrlError::Host),
            ("http://x:0", UrlError::Port),
            ("http://x:99999", UrlError::Port),
            ("https://user:pass@x", UrlError::Credentials),
            ("https://x/?key=1", UrlError::Query),
            ("https://x y", UrlError::Character),
            ("https://x/v1/", UrlError::Version),
        ] {
            assert_eq!(check(bad), Err(why), "{bad}");
        }
    }
}
