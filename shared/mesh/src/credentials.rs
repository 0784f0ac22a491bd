//! A node's own certificate, key and authorities: read from files, replaced without a restart.
//!
//! New files are taken whole or not at all: certificate and key must fit, the certificate must be valid under the
//! authorities beside it, and name the node that runs. Handshakes after the change use the new ones; connections stay.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use base::WallMs;
use bytes::Bytes;
use rustls::RootCertStore;
use rustls::crypto::ring as provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::CertifiedKey;
use seam::{Host, Lock, Stop};

use crate::pki::describe;
use crate::tls::refused_chain;
use crate::{Identity, IdentityError, Refusal};

/// The node's certificate chain.
pub const CERTIFICATE: &str = "node.pem";
/// The node's private key.
pub const KEY: &str = "node.key";
/// Certificates of the authorities that the node trusts; during a change of authority, the old and the new.
pub const AUTHORITIES: &str = "ca.pem";

/// How often files are read again; new ones are in force after twice this.
const POLL: Duration = Duration::from_secs(2);
/// From this much validity left, taking up warns.
const EXPIRES_SOON: Duration = Duration::from_secs(3 * 24 * 3600);

/// What a node proves itself with. Cheap to clone; all clones see a change.
#[derive(Clone)]
pub struct Credentials {
    shared: Arc<Shared>,
}

struct Shared {
    host: Host,
    dir: Option<PathBuf>,
    current: ArcSwap<Keyring>,
    /// The files last looked at, so that a broken one is reported once.
    seen: Lock<Files>,
}

/// One consistent set of credentials.
pub(crate) struct Keyring {
    pub(crate) identity: Identity,
    pub(crate) certified: Arc<CertifiedKey>,
    pub(crate) roots: Arc<RootCertStore>,
    pub(crate) clients: Arc<dyn ClientCertVerifier>,
    expires: WallMs,
    key: PrivateKeyDer<'static>,
}

#[derive(Clone, PartialEq, Eq)]
struct Files {
    certificate: Bytes,
    key: Bytes,
    authorities: Bytes,
}

/// Credentials that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Which.
        path: PathBuf,
        /// What the disk said.
        source: io::Error,
    },
    /// A file is not the PEM it should be.
    #[error("{file} is not usable PEM: {why}")]
    Pem {
        /// Which.
        file: &'static str,
        /// What is wrong.
        why: String,
    },
    /// The key does not belong to the certificate.
    #[error("node.key does not belong to node.pem: {0}")]
    Key(String),
    /// The certificate names no node.
    #[error("node.pem: {0}")]
    Identity(#[from] IdentityError),
    /// The certificate is not valid under the authorities.
    #[error("node.pem is not valid under ca.pem: {0}")]
    Invalid(Refusal),
    /// The new certificate names another node than the one that runs.
    #[error("node.pem now names {found}, this node runs as {running}")]
    OtherNode {
        /// Named in the file.
        found: Box<Identity>,
        /// Running.
        running: Box<Identity>,
    },
}

impl Credentials {
    /// Reads `node.pem`, `node.key` and `ca.pem` in `dir`.
    ///
    /// # Errors
    /// [`CredentialsError`] names the file and what is wrong with it.
    pub async fn load(host: &Host, dir: &Path) -> Result<Self, CredentialsError> {
        let files = Files::read(host, dir).await?;
        Self::new(host, Some(dir.to_owned()), files)
    }

    /// Takes credentials from memory.
    ///
    /// # Errors
    /// [`CredentialsError`] says what is wrong.
    pub fn from_pem(
        host: &Host,
        certificate: &str,
        key: &str,
        authorities: &str,
    ) -> Result<Self, CredentialsError> {
        let files = Files {
            certificate: Bytes::copy_from_slice(certificate.as_bytes()),
            key: Bytes::copy_from_slice(key.as_bytes()),
            authorities: Bytes::copy_from_slice(authorities.as_bytes()),
        };
        Self::new(host, None, files)
    }

    fn new(host: &Host, dir: Option<PathBuf>, files: Files) -> Result<Self, CredentialsError> {
        let keyring = Keyring::parse(&files, host.wall())?;
        keyring.report(host.wall());
        let shared = Shared {
            host: host.clone(),
            dir,
            current: ArcSwap::from_pointee(keyring),
            seen: Lock::new(files),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Who this node is.
    #[must_use]
    pub fn identity(&self) -> Identity {
        self.keyring().identity.clone()
    }

    /// When the certificate expires.
    #[must_use]
    pub fn expires(&self) -> WallMs {
        self.keyring().expires
    }

    /// Follows the files until `stop`: new ones are taken up, broken ones reported once and left alone.
    pub async fn watch(&self, stop: Stop) {
        let mut before = None;
        loop {
            tokio::select! {
                biased;
                () = stop.wanted() => return,
                () = self.shared.host.sleep(POLL) => {}
            }
            // A rotation replaces three files one after the other: they are judged once they rest.
            let now = self.read().await.ok();
            if let Some(files) = now.clone().filter(|_files| now == before)
                && let Err(error) = self.take_up(files)
            {
                tracing::warn!(%error, "new credentials refused, the old ones stay");
            }
            before = now;
        }
    }

    /// Reads the files now; true when new ones are in force. Those refused before are not looked at again.
    ///
    /// # Errors
    /// [`CredentialsError`] when they cannot be read or used; the old ones stay in force.
    pub async fn reload(&self) -> Result<bool, CredentialsError> {
        let files = self.read().await?;
        self.take_up(files)
    }

    async fn read(&self) -> Result<Files, CredentialsError> {
        match &self.shared.dir {
            Some(dir) => Files::read(&self.shared.host, dir).await,
            None => Ok(self.shared.seen.lock().clone()),
        }
    }

    fn take_up(&self, files: Files) -> Result<bool, CredentialsError> {
        let now = self.shared.host.wall();
        let mut seen = self.shared.seen.lock();
        if *seen == files {
            return Ok(false);
        }
        *seen = files;
        let keyring = Keyring::parse(&seen, now)?;
        let running = self.identity();
        if keyring.identity != running {
            let found = Box::new(keyring.identity);
            return Err(CredentialsError::OtherNode { found, running: Box::new(running) });
        }
        keyring.report(now);
        self.shared.current.store(Arc::new(keyring));
        Ok(true)
    }

    pub(crate) fn host(&self) -> &Host {
        &self.shared.host
    }

    pub(crate) fn keyring(&self) -> Guard<Arc<Keyring>> {
        self.shared.current.load()
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({})", self.keyring().identity)
    }
}

impl Files {
    async fn read(host: &Host, dir: &Path) -> Result<Self, CredentialsError> {
        Ok(Self {
            certificate: read(host, dir, CERTIFICATE).await?,
            key: read(host, dir, KEY).await?,
            authorities: read(host, dir, AUTHORITIES).await?,
        })
    }
}

async fn read(host: &Host, dir: &Path, name: &str) -> Result<Bytes, CredentialsError> {
    let path = dir.join(name);
    host.disk().read(&path).await.map_err(|source| CredentialsError::Read { path, source })
}

impl Keyring {
    fn parse(files: &Files, now: WallMs) -> Result<Self, CredentialsError> {
        let chain = certificates(CERTIFICATE, &files.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(&files.key).map_err(|error| pem(KEY, &error))?;
        let mut roots = RootCertStore::empty();
        for authority in certificates(AUTHORITIES, &files.authorities)? {
            roots.add(authority).map_err(|error| pem(AUTHORITIES, &error))?;
        }
        let [leaf, intermediates @ ..] = chain.as_slice() else {
            return Err(pem(CERTIFICATE, &"it has no certificate"));
        };
        let (leaf, intermediates) = (leaf.clone(), intermediates.to_vec());
        let identity = Identity::of_certificate(&leaf)?;
        let expires = describe(&leaf)?.expires;
        let provider = Arc::new(provider::default_provider());
        let certified = CertifiedKey::from_der(chain, key.clone_key(), &provider)
            .map_err(|error| CredentialsError::Key(error.to_string()))?;
        let roots = Arc::new(roots);
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), provider)
            .build()
            .map_err(|error| pem(AUTHORITIES, &error))?;
        let at = UnixTime::since_unix_epoch(Duration::from_millis(now.as_millis()));
        clients
            .verify_client_cert(&leaf, &intermediates, at)
            .map_err(|error| CredentialsError::Invalid(refused_chain(&error, Some(&identity))))?;
        Ok(Self { identity, certified: Arc::new(certified), roots, clients, expires, key })
    }

    /// The private key's bytes, for keys derived from it.
    pub(crate) fn secret(&self) -> &[u8] {
        self.key.secret_der()
    }

    fn report(&self, now: WallMs) {
        let hours = self.expires.since(now).as_secs() / 3600;
        if self.expires.since(now) < EXPIRES_SOON {
            tracing::warn!(identity = %self.identity, hours, "the node's certificate expires soon");
        } else {
            tracing::info!(identity = %self.identity, hours, "credentials in force");
        }
    }
}

fn certificates(file: &'static str, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, CredentialsError> {
    CertificateDer::pem_slice_iter(text).collect::<Result<_, _>>().map_err(|error| pem(file, &error))
}

fn pem(file: &'static str, why: &dyn fmt::Display) -> CredentialsError {
    CredentialsError::Pem { file, why: why.to_string() }
}
