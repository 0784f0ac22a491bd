//! How a record lies on disk: a 32-byte header, the payload, zeros up to a multiple of 8 bytes.
//!
//! Header, little-endian: magic `PR`, kind u8, zero, payload length u32, CRC32C of everything else in header and
//! payload u32, CRC32C of the record before it u32, sequence number u64, synced offset u64. The checksum of the record
//! before chains records, so that an old one is never taken for a new one. The synced offset says how much of the
//! segment was durable before this record was written: damage below it is not a crash's doing.

use bytes::{BufMut, BytesMut};

pub(crate) const HEADER: usize = 32;
pub(crate) const ALIGN: usize = 8;

/// A mark of the log's own: everything before it is synced. The next record overwrites it.
pub(crate) const KIND_SYNCED: u8 = 0xf0;
/// A mark of the log's own: records below a number, and segments below another, are given up.
pub(crate) const KIND_PURGED: u8 = 0xf1;

const MAGIC: [u8; 2] = *b"PR";

/// A record as read from disk.
#[derive(Debug)]
pub(crate) struct Frame<'a> {
    pub(crate) kind: u8,
    pub(crate) crc: u32,
    pub(crate) prev: u32,
    pub(crate) seq: u64,
    pub(crate) synced: u64,
    pub(crate) payload: &'a [u8],
}

/// What a frame says beside its payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) kind: u8,
    pub(crate) prev: u32,
    pub(crate) seq: u64,
    pub(crate) synced: u64,
}

/// Bytes a payload of this length takes on disk.
pub(crate) const fn size(payload: usize) -> usize {
    (HEADER + payload).next_multiple_of(ALIGN)
}

/// Appends a frame to `out` and returns its checksum.
pub(crate) fn put(out: &mut BytesMut, head: Head, payload: &[u8]) -> u32 {
    let len = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    let front = front(head.kind, len);
    let back = back(head.prev, head.seq, head.synced);
    let crc = checksum(front, back, payload);
    out.put_slice(&front);
    out.put_u32_le(crc);
    out.put_slice(&back);
    out.put_slice(payload);
    out.put_bytes(0, size(payload.len()) - HEADER - payload.len());
    crc
}

/// Reads the frame at `at`, or `None` when no whole and unharmed frame is there.
pub(crate) fn read(segment: &[u8], at: usize) -> Option<Frame<'_>> {
    let rest = segment.get(at..)?;
    let (front, rest) = rest.split_first_chunk::<8>()?;
    let (crc, rest) = rest.split_first_chunk::<4>()?;
    let (back, rest) = rest.split_first_chunk::<20>()?;
    let [m0, m1, kind, zero, l0, l1, l2, l3] = *front;
    if [m0, m1] != MAGIC || zero != 0 {
        return None;
    }
    let len = u32::from_le_bytes([l0, l1, l2, l3]);
    let payload = rest.get(..usize::try_from(len).ok()?)?;
    let crc = u32::from_le_bytes(*crc);
    if checksum(*front, *back, payload) != crc {
        return None;
    }
    let (prev, rest) = back.split_first_chunk::<4>()?;
    let (seq, synced) = rest.split_first_chunk::<8>()?;
    let synced = synced.first_chunk::<8>()?;
    Some(Frame {
        kind,
        crc,
        prev: u32::from_le_bytes(*prev),
        seq: u64::from_le_bytes(*seq),
        synced: u64::from_le_bytes(*synced),
        payload,
    })
}

fn front(kind: u8, len: u32) -> [u8; 8] {
    let [m0, m1] = MAGIC;
    let [l0, l1, l2, l3] = len.to_le_bytes();
    [m0, m1, kind, 0, l0, l1, l2, l3]
}

fn back(prev: u32, seq: u64, synced: u64) -> [u8; 20] {
    let mut bytes = [0; 20];
    let mut out = bytes.as_mut_slice();
    out.put_u32_le(prev);
    out.put_u64_le(seq);
    out.put_u64_le(synced);
    bytes
}

fn checksum(front: [u8; 8], back: [u8; 20], payload: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(crc32c::crc32c(&front), &back), payload)
}
