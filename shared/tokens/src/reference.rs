//! How a model names its tokenizer: one of this build, or a file, perhaps with the digest that makes it the same file
//! everywhere: `o200k_base`, `qwen3`, `qwen3@sha256:…`.

use std::str::FromStr;

use crate::{Digest, Tokenizer};

/// A digest in hexadecimal.
const DIGITS: usize = 64;

/// The longest name of a file.
const LONGEST: usize = 128;

/// A tokenizer as a model names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// One that this build has.
    BuiltIn(Tokenizer),
    /// A file.
    File {
        /// Its name without `.json`; letters, digits, `.`, `_` and `-`, and no `.` first.
        name: String,
        /// The SHA-256 that it must have; `None`: any.
        digest: Option<Digest>,
    },
}

/// A text that names no tokenizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadReference {
    /// What stands before the `@` can be no file's name.
    #[error(
        "must be o200k_base, cl100k_base, or the name of a file without `.json`: up to 128 letters, digits, `.`, `_` and `-`, and no `.` first"
    )]
    Name,
    /// What follows is no digest.
    #[error("must have `@sha256:` and 64 hexadecimal digits behind the name, as `sha256sum` prints them")]
    Digest,
    /// A tokenizer of the build has no file.
    #[error("names a tokenizer that is part of the program and has no file; leave the digest out")]
    BuiltIn,
}

impl FromStr for Reference {
    type Err = BadReference;

    fn from_str(text: &str) -> Result<Self, BadReference> {
        let (name, digest) = match text.split_once('@') {
            Some((name, digest)) => (name, Some(sha256(digest).ok_or(BadReference::Digest)?)),
            None => (text, None),
        };
        match (Tokenizer::named(name), digest) {
            (Some(_known), Some(_digest)) => Err(BadReference::BuiltIn),
            (Some(known), None) => Ok(Self::BuiltIn(known)),
            (None, digest) if is_file_name(name) => Ok(Self::File { name: name.to_owned(), digest }),
            (None, _digest) => Err(BadReference::Name),
        }
    }
}

/// Whether it stays within its directory on any system.
fn is_file_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=LONGEST).contains(&name.len()) && !name.starts_with('.') && name.bytes().all(plain)
}

fn sha256(text: &str) -> Option<Digest> {
    let digits = text.strip_prefix("sha256:").filter(|digits| digits.len() == DIGITS && digits.is_ascii())?;
    let mut digest = Digest::default();
    for (byte, pair) in digest.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        let pair = std::str::from_utf8(pair).ok().filter(|pair| !pair.starts_with('+'))?;
        *byte = u8::from_str_radix(pair, 16).ok()?;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tokenizer_is_named_with_or_without_what_its_file_must_be() {
        let parsed = |text: &str| text.parse::<Reference>();
        assert_eq!(parsed("o200k_base"), Ok(Reference::BuiltIn(Tokenizer::O200kBase)));
        let file = |digest| Ok(Reference::File { name: "Qwen3-8B.v1".to_owned(), digest });
        assert_eq!(parsed("Qwen3-8B.v1"), file(None));
        assert_eq!(parsed(&format!("Qwen3-8B.v1@sha256:{}", "0aF0".repeat(16))), {
            let pairs = [[0x0a, 0xf0]; 16];
            file(Some(pairs.concat().try_into().unwrap()))
        });
        assert_eq!(parsed(&format!("o200k_base@sha256:{}", "0".repeat(64))), Err(BadReference::BuiltIn));
    }

    #[test]
    fn nothing_else_names_one() {
        let parsed = |text: &str| text.parse::<Reference>();
        for bad in ["", "..", ".hidden", "../qwen3", "a/b", "a b", "ü", &"a".repeat(129)] {
            assert_eq!(parsed(bad), Err(BadReference::Name), "{bad}");
        }
        for bad in ["0", "sha256:", "md5:00"] {
            assert_eq!(parsed(&format!("qwen3@{bad}")), Err(BadReference::Digest), "{bad}");
        }
        for digits in ["0".repeat(63), "0".repeat(65), "g0".repeat(32), "+1".repeat(32), "ü".repeat(32)] {
            assert_eq!(parsed(&format!("qwen3@sha256:{digits}")), Err(BadReference::Digest), "{digits}");
        }
    }
}
