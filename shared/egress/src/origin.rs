//! Where an upstream is and how we make ourselves known to it.

use std::fmt;
use std::str::FromStr;

use http::HeaderValue;
use http::uri::{Authority, Scheme, Uri};

/// Root of an upstream's API: scheme, host, port, and a path prefix that may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    tls: bool,
    host: String,
    port: u16,
    authority: Authority,
    host_header: HeaderValue,
    prefix: String,
}

/// A text that is not an upstream's URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not the URL of an upstream: {why}; expected such as https://models.example:8000")]
pub struct BadOrigin {
    why: &'static str,
}

impl FromStr for Origin {
    type Err = BadOrigin;

    fn from_str(text: &str) -> Result<Self, BadOrigin> {
        let uri: Uri = text.parse().map_err(|_bad| BadOrigin { why: "it does not parse" })?;
        let parts = uri.into_parts();
        let tls = match parts.scheme {
            Some(scheme) if scheme == Scheme::HTTP => false,
            Some(scheme) if scheme == Scheme::HTTPS => true,
            Some(_) | None => return Err(BadOrigin { why: "it must begin with http:// or https://" }),
        };
        let authority = parts.authority.ok_or(BadOrigin { why: "it names no host" })?;
        if authority.as_str().contains('@') {
            return Err(BadOrigin { why: "it may not hold a user name or password" });
        }
        let path = parts.path_and_query.as_ref();
        if path.is_some_and(|path| path.query().is_some()) {
            return Err(BadOrigin { why: "it may not have a query" });
        }
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        let port = authority.port_u16().unwrap_or(if tls { 443 } else { 80 });
        let host_header = HeaderValue::from_str(authority.as_str())
            .map_err(|_bad| BadOrigin { why: "its host is no header value" })?;
        let prefix = path.map_or("", |path| path.path()).trim_end_matches('/').to_owned();
        Ok(Self { tls, host, port, authority, host_header, prefix })
    }
}

impl Origin {
    /// Whether it speaks TLS.
    #[must_use]
    pub const fn is_tls(&self) -> bool {
        self.tls
    }

    /// Its host, without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Its port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    pub(crate) const fn host_header(&self) -> &HeaderValue {
        &self.host_header
    }

    /// The request target of `path`: with scheme and host where HTTP/2 wants them.
    pub(crate) fn target(&self, path: &str, absolute: bool) -> Option<Uri> {
        let target = format!("{}{path}", self.prefix);
        if !absolute {
            return target.parse().ok();
        }
        let scheme = if self.tls { Scheme::HTTPS } else { Scheme::HTTP };
        Uri::builder().scheme(scheme).authority(self.authority.clone()).path_and_query(target).build().ok()
    }
}

/// What makes us known to an upstream. It never shows itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    secret: HeaderValue,
    bearer: HeaderValue,
}

impl Credential {
    /// Of a secret; `None` when it cannot stand in a header.
    #[must_use]
    pub fn of(secret: &str) -> Option<Self> {
        let hidden = |text: &str| {
            let mut value = HeaderValue::from_str(text).ok()?;
            value.set_sensitive(true);
            Some(value)
        };
        Some(Self { secret: hidden(secret)?, bearer: hidden(&format!("Bearer {secret}"))? })
    }

    /// As it is.
    pub(crate) const fn secret(&self) -> &HeaderValue {
        &self.secret
    }

    /// As a bearer token.
    pub(crate) const fn bearer(&self) -> &HeaderValue {
        &self.bearer
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_gives_targets_for_both_protocols() {
        let origin: Origin = "https://[::1]:8443/api/".parse().unwrap();
        assert_eq!((origin.host(), origin.port(), origin.is_tls()), ("::1", 8443, true));
        assert_eq!(origin.target("/v1/x", false).unwrap(), "/api/v1/x");
        assert_eq!(origin.target("/v1/x", true).unwrap(), "https://[::1]:8443/api/v1/x");
        assert_eq!("http://models".parse::<Origin>().unwrap().port(), 80);
    }

    #[test]
    fn what_is_no_origin_is_refused() {
        for text in ["", "models:80", "ftp://x", "/v1", "http://user:key@host", "http://host?key=1"] {
            assert!(text.parse::<Origin>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_credential_does_not_show_itself() {
        let credential = Credential::of("sk-secret").unwrap();
        let shown = format!("{credential:?} {:?} {:?}", credential.bearer(), credential.secret());
        assert_eq!(shown, "Credential(..) Sensitive Sensitive");
    }
}
