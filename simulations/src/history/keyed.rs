//! What is known of calls and of providers' keys beyond the calls themselves.

use base::Mono;

/// What a call asked for beside an answer, and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extra {
    /// Whether it offered tools.
    pub tools: bool,
    /// What the edge told of its budgets.
    pub told: Vec<String>,
    /// Of each request that a model server got for it, whether tools were offered.
    pub reached: Vec<bool>,
}

/// A request that a provider was asked with a key of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyed {
    /// The provider.
    pub server: String,
    /// The machine that asked; `None`: an unknown one.
    pub by: Option<String>,
    /// The key's credential.
    pub credential: String,
    /// When; one that is refused is answered at once.
    pub asked: Mono,
    /// Whether the key was let pass, and else why not.
    pub pass: Pass,
}

/// What a provider makes of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// It serves.
    Served,
    /// The key is revoked: 401.
    Revoked,
    /// 429, to come again after so many seconds.
    Wait(u64),
}
