//! Where another node is: a host by name or by address, and a port. A name is looked up by whoever dials, each time anew.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use crate::{Value, text};

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPort {
    /// A name, or an address without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl HostPort {
    /// The address, when it is written out.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        Some(SocketAddr::new(self.host.parse().ok()?, self.port))
    }
}

impl From<SocketAddr> for HostPort {
    fn from(at: SocketAddr) -> Self {
        Self { host: at.ip().to_string(), port: at.port() }
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address() {
            Some(address) => write!(f, "{address}"),
            None => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// It is neither an address nor a name with a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not a host and a port, such as central-eu.example:7400, 10.0.0.1:7400 or [2001:db8::1]:7400")]
pub struct NotHostPort;

impl FromStr for HostPort {
    type Err = NotHostPort;

    fn from_str(text: &str) -> Result<Self, NotHostPort> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(address.into());
        }
        let (host, port) = text.rsplit_once(':').ok_or(NotHostPort)?;
        let port = port.parse().map_err(|_not_a_port| NotHostPort)?;
        // What looks like an IPv4 address and is none would be looked up in vain.
        let digits = host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        if digits || host.len() > 253 || !host.split('.').all(is_label) {
            return Err(NotHostPort);
        }
        Ok(Self { host: host.to_owned(), port })
    }
}

/// A part of a name (RFC 1123, section 2.1; underscores occur inside clusters).
fn is_label(label: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=63).contains(&label.len())
        && label.bytes().all(inside)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// A host by name or address, and a port.
///
/// # Errors
/// What is wrong and the mend, in words.
pub fn host_port(value: &Value) -> Result<HostPort, String> {
    let text = text(value)?;
    text.parse().map_err(|error: NotHostPort| format!("{text:?} {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_named_or_written_out_and_anything_else_is_refused() {
        for good in ["central-eu.example:7400", "localhost:1", "10.0.0.1:7400", "[::1]:7400", "a_b.svc:7"] {
            assert_eq!(good.parse::<HostPort>().map(|at| at.to_string()), Ok(good.to_owned()));
        }
        for bad in [
            "",
            "central",
            "central:",
            ":7400",
            "10.0.0:7400",
            "300.1.1.1:7400",
            "::1:7400",
            "a b:1",
            "a:70000",
            "-a:1",
            "a..b:1",
            "https://a:1",
        ] {
            assert_eq!(bad.parse::<HostPort>(), Err(NotHostPort), "{bad}");
        }
    }
}
