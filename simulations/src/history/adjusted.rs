//! What a steward does to objects that calls use: a key that is restricted and set free again, and a provider that moves
//! between addresses and credentials.

use base::Mono;

use super::WriteOutcome;

/// What such an object is to be like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Terms {
    /// The key.
    Key {
        /// The one model it may ask for; absent: all.
        only: Option<String>,
        /// Whether each edge lets it make one call a second only.
        limited: bool,
    },
    /// The provider.
    Provider {
        /// The model server that its address leads to.
        server: String,
        /// Its credential.
        credential: &'static str,
    },
}

/// A change of one of them, by an operator who makes them one after another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adjustment {
    /// What it is to be like.
    pub terms: Terms,
    /// When.
    pub started: Mono,
    /// When it was over.
    pub ended: Option<Mono>,
    /// What came of it.
    pub outcome: WriteOutcome,
}

impl Terms {
    /// Whether both are of one object.
    #[must_use]
    pub const fn is_of_same(&self, other: &Self) -> bool {
        matches!(
            (self, other),
            (Self::Key { .. }, Self::Key { .. }) | (Self::Provider { .. }, Self::Provider { .. })
        )
    }
}
