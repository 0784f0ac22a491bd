//! Identifiers. Names are checked where they enter, so that no later code asks again whether one is well formed.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Why a text is not an identifier.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Empty, or longer than the limit.
    #[error("must have 1 to {max} characters, this has {got}")]
    Length {
        /// Longest length accepted.
        max: usize,
        /// Length found.
        got: usize,
    },
    /// A character outside the alphabet.
    #[error("may not contain {found:?}; allowed are {allowed}")]
    Character {
        /// The first offending character.
        found: char,
        /// The alphabet, in words.
        allowed: &'static str,
    },
    /// Not one of the words expected.
    #[error("is not one of {expected}")]
    Word {
        /// The words expected.
        expected: &'static str,
    },
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $max:literal, $allowed:literal, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(Arc<str>);

        impl $type {
            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $type {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                let got = text.chars().count();
                if got == 0 || got > $max {
                    return Err(IdError::Length { max: $max, got });
                }
                let allowed: fn(char) -> bool = $check;
                match text.chars().find(|c| !allowed(*c)) {
                    Some(found) => Err(IdError::Character { found, allowed: $allowed }),
                    None => Ok(Self(text.into())),
                }
            }
        }

        impl TryFrom<String> for $type {
            type Error = IdError;

            fn try_from(text: String) -> Result<Self, IdError> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> Self {
                name.0.as_ref().to_owned()
            }
        }

        impl std::borrow::Borrow<str> for $type {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }
    };
}

const PLAIN: fn(char) -> bool = |c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');

name!(
    /// A name an operator gave to an app, provider, group, budget or node.
    Name, 63, "letters, digits, '-', '_' and '.'", PLAIN
);
name!(
    /// A tenant's name; it is its identifier everywhere.
    TenantName, 63, "letters, digits, '-', '_' and '.'", PLAIN
);
name!(
    /// A region's name, as in node certificates.
    RegionName, 31, "letters, digits, '-', '_' and '.'", PLAIN
);
name!(
    /// What callers may ask for: a physical model, an alias, a route or a capability group.
    ModelName, 127, "letters, digits and any of -_.:/@+",
    |c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '/' | '@' | '+')
);

macro_rules! number {
    ($($(#[$doc:meta])* $type:ident($inner:ty);)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $type(pub $inner);

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    )* };
}

number! {
    /// A central node's number in the Raft group; given once, never reused.
    NodeId(u64);
    /// A budget's number, given by central when the budget is first seen and never reused; or one end user's account of it.
    BudgetId(u128);
    /// One life of an edge's journal. Strictly increases for an edge; committed before use. 0 is never given.
    Incarnation(u32);
    /// Version of the configuration; raised by one with each change.
    Epoch(u64);
    /// Raised by a restore from backup.
    Era(u32);
    /// Index of the log entry that made a state.
    Revision(u64);
    /// Start of a budget's window in milliseconds since 1970 UTC; 0 for the window of a total.
    WindowId(u64);
}

impl WindowId {
    /// Whichever window is open when central hears of it: said by an edge that was never told.
    pub const OPEN: Self = Self(u64::MAX);
}

/// Orders everything central publishes: an edge ignores what is older than what it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Stamp {
    /// Raised by a restore.
    pub era: Era,
    /// Log index that made it.
    pub revision: Revision,
}

/// SHA-256 of an API key. Keys carry 256 random bits, so that a fast hash is enough.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KeyHash(pub [u8; 32]);

impl KeyHash {
    /// From a key's SHA-256.
    #[must_use]
    pub fn of_digest(sha256: &[u8]) -> Self {
        Self(sha256.first_chunk().copied().unwrap_or_default())
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, ..] = self.0;
        write!(f, "KeyHash({a:02x}{b:02x}{c:02x}..)")
    }
}

/// What is known of an end user: 63 bits of the SHA-256 of the name that the application gave. Never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UserHash(pub u64);

impl UserHash {
    /// Longest name of an end user, in bytes.
    pub const LONGEST_NAME: usize = 256;

    /// From the first bytes of a name's SHA-256, the highest bit set.
    #[must_use]
    pub fn of_digest(sha256: &[u8]) -> Self {
        let first = sha256.first_chunk::<8>().copied().unwrap_or_default();
        Self(u64::from_be_bytes(first) | (1 << 63))
    }
}

impl fmt::Display for UserHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A call's identity across every node it touches: 128 bits, the first 48 its start in wall milliseconds, the rest random.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RequestId(pub u128);

impl RequestId {
    /// An identifier for a call that started at `wall`, made unique by `random`.
    #[must_use]
    pub const fn new(wall: super::WallMs, random: u128) -> Self {
        Self(((wall.as_millis() as u128) << 80) | (random >> 48))
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "req_{:032x}", self.0)
    }
}

impl FromStr for RequestId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        const EXPECTED: IdError = IdError::Word { expected: "\"req_\" and 32 hexadecimal digits" };
        let digits = text.strip_prefix("req_").filter(|rest| rest.len() == 32).ok_or(EXPECTED)?;
        u128::from_str_radix(digits, 16).map(Self).map_err(|_bad_digit| EXPECTED)
    }
}

/// What a node may do; carried in its certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A node of the Raft group.
    Central,
    /// A regional data-plane node.
    Edge,
    /// A person or script that steers the mesh.
    Operator,
}

impl Role {
    /// The role as certificates spell it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Central => "central",
            Self::Edge => "edge",
            Self::Operator => "operator",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        match text {
            "central" => Ok(Self::Central),
            "edge" => Ok(Self::Edge),
            "operator" => Ok(Self::Operator),
            _other => Err(IdError::Word { expected: "central, edge, operator" }),
        }
    }
}

impl BudgetId {
    /// The account of one end user, known by a hash that is not 0.
    #[must_use]
    pub fn of_user(self, user: u64) -> Self {
        Self(u128::from(user) << 64 | self.budget().0)
    }

    /// The budget, whoever's account of it this is.
    #[must_use]
    pub const fn budget(self) -> Self {
        Self(self.0 & ((1 << 64) - 1))
    }

    /// The hash of the end user whose account this is; 0: the budget has one account.
    #[must_use]
    pub fn user(self) -> u64 {
        u64::try_from(self.0 >> 64).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WallMs;

    #[test]
    fn names_are_checked_where_they_enter() {
        assert_eq!("acme".parse::<TenantName>().unwrap().as_str(), "acme");
        assert_eq!("".parse::<Name>(), Err(IdError::Length { max: 63, got: 0 }));
        let slash = "a/b".parse::<Name>().unwrap_err();
        assert!(slash.to_string().starts_with("may not contain '/'"), "{slash}");
        assert!("meta/llama-3:8b".parse::<ModelName>().is_ok());
    }

    #[test]
    fn a_request_id_reads_back_and_sorts_by_time() {
        let early = RequestId::new(WallMs::from_millis(1_000), u128::MAX);
        let late = RequestId::new(WallMs::from_millis(1_001), 0);
        assert!(early < late);
        assert_eq!(early.to_string().parse(), Ok(early));
        assert!("req_".parse::<RequestId>().is_err());
    }
}
