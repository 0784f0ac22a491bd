//! The mesh's own authority and the certificates it signs. Nothing here touches files.
//!
//! Node certificates are Ed25519 and carry the node's identity; those of listeners that callers reach are ECDSA P-256,
//! since not every client knows Ed25519, from an authority of their own.

use std::fmt;
use std::time::Duration;

use base::{Name, Role, WallMs};
use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, SanType,
};
use rustls::pki_types::PrivatePkcs8KeyDer;
use seam::Host;
use time::OffsetDateTime;

use crate::{Identity, IdentityError};

/// Certificates count from this long before they are made: clocks differ.
const BACKDATED: Duration = Duration::from_secs(3600);
/// What precedes the 32 bytes of an Ed25519 key in PKCS#8 (RFC 8410, section 7).
const ED25519_PKCS8: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

/// A certificate could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PkiError {
    /// The authority's certificate or key cannot be used.
    #[error("the authority's certificate or key is unusable: {0}")]
    Authority(String),
    /// A name does not fit into a certificate.
    #[error("{name:?} cannot stand in a certificate: {why}")]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// Signing failed.
    #[error("cannot make the certificate: {0}")]
    Sign(String),
}

/// A certificate and its private key, as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Issued {
    /// The certificate.
    pub certificate: String,
    /// Its private key, PKCS#8. Keep it in a file that only its owner reads.
    pub key: String,
}

impl fmt::Debug for Issued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issued").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// Makes the authority of a mesh.
///
/// # Errors
/// [`PkiError`] when signing fails.
pub fn create_authority(host: &Host, mesh: &Name, validity: Duration) -> Result<Issued, PkiError> {
    authority(host, &format!("portolan mesh {mesh}"), &ed25519(host)?, validity)
}

/// Makes the authority of a mesh's listeners.
///
/// # Errors
/// [`PkiError`] when signing fails.
pub fn create_listener_authority(host: &Host, mesh: &Name, validity: Duration) -> Result<Issued, PkiError> {
    authority(host, &format!("portolan listeners {mesh}"), &p256()?, validity)
}

/// Makes a node's certificate.
///
/// # Errors
/// [`PkiError`] when the authority cannot be used.
pub fn issue(
    host: &Host,
    authority: &Issued,
    identity: &Identity,
    validity: Duration,
) -> Result<Issued, PkiError> {
    let mut params = params(identity.node.as_str(), host.wall(), validity);
    params.subject_alt_names = vec![SanType::URI(text(&identity.to_string())?)];
    if identity.role == Role::Central {
        // For clients of the admin API that check a host's name and know nothing of identities.
        params.subject_alt_names.push(SanType::DnsName(text(identity.node.as_str())?));
    }
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    sign(authority, &params, &ed25519(host)?)
}

/// Makes the certificate of a listener that callers reach under `names` (DNS names and IP addresses).
///
/// # Errors
/// [`PkiError`] when a name is malformed or the authority cannot be used.
pub fn issue_listener(
    host: &Host,
    authority: &Issued,
    names: &[String],
    validity: Duration,
) -> Result<Issued, PkiError> {
    let subject = names.first().map_or("listener", String::as_str);
    let mut params = params(subject, host.wall(), validity);
    params.subject_alt_names = names.iter().map(|name| listener_name(name)).collect::<Result<_, _>>()?;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    sign(authority, &params, &p256()?)
}

/// What a certificate says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The node it names; of an authority or a listener its subject and addresses.
    pub subject: String,
    /// The authority that signed it.
    pub issuer: String,
    /// When it expires.
    pub expires: WallMs,
    /// When it begins to count.
    pub begins: WallMs,
    /// SHA-256 of the certificate, in hexadecimal: tells two apart that say the same.
    pub fingerprint: String,
}

/// Reads what a certificate (DER) says; nothing is verified.
///
/// # Errors
/// [`IdentityError::Malformed`] when it cannot be parsed.
pub fn describe(der: &[u8]) -> Result<Description, IdentityError> {
    let (_rest, parsed) =
        x509_parser::parse_x509_certificate(der).map_err(|_error| IdentityError::Malformed)?;
    let subject =
        Identity::of_certificate(der).map_or_else(|_none| parsed.subject().to_string(), |id| id.to_string());
    let at =
        |seconds: i64| WallMs::from_millis(u64::try_from(seconds).unwrap_or_default().saturating_mul(1000));
    let (begins, expires) = (parsed.validity().not_before, parsed.validity().not_after);
    let digest = ring::digest::digest(&ring::digest::SHA256, der);
    Ok(Description {
        subject,
        issuer: parsed.issuer().to_string(),
        expires: at(expires.timestamp()),
        begins: at(begins.timestamp()),
        fingerprint: digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect(),
    })
}

fn authority(host: &Host, subject: &str, key: &KeyPair, validity: Duration) -> Result<Issued, PkiError> {
    let mut params = params(subject, host.wall(), validity);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let certificate = params.self_signed(key).map_err(|error| PkiError::Sign(error.to_string()))?;
    Ok(Issued { certificate: certificate.pem(), key: key.serialize_pem() })
}

fn params(subject: &str, now: WallMs, validity: Duration) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.remove(DnType::CommonName);
    params.distinguished_name.push(DnType::CommonName, subject);
    params.not_before = date(WallMs::from_millis(
        now.as_millis().saturating_sub(u64::try_from(BACKDATED.as_millis()).unwrap_or(u64::MAX)),
    ));
    params.not_after = date(now.plus(validity));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    params
}

fn sign(authority: &Issued, params: &CertificateParams, key: &KeyPair) -> Result<Issued, PkiError> {
    let unusable = |error: rcgen::Error| PkiError::Authority(error.to_string());
    let signing = KeyPair::from_pem(&authority.key).map_err(unusable)?;
    let issuer = Issuer::from_ca_cert_pem(&authority.certificate, signing).map_err(unusable)?;
    let certificate = params.signed_by(key, &issuer).map_err(|error| PkiError::Sign(error.to_string()))?;
    Ok(Issued { certificate: certificate.pem(), key: key.serialize_pem() })
}

/// An Ed25519 key drawn from the host.
fn ed25519(host: &Host) -> Result<KeyPair, PkiError> {
    let mut seed = [0; 32];
    host.fill_random(&mut seed);
    let pkcs8 = [ED25519_PKCS8.as_slice(), &seed].concat();
    KeyPair::from_pkcs8_der_and_sign_algo(&PrivatePkcs8KeyDer::from(pkcs8), &PKCS_ED25519)
        .map_err(|error| PkiError::Sign(error.to_string()))
}

#[expect(clippy::disallowed_methods, reason = "an operator's command draws a listener's key, never a node")]
fn p256() -> Result<KeyPair, PkiError> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(|error| PkiError::Sign(error.to_string()))
}

fn listener_name(name: &str) -> Result<SanType, PkiError> {
    match name.parse() {
        Ok(address) => Ok(SanType::IpAddress(address)),
        Err(_not_an_address) => Ok(SanType::DnsName(text(name)?)),
    }
}

fn text(name: &str) -> Result<Ia5String, PkiError> {
    name.try_into()
        .map_err(|error: rcgen::Error| PkiError::Name { name: name.to_owned(), why: error.to_string() })
}

/// Certificates count in whole seconds up to the year 9999.
fn date(at: WallMs) -> OffsetDateTime {
    const YEAR_9999: i64 = 253_370_764_800;
    let seconds = i64::try_from(at.as_millis() / 1000).unwrap_or(YEAR_9999).min(YEAR_9999);
    OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}
