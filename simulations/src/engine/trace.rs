//! The history of a run: a hash over every packet sent, its time, ends and bytes.

use std::fmt;
use std::net::SocketAddr;

use base::Mono;

/// An odd multiplier with a good spread of bits (from the published Knuth constants for linear generators).
const SPREAD: u64 = 0x5851_f42d_4c95_7f2d;

/// One packet sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// When it was sent.
    pub at: Mono,
    /// From where.
    pub from: SocketAddr,
    /// To where.
    pub to: SocketAddr,
    /// Its length in bytes.
    pub len: usize,
    /// The hash of the history up to and with this packet.
    pub hash: u64,
}

/// Every packet sent in a run, in order.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Trace {
    packets: Vec<Packet>,
    hash: u64,
    bytes: u64,
}

impl Trace {
    /// The hash of the whole history.
    #[must_use]
    pub const fn hash(&self) -> u64 {
        self.hash
    }

    /// All packets, in the order they were sent.
    #[must_use]
    pub fn packets(&self) -> &[Packet] {
        &self.packets
    }

    /// Bytes sent.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The first packet at which two histories differ, as each of them has it.
    #[must_use]
    pub fn first_difference(&self, other: &Self) -> Option<(usize, Option<Packet>, Option<Packet>)> {
        let same =
            self.packets.iter().zip(&other.packets).take_while(|(mine, theirs)| mine == theirs).count();
        match (self.packets.get(same).copied(), other.packets.get(same).copied()) {
            (None, None) => None,
            (mine, theirs) => Some((same, mine, theirs)),
        }
    }

    pub(super) fn record(&mut self, at: Mono, ends: (SocketAddr, SocketAddr), kind: u8, bytes: &[u8]) {
        let (from, to) = ends;
        self.mix(at.as_nanos());
        self.mix_end(from);
        self.mix_end(to);
        self.mix(u64::from(kind));
        self.mix(bytes.len() as u64);
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.mix(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let mut word = [0; 8];
            for (to, from) in word.iter_mut().zip(rest) {
                *to = *from;
            }
            self.mix(u64::from_le_bytes(word));
        }
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        self.packets.push(Packet { at, from, to, len: bytes.len(), hash: self.hash });
    }

    fn mix_end(&mut self, end: SocketAddr) {
        let address = match end.ip() {
            std::net::IpAddr::V4(v4) => u128::from(v4.to_bits()),
            std::net::IpAddr::V6(v6) => v6.to_bits(),
        };
        let [low, high] = [address & u128::from(u64::MAX), address >> 64];
        self.mix(u64::try_from(low).unwrap_or(0));
        self.mix(u64::try_from(high).unwrap_or(0));
        self.mix(u64::from(end.port()));
    }

    const fn mix(&mut self, word: u64) {
        self.hash = (self.hash ^ word).wrapping_mul(SPREAD).rotate_left(29).wrapping_add(1);
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x} of {} packets, {} bytes", self.hash, self.packets.len(), self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_byte_or_time_is_found_where_it_happened() {
        let ends = ("10.0.0.1:1".parse().unwrap(), "10.0.0.2:2".parse().unwrap());
        let of = |second: &[u8], at: u64| {
            let mut trace = Trace::default();
            trace.record(Mono::ZERO, ends, 0, b"first");
            trace.record(Mono::from_nanos(at), ends, 0, second);
            trace
        };
        assert_eq!(of(b"second", 9), of(b"second", 9));
        assert_eq!(of(b"second", 9).first_difference(&of(b"sekond", 9)).unwrap().0, 1);
        assert_eq!(of(b"second", 9).first_difference(&of(b"second", 8)).unwrap().0, 1);
    }
}
