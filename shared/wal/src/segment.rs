//! One file of a log: its name, its header, and how it comes into being with its space claimed.
//!
//! Header, 64 bytes, little-endian: `PORTOWAL`, format u32, zero u32, id u64, first sequence number u64, end of the
//! segment before it u64, checksum of the record before it u32, size of the file u64, zeros, CRC32C of the rest u32. A segment is made only
//! when everything in the one before is synced, so that a whole header vouches for that segment up to its end.

use std::io;
use std::path::{Path, PathBuf};

use bytes::{BufMut, Bytes, BytesMut};
use seam::{Disk, File, Open};

use crate::WalError;
use crate::error::is_full;

pub(crate) const HEADER: usize = 64;

const MAGIC: [u8; 8] = *b"PORTOWAL";
const FORMAT: u32 = 1;
const CHECKED: usize = HEADER - 4;

/// What a segment says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Counts up by one, from 1.
    pub(crate) id: u64,
    /// Sequence number of its first record.
    pub(crate) first_seq: u64,
    /// Where the records of the segment before it end.
    pub(crate) prev_end: u64,
    /// Checksum of the last record before it.
    pub(crate) prev_crc: u32,
    /// Size of its file; zero when an earlier version made it.
    pub(crate) capacity: u64,
}

impl Header {
    pub(crate) fn bytes(self) -> Bytes {
        let mut out = BytesMut::with_capacity(HEADER);
        out.put_slice(&MAGIC);
        out.put_u32_le(FORMAT);
        out.put_u32_le(0);
        out.put_u64_le(self.id);
        out.put_u64_le(self.first_seq);
        out.put_u64_le(self.prev_end);
        out.put_u32_le(self.prev_crc);
        out.put_u64_le(self.capacity);
        out.put_bytes(0, CHECKED - out.len());
        let crc = crc32c::crc32c(&out);
        out.put_u32_le(crc);
        out.freeze()
    }

    /// Reads a header, or `None` when it is not whole or of another format.
    pub(crate) fn parse(segment: &[u8]) -> Option<Self> {
        let (checked, rest) = segment.split_at_checked(CHECKED)?;
        if crc32c::crc32c(checked) != u32::from_le_bytes(*rest.first_chunk()?) {
            return None;
        }
        let field = |at: usize| checked.get(at..)?.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes));
        let word = |at: usize| checked.get(at..)?.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes));
        if checked.first_chunk() != Some(&MAGIC) || word(8) != Some(FORMAT) {
            return None;
        }
        let (prev_end, prev_crc, capacity) = (field(32)?, word(40)?, field(44)?);
        Some(Self { id: field(16)?, first_seq: field(24)?, prev_end, prev_crc, capacity })
    }
}

/// A segment that takes records.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) file: Box<dyn File>,
    pub(crate) id: u64,
    pub(crate) first_seq: u64,
    /// Where the next record goes.
    pub(crate) end: u64,
    /// Its size; no record goes beyond.
    pub(crate) capacity: u64,
}

pub(crate) fn path(dir: &Path, id: u64) -> PathBuf {
    dir.join(format!("{id:016x}.wal"))
}

/// The segment that a file name names.
pub(crate) fn parse_name(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".wal").filter(|digits| digits.len() == 16)?;
    u64::from_str_radix(digits, 16).ok()
}

/// Makes a segment of the size that its header says, durable, in `dir`.
///
/// # Errors
/// [`WalError::Full`] when its space cannot be claimed, and then nothing is left of it; else [`WalError::Failed`].
pub(crate) async fn create(disk: &dyn Disk, dir: &Path, header: Header) -> Result<Active, WalError> {
    let Header { id, first_seq, capacity, .. } = header;
    let path = path(dir, id);
    let file = match claim(disk, &path, capacity).await {
        Ok(file) => file,
        Err(error) if is_full(&error) => {
            remove(disk, &path).await.map_err(|error| WalError::failed(&error))?;
            return Err(WalError::Full);
        }
        Err(error) => return Err(WalError::failed(&error)),
    };
    let made = async {
        file.write_at(0, header.bytes()).await?;
        file.sync_data().await?;
        disk.sync_dir(dir).await
    };
    made.await.map_err(|error| WalError::failed(&error))?;
    Ok(Active { file, id, first_seq, end: HEADER as u64, capacity })
}

async fn claim(disk: &dyn Disk, path: &Path, capacity: u64) -> io::Result<Box<dyn File>> {
    let file = disk.open(path, Open::Create).await?;
    file.allocate(capacity).await?;
    Ok(file)
}

/// Removes a file; one that is absent is fine.
pub(crate) async fn remove(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    match disk.remove(path).await {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
