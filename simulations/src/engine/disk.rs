//! Disks: what a process wrote, and what of it survives when the power goes.
//!
//! A file has live contents (what the kernel shows) and durable contents (what the platter holds), in pages that the
//! two share until one changes. Names are kept apart from contents: a name is durable once its directory is synced.

mod contents;
mod names;
mod process;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use seam::Lock;
use simulation_hooks::Random;

use contents::Contents;
use names::Names;
pub(super) use process::ProcessDisk;

/// `EIO`, what a device that fails gives.
const IO_ERROR: i32 = 5;

/// How a disk misbehaves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskFaults {
    /// At least this long takes a sync.
    pub sync_takes: Duration,
    /// At most this much longer it takes, drawn for each.
    pub sync_jitter: Duration,
    /// At least this long takes a write.
    pub write_takes: Duration,
    /// Bytes that fit; writing more fails with "no space left".
    pub capacity: Option<u64>,
    /// Syncs say done and make nothing durable.
    pub lies: bool,
    /// Syncs fail; what was to be synced counts as clean afterwards, as Linux has it, and is never written.
    pub fails_syncs: bool,
    /// Writes fail.
    pub fails_writes: bool,
}

/// What of the bytes and names that were not synced is lost when the power goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerLoss {
    /// All of it.
    Unsynced,
    /// A part, drawn: each page survives, is lost, or is torn between two sectors; names survive in the order they
    /// changed, up to some point.
    Torn,
}

/// One machine's disk.
#[derive(Debug)]
pub(super) struct Disk(Lock<State>);

struct State {
    names: Names,
    files: BTreeMap<u64, Contents>,
    next_file: u64,
    /// How often each file is open.
    open: BTreeMap<u64, u64>,
    /// Which generation holds a lock file, and as which of its lock calls.
    locks: BTreeMap<PathBuf, (u64, u64)>,
    next_lock: u64,
    faults: DiskFaults,
    random: Random,
}

impl Disk {
    pub(super) fn new(random: Random) -> Self {
        Self(Lock::new(State {
            names: Names::default(),
            files: BTreeMap::new(),
            next_file: 0,
            open: BTreeMap::new(),
            locks: BTreeMap::new(),
            next_lock: 0,
            faults: DiskFaults { sync_takes: Duration::from_millis(1), ..DiskFaults::default() },
            random,
        }))
    }

    pub(super) fn change_faults(&self, change: impl FnOnce(&mut DiskFaults)) {
        change(&mut self.0.lock().faults);
    }

    pub(super) fn used(&self) -> u64 {
        self.0.lock().used()
    }

    pub(super) fn power_off(&self, loss: PowerLoss) {
        let mut state = self.0.lock();
        let mut random = state.random;
        state.names.power_off(loss, &mut random);
        for file in state.files.values_mut() {
            file.power_off(loss, &mut random);
        }
        state.random = random;
        state.forget_unnamed();
    }

    fn write_delay(&self) -> Duration {
        self.0.lock().faults.write_takes
    }

    fn sync_delay(&self) -> Duration {
        let mut state = self.0.lock();
        let jitter = super::clock::nanos(state.faults.sync_jitter);
        let drawn = if jitter == 0 { 0 } else { state.random.below(jitter) };
        state.faults.sync_takes + Duration::from_nanos(drawn)
    }
}

impl State {
    /// Bytes of the files that a live name leads to or that are open.
    fn used(&self) -> u64 {
        let live = self.names.live_files();
        let taking = self.files.iter().filter(|(id, _)| live.contains(id) || self.open.contains_key(id));
        taking.map(|(_, file)| file.allocated()).sum()
    }

    fn file(&mut self, id: u64) -> io::Result<&mut Contents> {
        self.files.get_mut(&id).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn create(&mut self, path: &Path) -> io::Result<u64> {
        self.check_write(0)?;
        let id = self.next_file;
        self.next_file += 1;
        self.names.create(path, id)?;
        self.files.insert(id, Contents::default());
        Ok(id)
    }

    /// Whether a write that allocates `more` bytes is accepted.
    fn check_write(&self, more: u64) -> io::Result<()> {
        if self.faults.fails_writes {
            return Err(io::Error::from_raw_os_error(IO_ERROR));
        }
        match self.faults.capacity {
            Some(capacity) if self.used().saturating_add(more) > capacity => {
                Err(io::ErrorKind::StorageFull.into())
            }
            Some(_) | None => Ok(()),
        }
    }

    fn write(&mut self, id: u64, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let more = self.file(id)?.would_allocate(offset, bytes.len());
        self.check_write(more)?;
        self.file(id)?.write(offset, bytes);
        Ok(())
    }

    fn claim(&mut self, id: u64, len: u64) -> io::Result<()> {
        let more = self.file(id)?.would_claim(len);
        self.check_write(more)?;
        self.file(id)?.claim(len);
        Ok(())
    }

    /// Ends a sync that began when `pages` were dirty.
    fn end_sync(&mut self, id: u64, began: contents::Dirty) -> io::Result<()> {
        let (lies, fails) = (self.faults.lies, self.faults.fails_syncs);
        let file = self.file(id)?;
        if fails || lies {
            file.forget_dirty(&began);
        } else {
            file.make_durable(began);
        }
        if fails { Err(io::Error::from_raw_os_error(IO_ERROR)) } else { Ok(()) }
    }

    fn end_sync_dir(&mut self, dir: &Path) -> io::Result<()> {
        if self.faults.fails_syncs {
            return Err(io::Error::from_raw_os_error(IO_ERROR));
        }
        if !self.faults.lies {
            self.names.sync_dir(dir);
        }
        Ok(())
    }

    fn opened(&mut self, id: u64) {
        *self.open.entry(id).or_default() += 1;
    }

    fn closed(&mut self, id: u64) {
        if let Some(count) = self.open.get_mut(&id) {
            *count -= 1;
            if *count == 0 {
                self.open.remove(&id);
                self.forget_unnamed();
            }
        }
    }

    /// Drops the contents of files that are not open and that no name, live or durable, leads to.
    fn forget_unnamed(&mut self) {
        let named = self.names.files();
        self.files.retain(|id, _| named.contains(id) || self.open.contains_key(id));
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk")
            .field("used", &self.used())
            .field("faults", &self.faults)
            .finish_non_exhaustive()
    }
}
