//! A small seeded generator (SplitMix64): equal seeds give equal streams on every machine. Not fit for real keys.

/// Added to the state before each draw: 2^64 divided by the golden ratio, from the published algorithm.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
/// What [`Random::chance`] counts in.
const MILLION: u32 = 1_000_000;

/// A stream of pseudo-random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Random(u64);

impl Random {
    /// The stream of `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A stream of its own for `purpose`, so that drawing more for one purpose leaves the others as they were.
    #[must_use]
    pub fn for_purpose(seed: u64, purpose: &str) -> Self {
        let mut state = mix(seed);
        for byte in purpose.bytes() {
            state = mix(state ^ u64::from(byte));
        }
        Self(state)
    }

    /// The next 64 bits.
    pub const fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// A number below `bound`, or zero when `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        let scaled = u128::from(self.draw()) * u128::from(bound);
        u64::try_from(scaled >> 64).unwrap_or(0)
    }

    /// True `per_million` times in a million.
    pub fn chance(&mut self, per_million: u32) -> bool {
        per_million > 0 && self.below(u64::from(MILLION)) < u64::from(per_million)
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            for (to, from) in chunk.iter_mut().zip(self.draw().to_le_bytes()) {
                *to = from;
            }
        }
    }
}

const fn mix(state: u64) -> u64 {
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_repeats_and_purposes_differ() {
        let draw_three = |mut random: Random| [random.draw(), random.draw(), random.draw()];
        assert_eq!(draw_three(Random::new(7)), draw_three(Random::new(7)));
        assert_ne!(
            draw_three(Random::for_purpose(7, "network")),
            draw_three(Random::for_purpose(7, "workload")),
        );
        let mut random = Random::new(1);
        assert!((0..1000).all(|_| random.below(3) < 3));
        assert!(!random.chance(0));
        assert!(random.chance(1_000_000));
    }
}
