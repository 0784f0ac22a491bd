//! Sealing of providers' credentials: AES-256-GCM under keys that stand in a file of the node and never in the log.
//!
//! The provider's and the key's name are bound into each seal, so that a sealed credential cannot be moved to another of either. A nonce
//! is drawn for each seal. The first key of the file seals, all of them open: to rotate, put the new key first on every
//! node, apply the credentials again, then drop the old key.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use central_core::{KeyOf, Sealed};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use seam::Host;

/// Keys that seal and open credentials.
pub struct SealKeys {
    first: u32,
    keys: BTreeMap<u32, LessSafeKey>,
}

/// The file of sealing keys cannot be used, or a seal cannot be made or opened.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// The file cannot be read.
    #[error("cannot read the sealing keys {path}: {source}")]
    Read {
        /// Which file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The file does not hold keys.
    #[error("{path}:{line}: a sealing key is a number, a space and 64 hexadecimal digits, one a line")]
    Form {
        /// Which file.
        path: String,
        /// Where.
        line: usize,
    },
    /// The credential was sealed under a key that the file lacks.
    #[error("the credential of {of} is sealed under sealing key {key}, which this node does not have")]
    UnknownKey {
        /// Whose credential.
        of: KeyOf,
        /// Which key.
        key: u32,
    },
    /// The seal is broken, or was made for another provider or key.
    #[error("the sealed credential of {0} does not open")]
    Broken(KeyOf),
    /// The cipher refused, which only a fault of ours causes.
    #[error("the credential of {0} cannot be sealed")]
    Cipher(KeyOf),
}

impl SealKeys {
    /// Reads a file of keys.
    ///
    /// # Errors
    /// [`SealError::Read`] or [`SealError::Form`].
    pub async fn load(host: &Host, path: &Path) -> Result<Self, SealError> {
        let shown = path.display().to_string();
        let read = host.disk().read(path).await;
        let bytes = read.map_err(|source| SealError::Read { path: shown.clone(), source })?;
        Self::parse(&String::from_utf8_lossy(&bytes)).map_err(|line| SealError::Form { path: shown, line })
    }

    /// Reads keys, one a line; on failure, the line at fault.
    fn parse(text: &str) -> Result<Self, usize> {
        let (mut first, mut keys) = (None, BTreeMap::new());
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (id, key) = key(line).ok_or(at + 1)?;
            first.get_or_insert(id);
            if keys.insert(id, key).is_some() {
                return Err(at + 1);
            }
        }
        first.map(|first| Self { first, keys }).ok_or(1)
    }

    /// Seals the credential of a provider's key.
    ///
    /// # Errors
    /// [`SealError::Cipher`], which only a fault of ours causes.
    pub fn seal(&self, host: &Host, of: &KeyOf, secret: &str) -> Result<Sealed, SealError> {
        let failed = || SealError::Cipher(of.clone());
        let key = self.keys.get(&self.first).ok_or_else(failed)?;
        let mut nonce = [0; NONCE_LEN];
        host.fill_random(&mut nonce);
        let mut sealed = secret.as_bytes().to_vec();
        let bound = bound(of);
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), bound, &mut sealed)
            .map_err(|_unspecified| failed())?;
        Ok(Sealed { key: self.first, nonce, ciphertext: sealed })
    }

    /// Opens the credential of a provider's key.
    ///
    /// # Errors
    /// [`SealError::UnknownKey`] or [`SealError::Broken`].
    pub fn open(&self, of: &KeyOf, sealed: &Sealed) -> Result<String, SealError> {
        let broken = || SealError::Broken(of.clone());
        let unknown = || SealError::UnknownKey { of: of.clone(), key: sealed.key };
        let key = self.keys.get(&sealed.key).ok_or_else(unknown)?;
        let mut text = sealed.ciphertext.clone();
        let bound = bound(of);
        let opened = key
            .open_in_place(Nonce::assume_unique_for_key(sealed.nonce), bound, &mut text)
            .map_err(|_unspecified| broken())?;
        std::str::from_utf8(opened).map(str::to_owned).map_err(|_not_text| broken())
    }
}

impl fmt::Debug for SealKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealKeys({:?})", self.keys.keys().collect::<Vec<_>>())
    }
}

/// A file of one new key.
#[must_use]
pub fn new_key_file(host: &Host, id: u32) -> String {
    let mut key = [0_u8; 32];
    host.fill_random(&mut key);
    let digits: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{id} {digits}\n")
}

/// What a seal is bound to. No name holds the character between them.
fn bound(of: &KeyOf) -> Aad<Vec<u8>> {
    Aad::from(format!("{}\0{}", of.provider, of.key).into_bytes())
}

fn key(line: &str) -> Option<(u32, LessSafeKey)> {
    let (id, digits) = line.split_once(' ')?;
    let digits = digits.trim();
    if digits.len() != 64 || !digits.is_ascii() {
        return None;
    }
    let mut key = [0_u8; 32];
    for (at, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(digits.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    let key = UnboundKey::new(&AES_256_GCM, &key).ok()?;
    Some((id.parse().ok()?, LessSafeKey::new(key)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_credential_opens_for_its_provider_and_key_alone_and_under_an_older_sealing_key() {
        let host = Host::real();
        let of = |provider: &str, key: &str| KeyOf {
            provider: provider.parse().unwrap(),
            key: key.parse().unwrap(),
        };
        let one = of("one", "a");
        let old = new_key_file(&host, 1);
        let keys = SealKeys::parse(&old).unwrap();
        let sealed = keys.seal(&host, &one, "sk-secret").unwrap();
        assert_eq!(keys.open(&one, &sealed).unwrap(), "sk-secret");
        for other in [of("two", "a"), of("one", "b"), of("on", "ea")] {
            assert!(matches!(keys.open(&other, &sealed), Err(SealError::Broken(_))));
        }
        let rotated = SealKeys::parse(&format!("{}{old}", new_key_file(&host, 2))).unwrap();
        assert_eq!(rotated.open(&one, &sealed).unwrap(), "sk-secret");
        assert_eq!(rotated.seal(&host, &one, "x").unwrap().key, 2);
        let lost = SealKeys::parse(&new_key_file(&host, 2)).unwrap();
        assert!(matches!(lost.open(&one, &sealed), Err(SealError::UnknownKey { key: 1, .. })));
    }

    #[test]
    fn a_file_that_holds_no_keys_says_where() {
        assert!(matches!(SealKeys::parse("# nothing\n"), Err(1)));
        assert!(matches!(SealKeys::parse("1 abc\n"), Err(1)));
        let digits = "0".repeat(64);
        assert!(matches!(SealKeys::parse(&format!("1 {digits}\n1 {digits}\n")), Err(2)));
    }
}
