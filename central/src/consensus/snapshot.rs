//! A snapshot's form, on disk and between nodes: an envelope, then sections, each with its own checksum.
//!
//! Little-endian: magic `PSNP`, format u16, number of sections u16; then per section its id u16, zero u16, CRC32C of
//! the payload u32, length u64, payload. A section with an unknown id is skipped unless the id's top bit is set.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use wire::codec;

use central_core::State;

use super::types::SnapshotMeta;

const MAGIC: [u8; 4] = *b"PSNP";
const FORMAT: u16 = 1;
const HEADER: usize = 8;
const SECTION_HEADER: usize = 16;
const MUST_UNDERSTAND: u16 = 0x8000;
const META: u16 = 0x8001;
const STATE: u16 = 0x8002;

/// Why bytes are not a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadSnapshot {
    #[error("the snapshot is cut short")]
    Short,
    #[error("not a snapshot of format {FORMAT}")]
    Format,
    #[error("section {0:#06x} of the snapshot is damaged")]
    Damaged(u16),
    #[error("section {0:#06x} of the snapshot is unknown; a newer build wrote it")]
    Unknown(u16),
    #[error("section {0:#06x} of the snapshot is missing")]
    Missing(u16),
    #[error(transparent)]
    Codec(#[from] codec::CodecError),
}

/// Writes a snapshot.
pub(crate) fn encode(meta: &SnapshotMeta, state: &State) -> Result<Bytes, BadSnapshot> {
    let sections = [(META, codec::encode(meta)?), (STATE, codec::encode_state(state)?)];
    let length: usize = sections.iter().map(|(_, payload)| SECTION_HEADER + payload.len()).sum();
    let mut out = BytesMut::with_capacity(HEADER + length);
    out.put_slice(&MAGIC);
    out.put_u16_le(FORMAT);
    out.put_u16_le(u16::try_from(sections.len()).unwrap_or(u16::MAX));
    for (id, payload) in sections {
        out.put_u16_le(id);
        out.put_u16_le(0);
        out.put_u32_le(crc32c::crc32c(&payload));
        out.put_u64_le(payload.len() as u64);
        out.put_slice(&payload);
    }
    Ok(out.freeze())
}

/// Reads what a snapshot covers.
pub(crate) fn meta(bytes: &Bytes) -> Result<SnapshotMeta, BadSnapshot> {
    Ok(codec::decode(&section(bytes.clone(), META)?)?)
}

/// Reads what a snapshot covers, once all of it is known to be undamaged.
pub(crate) fn checked_meta(bytes: &Bytes) -> Result<SnapshotMeta, BadSnapshot> {
    drop(section(bytes.clone(), STATE)?);
    meta(bytes)
}

/// Reads a snapshot.
pub(crate) fn decode(bytes: &Bytes) -> Result<(SnapshotMeta, State), BadSnapshot> {
    Ok((meta(bytes)?, codec::decode_state(&section(bytes.clone(), STATE)?)?))
}

/// The payload of section `wanted`; every section is checked on the way.
fn section(mut bytes: Bytes, wanted: u16) -> Result<Bytes, BadSnapshot> {
    if bytes.len() < HEADER {
        return Err(BadSnapshot::Short);
    }
    if bytes.split_to(MAGIC.len()) != MAGIC.as_slice() || bytes.get_u16_le() != FORMAT {
        return Err(BadSnapshot::Format);
    }
    let mut found = None;
    for _ in 0..bytes.get_u16_le() {
        if bytes.len() < SECTION_HEADER {
            return Err(BadSnapshot::Short);
        }
        let (id, _zero, crc) = (bytes.get_u16_le(), bytes.get_u16_le(), bytes.get_u32_le());
        let length = usize::try_from(bytes.get_u64_le()).unwrap_or(usize::MAX);
        if bytes.len() < length {
            return Err(BadSnapshot::Short);
        }
        let payload = bytes.split_to(length);
        if crc32c::crc32c(&payload) != crc {
            return Err(BadSnapshot::Damaged(id));
        }
        match id {
            this if this == wanted => found = Some(payload),
            META | STATE => {}
            unknown if unknown & MUST_UNDERSTAND != 0 => return Err(BadSnapshot::Unknown(unknown)),
            _skipped => {}
        }
    }
    found.ok_or(BadSnapshot::Missing(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_reads_back_and_any_damage_shows() {
        let (meta, state) = (SnapshotMeta::default(), State::default());
        let whole = encode(&meta, &state).unwrap();
        assert_eq!(decode(&whole).unwrap(), (meta, state));
        for at in 0..whole.len() {
            let mut damaged = whole.to_vec();
            damaged[at] ^= 1;
            let read = decode(&Bytes::from(damaged));
            assert!(read.is_err() || is_reserved(&whole, at), "byte {at}");
        }
        assert_eq!(decode(&whole.slice(..whole.len() - 1)), Err(BadSnapshot::Short));
    }

    /// The two zeros behind each section's id mean nothing yet.
    fn is_reserved(whole: &Bytes, at: usize) -> bool {
        let first = HEADER;
        let second = first + SECTION_HEADER + codec::encode(&SnapshotMeta::default()).unwrap().len();
        whole.len() > second && [first, second].iter().any(|start| (start + 2..start + 4).contains(&at))
    }
}
