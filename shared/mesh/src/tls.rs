//! TLS 1.3 with certificates on both sides, read from [`Credentials`] at each handshake: a rotation needs no restart.
//!
//! A peer's certificate is checked in this order: authority and validity, identity, mesh, then what this node expects.
//! Nothing is resumed, because a resumed session skips these checks.

use std::fmt;
use std::sync::Arc;

use base::Role;
use ring::hkdf;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, Resumption, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::{CryptoProvider, ring as provider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::time_provider::TimeProvider;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, ServerConfig};
use rustls::{OtherError, SignatureScheme};
use seam::Host;

use crate::credentials::Keyring;
use crate::expect::{check_mesh, check_roles};
use crate::{Check, Credentials, Expect, Identity, Refusal};

/// The name sent in the handshake. Identities are in certificates; this one only satisfies the protocol.
pub const SERVER_NAME: &str = "node.portolan.internal";

/// A TLS client that connects only to the node that `expect` describes.
///
/// # Errors
/// When the provider lacks TLS 1.3.
pub fn client_config(
    credentials: &Credentials,
    expect: &Expect,
    alpn: &[&[u8]],
) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(provider::default_provider());
    let verifier = ExpectedServer {
        credentials: credentials.clone(),
        expect: expect.clone(),
        provider: provider.clone(),
    };
    let mut config =
        ClientConfig::builder_with_details(provider, Arc::new(HostTime(credentials.host().clone())))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_client_cert_resolver(Arc::new(OwnCertificate(credentials.clone())));
    config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// A TLS server that lets in nodes of its own mesh with one of `roles`.
///
/// # Errors
/// When the provider lacks TLS 1.3.
pub fn server_config(
    credentials: &Credentials,
    roles: &'static [Role],
    alpn: &[&[u8]],
) -> Result<ServerConfig, rustls::Error> {
    let provider = Arc::new(provider::default_provider());
    let verifier = AllowedClients { credentials: credentials.clone(), roles, provider: provider.clone() };
    let mut config =
        ServerConfig::builder_with_details(provider, Arc::new(HostTime(credentials.host().clone())))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(Arc::new(verifier))
            .with_cert_resolver(Arc::new(OwnCertificate(credentials.clone())));
    config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// The key of address validation tokens, drawn from the host.
pub(crate) fn token_key(host: &Host) -> hkdf::Prk {
    let mut secret = [0; 64];
    host.fill_random(&mut secret);
    hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(&secret)
}

/// The host's wall clock: certificates expire by the clock of the node that checks them.
#[derive(Debug)]
struct HostTime(Host);

impl TimeProvider for HostTime {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(std::time::Duration::from_millis(self.0.wall().as_millis())))
    }
}

/// The node's certificate as it now stands.
#[derive(Debug)]
struct OwnCertificate(Credentials);

impl ResolvesClientCert for OwnCertificate {
    fn resolve(&self, _authorities: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.keyring().certified))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

impl ResolvesServerCert for OwnCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.keyring().certified))
    }
}

#[derive(Debug)]
struct ExpectedServer {
    credentials: Credentials,
    expect: Expect,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for ExpectedServer {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let keyring = self.credentials.keyring();
        let algorithms = self.provider.signature_verification_algorithms.all;
        let chain = ParsedCertificate::try_from(certificate).and_then(|parsed| {
            verify_server_cert_signed_by_trust_anchor(&parsed, &keyring.roots, intermediates, now, algorithms)
        });
        peer(&keyring, certificate, chain)
            .and_then(|peer| self.expect.check(&peer))
            .map(|()| ServerCertVerified::assertion())
            .map_err(refuse)
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::PeerIncompatible::Tls13RequiredForQuic.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[derive(Debug)]
struct AllowedClients {
    credentials: Credentials,
    roles: &'static [Role],
    provider: Arc<CryptoProvider>,
}

impl ClientCertVerifier for AllowedClients {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let keyring = self.credentials.keyring();
        let chain = keyring.clients.verify_client_cert(certificate, intermediates, now).map(|_verified| ());
        peer(&keyring, certificate, chain)
            .and_then(|peer| check_roles(self.roles, &peer))
            .map(|()| ClientCertVerified::assertion())
            .map_err(refuse)
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::PeerIncompatible::Tls13RequiredForQuic.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// The peer's identity, once its chain is good and its mesh is ours.
fn peer(
    keyring: &Keyring,
    certificate: &CertificateDer<'_>,
    chain: Result<(), rustls::Error>,
) -> Result<Identity, Refusal> {
    let claimed = Identity::of_certificate(certificate);
    if let Err(error) = chain {
        return Err(refused_chain(&error, claimed.as_ref().ok()));
    }
    let peer = claimed.map_err(|error| Refusal::new(Check::Identity, error.to_string()))?;
    check_mesh(&keyring.identity, &peer)?;
    Ok(peer)
}

pub(crate) fn refused_chain(error: &rustls::Error, claimed: Option<&Identity>) -> Refusal {
    let check = match error {
        rustls::Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        ) => Check::Expired,
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
        ) => Check::NotYetValid,
        rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        ) => Check::Authority,
        _other => Check::Certificate,
    };
    let claimed = claimed.map_or_else(|| "nobody".to_owned(), ToString::to_string);
    Refusal::new(check, format!("{error} (it claims {claimed})"))
}

/// Carries the refusal's words through TLS: they become the closing reason that the peer reads.
fn refuse(refusal: Refusal) -> rustls::Error {
    CertificateError::Other(OtherError(Arc::new(Words(refusal)))).into()
}

/// TLS shows a foreign error by its debug form alone.
#[derive(thiserror::Error)]
#[error("{0}")]
struct Words(Refusal);

impl fmt::Debug for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
