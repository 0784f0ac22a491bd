//! A listener's certificate, read from files and read again when they change, without a restart.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, version};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use seam::{Host, Stop};

use crate::config::Tls;

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(5);

/// A listener's certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is not the PEM it should be.
    #[error("{} is no PEM file of {wanted}", path.display())]
    Pem {
        /// Which file.
        path: PathBuf,
        /// What it should hold.
        wanted: &'static str,
    },
    /// The certificate and the key do not fit each other, or TLS cannot use them.
    #[error("the certificate in {} cannot be used with the key in {}", certificate.display(), key.display())]
    Pair {
        /// The chain's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// Why.
        source: rustls::Error,
    },
}

/// The certificate in force. Cheap to clone; all clones see a change.
#[derive(Clone, Debug)]
pub(crate) struct Certificate {
    files: Tls,
    current: Arc<ArcSwap<CertifiedKey>>,
    read: Arc<ArcSwap<(Bytes, Bytes)>>,
}

impl Certificate {
    pub(crate) async fn load(host: &Host, files: Tls) -> Result<Self, TlsError> {
        let read = read(host, &files).await?;
        let current = Arc::new(ArcSwap::from_pointee(certified(&files, &read)?));
        Ok(Self { files, current, read: Arc::new(ArcSwap::from_pointee(read)) })
    }

    /// Follows the files until `stop`. Broken ones are told once and the certificate in force stays.
    pub(crate) async fn watch(&self, host: &Host, stop: &Stop) {
        while !stop.is_wanted() {
            tokio::select! {
                biased;
                () = stop.wanted() => return,
                () = host.sleep(LOOK) => {}
            }
            let files = self.files.certificate.display();
            match self.reload(host).await {
                Ok(true) => tracing::info!(%files, "the listener's certificate was renewed"),
                Ok(false) => {}
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, %files, "the listener's new certificate cannot be used; the old one stays");
                }
            }
        }
    }

    async fn reload(&self, host: &Host) -> Result<bool, TlsError> {
        let read = match read(host, &self.files).await {
            Ok(read) => read,
            // Renewal may replace the files at this moment; the next look tells.
            Err(_absent_for_now) => return Ok(false),
        };
        if **self.read.load() == read {
            return Ok(false);
        }
        self.read.store(Arc::new(read.clone()));
        self.current.store(Arc::new(certified(&self.files, &read)?));
        Ok(true)
    }

    /// TLS for byte streams: HTTP/2 or HTTP/1.1, as the caller's ALPN prefers.
    pub(crate) fn for_streams(&self) -> Result<ServerConfig, rustls::Error> {
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&version::TLS13, &version::TLS12])?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(self.clone()));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }

    /// TLS for QUIC: HTTP/3, without early data (a replayed call would be paid twice).
    pub(crate) fn for_quic(&self) -> Result<ServerConfig, rustls::Error> {
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&version::TLS13])?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(self.clone()));
        config.alpn_protocols = vec![b"h3".to_vec()];
        Ok(config)
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

async fn read(host: &Host, files: &Tls) -> Result<(Bytes, Bytes), TlsError> {
    Ok((read_file(host, &files.certificate).await?, read_file(host, &files.key).await?))
}

async fn read_file(host: &Host, path: &Path) -> Result<Bytes, TlsError> {
    host.disk().read(path).await.map_err(|source| TlsError::Read { path: path.to_owned(), source })
}

fn certified(files: &Tls, (chain, key): &(Bytes, Bytes)) -> Result<CertifiedKey, TlsError> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(chain)
        .collect::<Result<_, _>>()
        .map_err(|_no_pem| TlsError::Pem { path: files.certificate.clone(), wanted: "certificates" })?;
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|_no_pem| TlsError::Pem { path: files.key.clone(), wanted: "a private key" })?;
    if chain.is_empty() {
        return Err(TlsError::Pem { path: files.certificate.clone(), wanted: "certificates" });
    }
    CertifiedKey::from_der(chain, key, &provider()).map_err(|source| TlsError::Pair {
        certificate: files.certificate.clone(),
        key: files.key.clone(),
        source,
    })
}
