//! A disk in memory that keeps synced and unsynced bytes apart, and can crash, fill up, fail and rot.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use seam::{Boxed, Disk, DiskLock, File, Host, Lock, Open};
use tokio::sync::Notify;

/// Sectors persist or not, each on its own.
const SECTOR: usize = 64;

#[derive(Clone, Debug, Default)]
pub(super) struct MemDisk(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    inner: Lock<Inner>,
    halted: Notify,
}

#[derive(Clone, Debug, Default)]
struct Inner {
    inodes: Vec<Inode>,
    live: BTreeMap<PathBuf, usize>,
    durable: BTreeMap<PathBuf, usize>,
    locks: BTreeSet<PathBuf>,
    capacity: Option<u64>,
    fail_syncs: bool,
    halt_after: Option<u32>,
    ops: u32,
}

#[derive(Clone, Debug, Default)]
struct Inode {
    live: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<(usize, Bytes)>,
}

impl Inode {
    fn write(contents: &mut Vec<u8>, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        if contents.len() < end {
            contents.resize(end, 0);
        }
        contents[at..end].copy_from_slice(bytes);
    }
}

/// A small generator for choices that a crash makes.
fn draw(state: &mut u64) -> bool {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 63 == 1
}

impl MemDisk {
    pub(super) fn host(&self) -> Host {
        let mut parts = Host::real().parts().clone();
        parts.disk = Arc::new(self.clone());
        Host::from_parts(parts)
    }

    /// Power is lost: unsynced sectors and names stay or go, as `seed` draws.
    pub(super) fn crash(&self, mut seed: u64) {
        let mut inner = self.0.inner.lock();
        for inode in &mut inner.inodes {
            let mut contents = std::mem::take(&mut inode.durable);
            for (at, bytes) in std::mem::take(&mut inode.pending) {
                for (i, sector) in bytes.chunks(SECTOR).enumerate() {
                    if draw(&mut seed) {
                        Inode::write(&mut contents, at + i * SECTOR, sector);
                    }
                }
            }
            (inode.live, inode.durable) = (contents.clone(), contents);
        }
        let paths: BTreeSet<PathBuf> = inner.live.keys().chain(inner.durable.keys()).cloned().collect();
        for path in paths {
            if draw(&mut seed) {
                match inner.live.get(&path).copied() {
                    Some(inode) => inner.durable.insert(path, inode),
                    None => inner.durable.remove(&path),
                };
            }
        }
        inner.live = inner.durable.clone();
        inner.locks.clear();
        inner.halt_after = None;
        inner.fail_syncs = false;
    }

    /// Every change after `ops` more never returns.
    pub(super) fn halt_after(&self, ops: u32) {
        let mut inner = self.0.inner.lock();
        inner.halt_after = Some(inner.ops + ops);
    }

    pub(super) async fn halted(&self) {
        self.0.halted.notified().await;
    }

    pub(super) fn set_capacity(&self, bytes: Option<u64>) {
        self.0.inner.lock().capacity = bytes;
    }

    pub(super) fn fail_syncs(&self) {
        self.0.inner.lock().fail_syncs = true;
    }

    /// A disk of its own with the same contents.
    pub(super) fn copy(&self) -> Self {
        let copy = Self::default();
        *copy.0.inner.lock() = self.0.inner.lock().clone();
        copy.0.inner.lock().locks.clear();
        copy
    }

    pub(super) fn files(&self) -> Vec<(PathBuf, usize)> {
        let inner = self.0.inner.lock();
        inner.live.iter().map(|(path, inode)| (path.clone(), inner.inodes[*inode].live.len())).collect()
    }

    pub(super) fn flip(&self, path: &Path, at: usize, bit: u32) {
        let mut inner = self.0.inner.lock();
        let inode = inner.live[path];
        inner.inodes[inode].live[at] ^= 1 << bit;
        inner.inodes[inode].durable = inner.inodes[inode].live.clone();
    }

    pub(super) fn cut(&self, path: &Path, len: usize) {
        let mut inner = self.0.inner.lock();
        let inode = inner.live[path];
        inner.inodes[inode].live.truncate(len);
        inner.inodes[inode].durable = inner.inodes[inode].live.clone();
    }

    pub(super) fn lose(&self, path: &Path) {
        self.0.inner.lock().live.remove(path);
    }

    async fn change<T>(&self, change: impl FnOnce(&mut Inner) -> io::Result<T>) -> io::Result<T> {
        let halted = {
            let mut inner = self.0.inner.lock();
            inner.ops += 1;
            inner.halt_after.is_some_and(|last| inner.ops > last)
        };
        if halted {
            self.0.halted.notify_one();
            std::future::pending::<()>().await;
        }
        change(&mut self.0.inner.lock())
    }
}

fn absent() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl Disk for MemDisk {
    fn open<'a>(&'a self, path: &'a Path, how: Open) -> Boxed<'a, io::Result<Box<dyn File>>> {
        Box::pin(async move {
            let file = |inode| Box::new(MemFile { disk: self.clone(), inode }) as Box<dyn File>;
            if how != Open::Create {
                let inner = self.0.inner.lock();
                return inner.live.get(path).map(|inode| file(*inode)).ok_or_else(absent);
            }
            let inode = self.change(|inner| {
                if inner.live.contains_key(path) {
                    return Err(io::ErrorKind::AlreadyExists.into());
                }
                inner.inodes.push(Inode::default());
                inner.live.insert(path.to_owned(), inner.inodes.len() - 1);
                Ok(inner.inodes.len() - 1)
            });
            Ok(file(inode.await?))
        })
    }

    fn read<'a>(&'a self, path: &'a Path) -> Boxed<'a, io::Result<Bytes>> {
        Box::pin(async move {
            let inner = self.0.inner.lock();
            let inode = inner.live.get(path).ok_or_else(absent)?;
            Ok(inner.inodes[*inode].live.clone().into())
        })
    }

    fn list<'a>(&'a self, _dir: &'a Path) -> Boxed<'a, io::Result<Vec<String>>> {
        Box::pin(async move {
            let inner = self.0.inner.lock();
            let names =
                inner.live.keys().map(|path| path.file_name().unwrap().to_string_lossy().into_owned());
            Ok(names.collect())
        })
    }

    fn create_dir_all<'a>(&'a self, _dir: &'a Path) -> Boxed<'a, io::Result<()>> {
        Box::pin(async { Ok(()) })
    }

    fn rename<'a>(&'a self, _from: &'a Path, _to: &'a Path) -> Boxed<'a, io::Result<()>> {
        Box::pin(async { Err(io::ErrorKind::Unsupported.into()) })
    }

    fn remove<'a>(&'a self, path: &'a Path) -> Boxed<'a, io::Result<()>> {
        Box::pin(self.change(|inner| inner.live.remove(path).map(drop).ok_or_else(absent)))
    }

    fn sync_dir<'a>(&'a self, _dir: &'a Path) -> Boxed<'a, io::Result<()>> {
        Box::pin(self.change(|inner| {
            inner.durable = inner.live.clone();
            Ok(())
        }))
    }

    fn lock<'a>(&'a self, path: &'a Path) -> Boxed<'a, io::Result<Box<dyn DiskLock>>> {
        Box::pin(async move {
            if !self.0.inner.lock().locks.insert(path.to_owned()) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Ok(Box::new(MemLock { disk: self.clone(), path: path.to_owned() }) as Box<dyn DiskLock>)
        })
    }
}

#[derive(Debug)]
struct MemLock {
    disk: MemDisk,
    path: PathBuf,
}

impl DiskLock for MemLock {}

impl Drop for MemLock {
    fn drop(&mut self) {
        self.disk.0.inner.lock().locks.remove(&self.path);
    }
}

#[derive(Debug)]
struct MemFile {
    disk: MemDisk,
    inode: usize,
}

impl File for MemFile {
    fn write_at(&self, offset: u64, bytes: Bytes) -> Boxed<'_, io::Result<()>> {
        Box::pin(self.disk.change(move |inner| {
            let inode = &mut inner.inodes[self.inode];
            let at = usize::try_from(offset).unwrap();
            Inode::write(&mut inode.live, at, &bytes);
            inode.pending.push((at, bytes));
            Ok(())
        }))
    }

    fn read_at(&self, _offset: u64, _len: usize) -> Boxed<'_, io::Result<Bytes>> {
        Box::pin(async { Err(io::ErrorKind::Unsupported.into()) })
    }

    fn sync_data(&self) -> Boxed<'_, io::Result<()>> {
        Box::pin(self.disk.change(|inner| {
            if inner.fail_syncs {
                return Err(io::Error::other("the disk is dying"));
            }
            let inode = &mut inner.inodes[self.inode];
            inode.durable = inode.live.clone();
            inode.pending.clear();
            Ok(())
        }))
    }

    fn set_len(&self, _len: u64) -> Boxed<'_, io::Result<()>> {
        Box::pin(async { Err(io::ErrorKind::Unsupported.into()) })
    }

    fn allocate(&self, len: u64) -> Boxed<'_, io::Result<()>> {
        Box::pin(self.disk.change(move |inner| {
            let used: usize = inner.live.values().map(|inode| inner.inodes[*inode].live.len()).sum();
            if inner.capacity.is_some_and(|capacity| used as u64 + len > capacity) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let inode = &mut inner.inodes[self.inode];
            let zeros = vec![0; usize::try_from(len).unwrap() - inode.live.len()];
            let at = inode.live.len();
            Inode::write(&mut inode.live, at, &zeros);
            inode.pending.push((at, zeros.into()));
            Ok(())
        }))
    }

    fn size(&self) -> Boxed<'_, io::Result<u64>> {
        Box::pin(async { Ok(self.disk.0.inner.lock().inodes[self.inode].live.len() as u64) })
    }
}
