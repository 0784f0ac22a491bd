//! A disk as one process has it open. After the process ended its calls have no effect and no answer.

use std::fmt;
use std::future::pending;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use seam::{Boxed, DiskLock, File, Open};

use super::super::machine::Core;
use super::{Disk, State};

/// The most that one read gives.
const READ_ALL: usize = 1 << 30;

/// A process's way to its disk.
#[derive(Clone)]
pub(in crate::engine) struct ProcessDisk {
    pub(in crate::engine) disk: Arc<Disk>,
    pub(in crate::engine) machine: Arc<Core>,
    pub(in crate::engine) generation: u64,
}

impl ProcessDisk {
    /// Does `work` after `time`, if the process still runs then.
    #[expect(clippy::disallowed_methods, reason = "the disk's own delays")]
    async fn after<T>(
        &self,
        time: Duration,
        work: impl FnOnce(&mut State) -> io::Result<T>,
    ) -> io::Result<T> {
        if !time.is_zero() {
            tokio::time::sleep(time).await;
        }
        if self.machine.is_current(self.generation) {
            return work(&mut self.disk.0.lock());
        }
        pending().await
    }

    async fn at_once<T>(&self, work: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        self.after(Duration::ZERO, work).await
    }
}

impl seam::Disk for ProcessDisk {
    fn open<'a>(&'a self, path: &'a Path, how: Open) -> Boxed<'a, io::Result<Box<dyn File>>> {
        Box::pin(async move {
            let id = self
                .at_once(|state| {
                    let id = match how {
                        Open::Read | Open::Write => state.names.get(path)?,
                        Open::Create => state.create(path)?,
                    };
                    state.opened(id);
                    Ok(id)
                })
                .await?;
            Ok(Box::new(ProcessFile { disk: self.clone(), id, writes: how != Open::Read }) as Box<dyn File>)
        })
    }

    fn read<'a>(&'a self, path: &'a Path) -> Boxed<'a, io::Result<Bytes>> {
        Box::pin(self.at_once(|state| {
            let id = state.names.get(path)?;
            Ok(state.file(id)?.read(0, READ_ALL))
        }))
    }

    fn list<'a>(&'a self, dir: &'a Path) -> Boxed<'a, io::Result<Vec<String>>> {
        Box::pin(self.at_once(|state| state.names.list(dir)))
    }

    fn create_dir_all<'a>(&'a self, dir: &'a Path) -> Boxed<'a, io::Result<()>> {
        Box::pin(self.at_once(|state| {
            state.names.create_dir_all(dir);
            Ok(())
        }))
    }

    fn rename<'a>(&'a self, from: &'a Path, to: &'a Path) -> Boxed<'a, io::Result<()>> {
        Box::pin(self.at_once(|state| {
            state.names.rename(from, to)?;
            state.forget_unnamed();
            Ok(())
        }))
    }

    fn remove<'a>(&'a self, path: &'a Path) -> Boxed<'a, io::Result<()>> {
        Box::pin(self.at_once(|state| {
            state.names.remove(path)?;
            state.forget_unnamed();
            Ok(())
        }))
    }

    fn sync_dir<'a>(&'a self, dir: &'a Path) -> Boxed<'a, io::Result<()>> {
        Box::pin(self.after(self.disk.sync_delay(), |state| {
            state.names.check_dir(dir)?;
            state.end_sync_dir(dir)
        }))
    }

    fn lock<'a>(&'a self, path: &'a Path) -> Boxed<'a, io::Result<Box<dyn DiskLock>>> {
        Box::pin(async move {
            let ticket = self
                .at_once(|state| {
                    if state.names.get(path).is_err() {
                        state.create(path)?;
                    }
                    if state.locks.get(path).is_some_and(|(holder, _)| *holder == self.generation) {
                        return Err(io::ErrorKind::WouldBlock.into());
                    }
                    // A generation that passed took its locks with it.
                    state.next_lock += 1;
                    let ticket = (self.generation, state.next_lock);
                    state.locks.insert(path.to_owned(), ticket);
                    Ok(ticket)
                })
                .await?;
            Ok(Box::new(Held { disk: Arc::clone(&self.disk), path: path.to_owned(), ticket })
                as Box<dyn DiskLock>)
        })
    }
}

impl fmt::Debug for ProcessDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "disk of {:?}", self.machine)
    }
}

#[derive(Debug)]
struct Held {
    disk: Arc<Disk>,
    path: PathBuf,
    ticket: (u64, u64),
}

impl DiskLock for Held {}

impl Drop for Held {
    fn drop(&mut self) {
        let mut state = self.disk.0.lock();
        if state.locks.get(&self.path) == Some(&self.ticket) {
            state.locks.remove(&self.path);
        }
    }
}

#[derive(Debug)]
struct ProcessFile {
    disk: ProcessDisk,
    id: u64,
    writes: bool,
}

impl ProcessFile {
    fn check_writes(&self) -> io::Result<()> {
        if self.writes { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
    }
}

impl Drop for ProcessFile {
    fn drop(&mut self) {
        self.disk.disk.0.lock().closed(self.id);
    }
}

impl File for ProcessFile {
    fn write_at(&self, offset: u64, bytes: Bytes) -> Boxed<'_, io::Result<()>> {
        Box::pin(async move {
            self.check_writes()?;
            let delay = self.disk.disk.write_delay();
            self.disk.after(delay, |state| state.write(self.id, offset, &bytes)).await
        })
    }

    fn read_at(&self, offset: u64, len: usize) -> Boxed<'_, io::Result<Bytes>> {
        Box::pin(self.disk.at_once(move |state| Ok(state.file(self.id)?.read(offset, len))))
    }

    fn sync_data(&self) -> Boxed<'_, io::Result<()>> {
        Box::pin(async move {
            let began = self.disk.at_once(|state| Ok(state.file(self.id)?.dirty())).await?;
            let delay = self.disk.disk.sync_delay();
            self.disk.after(delay, |state| state.end_sync(self.id, began)).await
        })
    }

    fn set_len(&self, len: u64) -> Boxed<'_, io::Result<()>> {
        Box::pin(async move {
            self.check_writes()?;
            self.disk
                .at_once(|state| {
                    state.check_write(0)?;
                    state.file(self.id)?.set_len(len);
                    Ok(())
                })
                .await
        })
    }

    fn allocate(&self, len: u64) -> Boxed<'_, io::Result<()>> {
        Box::pin(async move {
            self.check_writes()?;
            let delay = self.disk.disk.write_delay();
            self.disk.after(delay, |state| state.claim(self.id, len)).await
        })
    }

    fn size(&self) -> Boxed<'_, io::Result<u64>> {
        Box::pin(self.disk.at_once(|state| Ok(state.file(self.id)?.len())))
    }
}
