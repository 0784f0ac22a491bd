//! TLS towards upstreams: the public authorities, and those an operator adds.

use std::fmt;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use seam::ByteStream;
use tokio_rustls::TlsConnector;

/// Whom to trust among upstreams that speak TLS. Cheap to clone.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ClientConfig>,
}

/// Authorities that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the authorities for upstreams cannot be used: {0}")]
pub struct BadAuthority(String);

impl Tls {
    /// Trusts the public authorities.
    ///
    /// # Errors
    /// [`BadAuthority`] when the library refuses its own defaults.
    pub fn public() -> Result<Self, BadAuthority> {
        Self::with_authorities(b"")
    }

    /// Trusts the public authorities and the certificates in `pem`.
    ///
    /// # Errors
    /// [`BadAuthority`] when `pem` holds something else.
    pub fn with_authorities(pem: &[u8]) -> Result<Self, BadAuthority> {
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| BadAuthority(error.to_string()))?;
            roots.add(certificate).map_err(|error| BadAuthority(error.to_string()))?;
        }
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| BadAuthority(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config) })
    }

    /// Secures `stream` with the server `host`; also tells whether HTTP/2 was agreed.
    pub(crate) async fn secure(&self, stream: ByteStream, host: &str) -> std::io::Result<(ByteStream, bool)> {
        let name = ServerName::try_from(host.to_owned()).map_err(std::io::Error::other)?;
        let stream = TlsConnector::from(Arc::clone(&self.config)).connect(name, stream).await?;
        let h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        Ok((Box::new(stream), h2))
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}
