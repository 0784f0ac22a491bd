//! What callers and operators do.

use std::time::Duration;

use serde::Deserialize;

use super::{Chance, Counts, Times};

/// What callers and operators do.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Load {
    /// Callers per region with edges.
    pub callers: Counts,
    /// Between a caller's calls.
    pub pause: Times,
    /// The share of calls streamed.
    pub streamed: Chance,
    /// The share of callers under the strict budget.
    pub strict: Chance,
    /// Models asked for, each as often; absent: all that are served.
    pub models: Vec<String>,
    /// Every second call offers a tool.
    pub tools: bool,
    /// The most tokens asked for.
    pub max_tokens: Counts,
    /// Callers who hang up.
    pub hang_up: HangUps,
    /// How often a caller asks again when it got no answer or one that is worth it.
    pub retries: u64,
    /// Between an operator's changes of the configuration; absent: none.
    pub write_every: Option<Times>,
    /// Operators who change it: one goes through any central node, several each through one of their own.
    pub writers: u64,
    /// Between an operator's reads of it; absent: none.
    pub read_every: Option<Times>,
    /// Calls that a region's burst caller makes at once; 0: there is none.
    pub burst: Counts,
    /// Between two bursts.
    pub burst_every: Times,
    /// Between an operator's changes of what calls use: a key's models and calls, a provider's server and credential;
    /// absent: none. With it, a caller in each region has that key.
    pub adjust_every: Option<Times>,
    /// Operators who change and read the same few objects at the same time.
    pub rivals: u64,
    /// Between what each of them does.
    pub rival_every: Times,
}

/// The shares of callers who hang up, by when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HangUps {
    /// Before an answer's head.
    pub before_head: Chance,
    /// How long those wait; absent: up to 200 ms.
    pub after: Option<Times>,
    /// After some of an answer's body.
    pub midway: Chance,
}

impl Default for Load {
    fn default() -> Self {
        Self {
            callers: Counts::exactly(2),
            pause: Times::ms(200, 800),
            streamed: Chance(500_000),
            strict: Chance(500_000),
            models: Vec::new(),
            tools: false,
            max_tokens: Counts { least: 4, most: 32 },
            hang_up: HangUps::default(),
            retries: 0,
            write_every: Some(Times::ms(1_000, 3_000)),
            writers: 1,
            read_every: Some(Times::exactly(Duration::from_secs(1))),
            burst: Counts::exactly(0),
            burst_every: Times::ms(1_000, 5_000),
            adjust_every: None,
            rivals: 0,
            rival_every: Times::ms(50, 250),
        }
    }
}
