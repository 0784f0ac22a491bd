//! Numbers that only have to differ: request and span identifiers, draws among weights. Seeded once from the host's
//! entropy; drawing is one atomic addition, where asking the host would be a system call per call.

use std::sync::atomic::{AtomicU64, Ordering};

use seam::Host;

/// The odd constant of `splitmix64`: successive states differ in about half their bits.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A source of numbers. Not for secrets.
#[derive(Debug)]
pub(crate) struct Dice(AtomicU64);

impl Dice {
    pub(crate) fn new(host: &Host) -> Self {
        Self(AtomicU64::new(host.random_u64()))
    }

    /// The next number.
    pub(crate) fn draw(&self) -> u64 {
        let a = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        let b = (a ^ (a >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let c = (b ^ (b >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        c ^ (c >> 31)
    }

    /// The next number, twice as wide.
    pub(crate) fn draw_wide(&self) -> u128 {
        (u128::from(self.draw()) << 64) | u128::from(self.draw())
    }
}
