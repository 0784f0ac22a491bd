//! Opening a log: which of its bytes are records, what a crash tore off, and what must not be trusted.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use seam::{Disk, Open};

use crate::segment::{self, Active, Header};
use crate::{Record, WalError, frame};

/// A log as found on disk.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) records: Vec<Record>,
    pub(crate) tail: Tail,
}

/// Where writing goes on.
#[derive(Debug)]
pub(crate) struct Tail {
    /// Segments that are full, oldest first.
    pub(crate) sealed: Vec<Sealed>,
    /// The segment that takes records; none before the first.
    pub(crate) active: Option<Active>,
    /// Checksum of the last record.
    pub(crate) chain: u32,
    pub(crate) next_seq: u64,
    /// Records below this number are given up.
    pub(crate) purged_before: u64,
}

/// A segment that takes no more records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sealed {
    pub(crate) id: u64,
    pub(crate) first_seq: u64,
}

/// A purge as the log remembers it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Purged {
    /// Records below this number are given up.
    pub(crate) before: u64,
    /// Segments below this id are given up.
    pub(crate) kept: u64,
}

impl Purged {
    pub(crate) fn bytes(self) -> Bytes {
        let [before, kept] = [self.before.to_le_bytes(), self.kept.to_le_bytes()];
        Bytes::from([before, kept].concat())
    }

    fn parse(payload: &[u8]) -> Option<Self> {
        let (before, rest) = payload.split_first_chunk()?;
        let kept = rest.first_chunk()?;
        Some(Self { before: u64::from_le_bytes(*before), kept: u64::from_le_bytes(*kept) })
    }
}

/// Reads the whole log in `dir`, cuts what was torn off, and makes sure that what is left is durable.
///
/// # Errors
/// [`WalError::Corrupt`] when something is wrong that no crash explains, [`WalError::Open`] on a disk's refusal.
pub(crate) async fn recover(disk: &dyn Disk, dir: &Path) -> Result<Recovered, WalError> {
    let failed = WalError::opening(dir);
    let names = disk.list(dir).await.map_err(failed)?;
    let ids: Vec<u64> = names.iter().filter_map(|name| segment::parse_name(name)).collect();
    let mut reading = Reading::new(dir);
    for (at, id) in ids.iter().enumerate() {
        let path = segment::path(dir, *id);
        let bytes = disk.read(&path).await.map_err(failed)?;
        let header = Header::parse(&bytes);
        let whole = header.is_some_and(|header| bytes.len() as u64 >= header.capacity);
        match header {
            _ if !whole && at + 1 == ids.len() && is_unfinished(&bytes) => {
                segment::remove(disk, &path).await.map_err(failed)?;
                disk.sync_dir(dir).await.map_err(failed)?;
            }
            Some(header) => reading.segment(header, *id, bytes)?,
            None => return Err(reading.corrupt(*id, 0, "the segment's header is damaged")),
        }
    }
    reading.finish(disk).await
}

/// A segment whose making a crash cut short: no record was ever in it.
fn is_unfinished(bytes: &[u8]) -> bool {
    used(bytes) <= segment::HEADER
}

/// Where the zeros at the end begin. Most of a segment may be zeros, so that whole pages are compared.
fn used(bytes: &[u8]) -> usize {
    const PAGE: usize = 4096;
    const ZEROS: [u8; PAGE] = [0; PAGE];
    let mut end = bytes.len();
    for page in bytes.rchunks(PAGE) {
        if Some(page) != ZEROS.get(..page.len()) {
            let zeros = page.iter().rev().take_while(|byte| **byte == 0).count();
            return end - zeros;
        }
        end -= page.len();
    }
    0
}

/// The segment read last.
#[derive(Debug)]
struct Last {
    header: Header,
    bytes: Bytes,
    /// Where its records end.
    end: usize,
}

#[derive(Debug)]
struct Reading<'a> {
    dir: &'a Path,
    records: Vec<Record>,
    sealed: Vec<Sealed>,
    last: Option<Last>,
    purged: Purged,
    chain: u32,
    next_seq: u64,
}

impl<'a> Reading<'a> {
    const fn new(dir: &'a Path) -> Self {
        let purged = Purged { before: 0, kept: 1 };
        Self { dir, records: Vec::new(), sealed: Vec::new(), last: None, purged, chain: 0, next_seq: 1 }
    }

    fn corrupt(&self, id: u64, offset: u64, what: &'static str) -> WalError {
        WalError::Corrupt { file: self.path(id), offset, what }
    }

    fn path(&self, id: u64) -> PathBuf {
        segment::path(self.dir, id)
    }

    /// Takes the next segment, which vouches for the one before it.
    fn segment(&mut self, header: Header, id: u64, bytes: Bytes) -> Result<(), WalError> {
        if header.id != id {
            return Err(self.corrupt(id, 0, "the segment carries another's number"));
        }
        if (bytes.len() as u64) < header.capacity {
            return Err(self.corrupt(id, bytes.len() as u64, "the file was cut short"));
        }
        match self.last.take() {
            None => {
                self.chain = header.prev_crc;
                self.next_seq = header.first_seq;
            }
            Some(last) => self.seal(&last, header)?,
        }
        let end = self.records(header, &bytes)?;
        self.last = Some(Last { header, bytes, end });
        Ok(())
    }

    fn seal(&mut self, last: &Last, next: Header) -> Result<(), WalError> {
        let id = last.header.id;
        if next.id != id + 1 {
            return Err(self.corrupt(next.id, 0, "the segment before it is missing"));
        }
        if next.prev_end != last.end as u64 {
            return Err(self.corrupt(id, last.end as u64, "a record that was synced is damaged or missing"));
        }
        if (next.prev_crc, next.first_seq) != (self.chain, self.next_seq) {
            return Err(self.corrupt(next.id, 0, "the segment does not follow the one before it"));
        }
        self.sealed.push(Sealed { id, first_seq: last.header.first_seq });
        Ok(())
    }

    /// Takes the records of a segment up to the first that does not follow; returns where that is.
    fn records(&mut self, header: Header, bytes: &[u8]) -> Result<usize, WalError> {
        let mut at = segment::HEADER;
        while let Some(found) = frame::read(bytes, at) {
            if (found.prev, found.seq) != (self.chain, self.next_seq) || found.kind == frame::KIND_SYNCED {
                break;
            }
            if found.kind == frame::KIND_PURGED {
                self.purged = Purged::parse(found.payload)
                    .ok_or_else(|| self.corrupt(header.id, at as u64, "a purge mark says nothing"))?;
            } else {
                let payload = Bytes::copy_from_slice(found.payload);
                self.records.push(Record { seq: found.seq, kind: found.kind, payload });
            }
            self.chain = found.crc;
            self.next_seq += 1;
            at += frame::size(found.payload.len());
        }
        Ok(at)
    }

    async fn finish(mut self, disk: &dyn Disk) -> Result<Recovered, WalError> {
        let active = match self.last.take() {
            Some(last) => Some(self.open_last(disk, &last).await?),
            None => None,
        };
        let first =
            self.sealed.first().map(|sealed| sealed.id).or_else(|| active.as_ref().map(|active| active.id));
        if let Some(first) = first.filter(|first| *first > self.purged.kept) {
            return Err(self.corrupt(first, 0, "segments before it are missing"));
        }
        self.resume_purge(disk).await?;
        let Self { mut records, sealed, purged, chain, next_seq, .. } = self;
        records.retain(|record| record.seq >= purged.before);
        let tail = Tail { sealed, active, chain, next_seq, purged_before: purged.before };
        Ok(Recovered { records, tail })
    }

    /// Cuts the torn end of the last segment and syncs the rest: what is read must not be lost any more, even when
    /// the process that wrote it died before its sync.
    async fn open_last(&self, disk: &dyn Disk, last: &Last) -> Result<Active, WalError> {
        let failed = WalError::opening(self.dir);
        let Header { id, first_seq, .. } = last.header;
        self.check_torn(last)?;
        let file = disk.open(&self.path(id), Open::Write).await.map_err(failed)?;
        let dirty = used(&last.bytes).saturating_sub(last.end);
        if dirty > 0 {
            let zeros = Bytes::from(vec![0; dirty]);
            file.write_at(last.end as u64, zeros).await.map_err(failed)?;
        }
        file.sync_data().await.map_err(failed)?;
        disk.sync_dir(self.dir).await.map_err(failed)?;
        let (end, capacity) = (last.end as u64, last.bytes.len() as u64);
        Ok(Active { file, id, first_seq, end, capacity })
    }

    /// Damage is a torn end only while nothing behind it says that the place had been synced.
    fn check_torn(&self, last: &Last) -> Result<(), WalError> {
        let (damage, bytes) = (last.end as u64, &last.bytes);
        for at in (last.end..used(bytes)).step_by(frame::ALIGN) {
            if frame::read(bytes, at).is_some_and(|found| found.synced > damage && found.synced <= at as u64)
            {
                return Err(self.corrupt(
                    last.header.id,
                    damage,
                    "a record that was synced is damaged or missing",
                ));
            }
        }
        Ok(())
    }

    /// Removes segments that a crash kept from being removed.
    async fn resume_purge(&mut self, disk: &dyn Disk) -> Result<(), WalError> {
        let failed = WalError::opening(self.dir);
        let gone = self.sealed.partition_point(|sealed| sealed.id < self.purged.kept);
        for sealed in self.sealed.drain(..gone) {
            segment::remove(disk, &segment::path(self.dir, sealed.id)).await.map_err(failed)?;
            disk.sync_dir(self.dir).await.map_err(failed)?;
        }
        Ok(())
    }
}
