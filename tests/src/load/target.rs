//! Where a load goes, and what it sends.

use std::fs::File;
use std::io::BufReader;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};

use crate::client::Failed;

/// The credentials and model of all calls of a load.
#[derive(Args, Clone, Debug)]
pub(super) struct Caller {
    /// Bearer key.
    #[arg(long, default_value = "")]
    key: String,
    /// Model to ask for.
    #[arg(long, default_value = "mock")]
    model: String,
    /// Authority of the gateway's certificate, a PEM file; needed for https.
    #[arg(long)]
    ca: Option<PathBuf>,
}

/// A gateway on this machine.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) addr: SocketAddr,
    pub(super) tls: Option<(Arc<rustls::ClientConfig>, ServerName<'static>)>,
    authority: String,
}

/// What a call asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    /// Stream the reply.
    pub(super) stream: bool,
    /// Words in the user's message; the demo model server says them back.
    pub(super) words: usize,
    /// The cap on the reply's tokens.
    pub(super) max_tokens: u32,
    /// What the mock upstream is to stream: chunks, and the gap between them in milliseconds.
    pub(super) paced: Option<(u32, u32)>,
}

impl Caller {
    /// The gateway at `url`.
    pub(super) fn target(&self, url: &str) -> Result<Target, Failed> {
        let (scheme, authority) =
            url.trim_end_matches('/').split_once("://").ok_or("a URL is http://HOST:PORT")?;
        let (host, port) = authority.rsplit_once(':').ok_or("a URL is http://HOST:PORT, without a path")?;
        let ip = if host == "localhost" {
            IpAddr::V4(Ipv4Addr::LOCALHOST)
        } else {
            host.trim_matches(['[', ']']).parse().map_err(|_error| format!("{host} is no address"))?
        };
        let addr = loopback(SocketAddr::new(ip, port.parse()?))?;
        let tls = match scheme {
            "http" => None,
            "https" => Some((self.trust()?, ServerName::try_from(host.to_owned())?)),
            _ => return Err(format!("{scheme} is neither http nor https").into()),
        };
        Ok(Target { addr, tls, authority: authority.to_owned() })
    }

    /// The bytes of a call.
    pub(super) fn request(&self, target: &Target, ask: Ask) -> Vec<u8> {
        let words: Vec<String> = (0..ask.words).map(|at| format!("word{at}")).collect();
        let mut body = serde_json::json!({
            "model": self.model,
            "max_tokens": ask.max_tokens,
            "messages": [{"role": "user", "content": words.join(" ")}],
        });
        if ask.stream {
            body["stream"] = true.into();
        }
        if let Some((chunks, gap_ms)) = ask.paced {
            body["mock_chunks"] = chunks.into();
            body["mock_gap_ms"] = gap_ms.into();
        }
        let body = body.to_string();
        let mut request = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n",
            target.authority,
            body.len()
        );
        if !self.key.is_empty() {
            request += &format!("authorization: Bearer {}\r\n", self.key);
        }
        (request + "\r\n" + &body).into_bytes()
    }

    fn trust(&self) -> Result<Arc<rustls::ClientConfig>, Failed> {
        let path = self.ca.as_ref().ok_or("https needs --ca")?;
        let mut roots = rustls::RootCertStore::empty();
        for certificate in CertificateDer::pem_reader_iter(&mut BufReader::new(File::open(path)?)) {
            roots.add(certificate?)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Arc::new(config))
    }
}

/// Refuses every address that leaves this machine.
pub(super) fn loopback(addr: SocketAddr) -> Result<SocketAddr, Failed> {
    if addr.ip().is_loopback() {
        return Ok(addr);
    }
    Err(format!("{addr} is not a loopback address; this tool loads this machine only").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_loaded() {
        let caller = Caller { key: String::new(), model: "m".to_owned(), ca: None };
        assert!(caller.target("http://localhost:80").is_ok());
        assert!(caller.target("http://[::1]:80/").is_ok());
        for url in
            ["http://192.0.2.1:80", "http://example.org:80", "ftp://127.0.0.1:80", "https://127.0.0.1:80"]
        {
            assert!(caller.target(url).is_err(), "{url}");
        }
    }
}
