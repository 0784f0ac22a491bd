//! The packets of a run as a file that Wireshark reads: pcapng with raw IPv4, times since 1970 as the machines' clocks
//! began with, and the machines' names.
//!
//! Datagrams are as they were sent, QUIC within UDP; those that links lose are there, too. Streams are a model of TCP:
//! their frames are written as segments with the numbers that a kernel would give, without acknowledgements of data.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use base::Mono;

use super::clock::WALL_START_MS;

/// A section header, an interface, a list of names and a packet, as the pcapng draft numbers its blocks
/// (draft-ietf-opsawg-pcapng §4).
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const NAMES: u32 = 4;
const PACKET: u32 = 6;
/// `LINKTYPE_RAW`: a packet begins with its IP header.
const RAW_IP: u16 = 101;
/// The option that sets a time's unit, here nanoseconds.
const TIME_UNIT: [u8; 8] = [9, 0, 1, 0, 9, 0, 0, 0];
/// IP's numbers of what it carries.
const TCP: u8 = 6;
const UDP: u8 = 17;
/// Longest payload that one IP packet takes; a longer frame is cut there.
const LONGEST: usize = 65_000;

/// TCP's flags.
pub(super) const FIN: u8 = 1;
pub(super) const SYN: u8 = 2;
pub(super) const RST: u8 = 4;
pub(super) const PSH: u8 = 8;
pub(super) const ACK: u8 = 16;

/// Packets as they were sent, up to a bound; later ones are counted and left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capture {
    /// Bytes that fit.
    most: usize,
    blocks: Vec<u8>,
    left_out: u64,
    /// The number of the next byte from one end to the other.
    sent: BTreeMap<(SocketAddr, SocketAddr), u32>,
}

impl Capture {
    /// An empty one of at most `most` bytes.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { most, ..Self::default() }
    }

    /// How many packets found no room.
    #[must_use]
    pub const fn left_out(&self) -> u64 {
        self.left_out
    }

    /// The file, with the names of addresses.
    #[must_use]
    pub fn file(&self, names: &[(String, IpAddr)]) -> Vec<u8> {
        let mut file =
            block(SECTION, &[&0x1a2b_3c4d_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat());
        let interface = [&RAW_IP.to_le_bytes()[..], &[0; 6], &TIME_UNIT, &[0; 4]].concat();
        file.extend(block(INTERFACE, &interface));
        let mut records = Vec::new();
        for (name, address) in names {
            if let IpAddr::V4(address) = address {
                let record = [&address.octets()[..], name.as_bytes(), &[0]].concat();
                records.extend(1_u16.to_le_bytes());
                records.extend(u16::try_from(record.len()).unwrap_or(0).to_le_bytes());
                records.extend(padded(&record));
            }
        }
        records.extend([0; 4]);
        file.extend(block(NAMES, &records));
        file.extend(&self.blocks);
        file
    }

    pub(super) fn datagram(&mut self, at: Mono, (from, to): (SocketAddr, SocketAddr), bytes: &[u8]) {
        let bytes = cut(bytes);
        let len = u16::try_from(bytes.len() + 8).unwrap_or(u16::MAX);
        let ports = [from.port().to_be_bytes(), to.port().to_be_bytes()].concat();
        // Without a checksum, as UDP over IPv4 may be.
        let header = [&ports[..], &len.to_be_bytes(), &[0; 2]].concat();
        self.packet(at, (from, to), UDP, &[&header, bytes].concat());
    }

    /// A segment of a stream; `passed`: the link did not lose it, so that it is not sent again with the same number.
    pub(super) fn segment(
        &mut self,
        at: Mono,
        (from, to): (SocketAddr, SocketAddr),
        (flags, bytes): (u8, &[u8]),
        passed: bool,
    ) {
        let bytes = cut(bytes);
        let acknowledged = self.sent.get(&(to, from)).copied().unwrap_or(0);
        let next = self.sent.entry((from, to)).or_default();
        if flags & SYN != 0 {
            *next = 0;
        }
        let number = *next;
        if passed {
            let taken = u32::try_from(bytes.len()).unwrap_or(0) + u32::from(flags & (SYN | FIN) != 0);
            *next = next.wrapping_add(taken);
        }
        let mut header = [from.port().to_be_bytes(), to.port().to_be_bytes()].concat();
        header.extend(number.to_be_bytes());
        header.extend(acknowledged.to_be_bytes());
        // Twenty bytes of header, and a window that is always open.
        header.extend([5 << 4, flags, 0xff, 0xff, 0, 0, 0, 0]);
        header.extend(bytes);
        self.packet(at, (from, to), TCP, &header);
    }

    fn packet(&mut self, at: Mono, (from, to): (SocketAddr, SocketAddr), carries: u8, payload: &[u8]) {
        let packet = [&ip_header(from.ip(), to.ip(), carries, payload.len()), payload].concat();
        let ns = WALL_START_MS.saturating_mul(1_000_000).saturating_add(at.as_nanos());
        let len = u32::try_from(packet.len()).unwrap_or(u32::MAX).to_le_bytes();
        let [low, high] = [ns & u64::from(u32::MAX), ns >> 32].map(|half| u32::try_from(half).unwrap_or(0));
        let head = [[0; 4], high.to_le_bytes(), low.to_le_bytes(), len, len].concat();
        let block = block(PACKET, &[head, padded(&packet)].concat());
        if self.blocks.len() + block.len() > self.most {
            self.left_out += 1;
            // Nothing after it fits either: what is there has no gaps.
            self.most = self.blocks.len();
        } else {
            self.blocks.extend(block);
        }
    }
}

fn cut(bytes: &[u8]) -> &[u8] {
    bytes.get(..LONGEST).unwrap_or(bytes)
}

/// A block: its type, its length, what it holds, and its length again.
fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let body = padded(body);
    let len = u32::try_from(body.len() + 12).unwrap_or(u32::MAX).to_le_bytes();
    [&kind.to_le_bytes()[..], &len, &body, &len].concat()
}

/// Filled up to whole words of four bytes.
fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut padded = bytes.to_vec();
    padded.resize(bytes.len().next_multiple_of(4), 0);
    padded
}

fn ip_header(from: IpAddr, to: IpAddr, carries: u8, payload: usize) -> Vec<u8> {
    let len = u16::try_from(payload + 20).unwrap_or(u16::MAX).to_be_bytes();
    let of = |address: IpAddr| match address {
        IpAddr::V4(v4) => v4.octets(),
        IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED.octets(),
    };
    let header = |checksum: [u8; 2]| {
        let (kind, life) = ([0x45, 0], [0, 0, 0x40, 0, 64, carries]);
        [&kind[..], &len, &life, &checksum, &of(from), &of(to)].concat()
    };
    header(checksum(&header([0; 2])))
}

/// The one's complement of the sum of a header's words (RFC 1071).
fn checksum(header: &[u8]) -> [u8; 2] {
    let (words, _rest) = header.as_chunks::<2>();
    let sum: u32 = words.iter().map(|word| u32::from(u16::from_be_bytes(*word))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    u16::try_from(folded & 0xffff).map_or([0; 2], |sum| (!sum).to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends() -> (SocketAddr, SocketAddr) {
        ("10.0.0.1:7000".parse().unwrap(), "10.0.0.2:8000".parse().unwrap())
    }

    /// Types and bodies of a file's blocks, read as the draft says.
    fn blocks(file: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
        let (mut at, mut blocks) = (0, Vec::new());
        while at < file.len() {
            let len = word(at + 4) as usize;
            assert_eq!((len % 4, word(at + len - 4) as usize), (0, len));
            blocks.push((word(at), file[at + 8..at + len - 4].to_vec()));
            at += len;
        }
        blocks
    }

    #[test]
    fn packets_read_back_with_headers_names_and_times() {
        let mut capture = Capture::new(10_000);
        capture.datagram(Mono::from_nanos(5_000_000), ends(), b"quic!");
        let file = capture.file(&[("edge-eu".to_owned(), ends().0.ip())]);
        let blocks = blocks(&file);
        assert_eq!(
            blocks.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(),
            [SECTION, INTERFACE, NAMES, PACKET]
        );
        assert!(blocks[2].1.windows(8).any(|bytes| bytes == b"edge-eu\0"));
        let (head, packet) = blocks[3].1.split_at(20);
        let half = |at: usize| u64::from(u32::from_le_bytes(head[at..at + 4].try_into().unwrap()));
        assert_eq!(half(4) << 32 | half(8), WALL_START_MS * 1_000_000 + 5_000_000);
        assert_eq!(half(12), 33);
        assert_eq!(&packet[28..33], b"quic!");
        let sum: u32 = packet[..20].chunks(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1])).sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "the header's checksum");
    }

    #[test]
    fn segments_are_numbered_by_what_was_sent_before_them() {
        let (mut capture, (one, other)) = (Capture::new(10_000), ends());
        let sent: [(_, u8, &[u8], bool); 5] = [
            ((one, other), SYN, b"", true),
            ((other, one), SYN | ACK, b"", true),
            ((one, other), PSH | ACK, b"abc", false),
            ((one, other), PSH | ACK, b"abc", true),
            ((one, other), FIN | ACK, b"", true),
        ];
        for (ends, flags, bytes, passed) in sent {
            capture.segment(Mono::ZERO, ends, (flags, bytes), passed);
        }
        let file = capture.file(&[]);
        let numbers = blocks(&file).into_iter().filter(|(kind, _)| *kind == PACKET).map(|(_, body)| {
            let tcp = &body[40..];
            let of = |at: usize| u32::from_be_bytes(tcp[at..at + 4].try_into().unwrap());
            (of(4), of(8), tcp[13])
        });
        let again = (1, 1, PSH | ACK);
        let expected = [(0, 0, SYN), (0, 1, SYN | ACK), again, again, (4, 1, FIN | ACK)];
        assert_eq!(numbers.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_does_not_fit_is_left_out_and_counted() {
        let mut capture = Capture::new(200);
        for _ in 0..5 {
            capture.datagram(Mono::ZERO, ends(), &[7; 50]);
        }
        assert_eq!(capture.left_out(), 4);
    }
}
