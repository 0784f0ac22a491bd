//! Files, as logs, journals and snapshots need them. Nothing is durable before it is synced, and a name is durable
//! only when its directory is synced too.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::Boxed;

/// How to open a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// Must exist; reading only.
    Read,
    /// Must exist; reading and writing.
    Write,
    /// Must not exist; reading and writing.
    Create,
}

/// A host's disk.
pub trait Disk: fmt::Debug + Send + Sync {
    /// Opens a file.
    fn open<'a>(&'a self, path: &'a Path, how: Open) -> Boxed<'a, io::Result<Box<dyn File>>>;

    /// Reads a whole file.
    fn read<'a>(&'a self, path: &'a Path) -> Boxed<'a, io::Result<Bytes>>;

    /// Names in a directory, sorted.
    fn list<'a>(&'a self, dir: &'a Path) -> Boxed<'a, io::Result<Vec<String>>>;

    /// Makes a directory and its parents, and syncs them; one that exists is fine.
    fn create_dir_all<'a>(&'a self, dir: &'a Path) -> Boxed<'a, io::Result<()>>;

    /// Renames a file over whatever has the new name.
    fn rename<'a>(&'a self, from: &'a Path, to: &'a Path) -> Boxed<'a, io::Result<()>>;

    /// Removes a file.
    fn remove<'a>(&'a self, path: &'a Path) -> Boxed<'a, io::Result<()>>;

    /// Makes the names in a directory durable.
    fn sync_dir<'a>(&'a self, dir: &'a Path) -> Boxed<'a, io::Result<()>>;

    /// Takes an exclusive lock on a file, made when absent; `WouldBlock` when another process holds it. The lock
    /// ends when it is dropped or its process ends.
    fn lock<'a>(&'a self, path: &'a Path) -> Boxed<'a, io::Result<Box<dyn DiskLock>>>;

    /// Where the operating system finds the file, for libraries that open files themselves; `None` where it does not, as
    /// on a simulated disk.
    fn native(&self, _path: &Path) -> Option<PathBuf> {
        None
    }
}

/// An exclusive lock that ends when dropped.
pub trait DiskLock: fmt::Debug + Send + Sync {}

/// An open file.
pub trait File: fmt::Debug + Send + Sync {
    /// Writes all of `bytes` at `offset`. Not durable before [`File::sync_data`].
    fn write_at(&self, offset: u64, bytes: Bytes) -> Boxed<'_, io::Result<()>>;

    /// Reads up to `len` bytes at `offset`; fewer at the end of the file.
    fn read_at(&self, offset: u64, len: usize) -> Boxed<'_, io::Result<Bytes>>;

    /// Makes contents and length durable (`fdatasync`).
    fn sync_data(&self) -> Boxed<'_, io::Result<()>>;

    /// Cuts or extends the file; an extension reads as zeros.
    fn set_len(&self, len: u64) -> Boxed<'_, io::Result<()>>;

    /// Extends the file to `len` bytes of zeros and claims their space now, so that a full disk shows here and not at
    /// a later write. A longer file keeps its length.
    fn allocate(&self, len: u64) -> Boxed<'_, io::Result<()>>;

    /// The file's length in bytes.
    fn size(&self) -> Boxed<'_, io::Result<u64>>;
}

/// Replaces a file's contents so that after a crash it holds either the old or the new, whole and durable.
///
/// # Errors
/// What the disk said; the old contents then stand.
pub async fn write_atomic(disk: &dyn Disk, path: &Path, bytes: Bytes) -> io::Result<()> {
    // Beside it under a name of its own: `node.pem` and `node.key` may be replaced at once.
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    match disk.remove(&beside).await {
        Ok(()) => {}
        Err(absent) if absent.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let file = disk.open(&beside, Open::Create).await?;
    file.write_at(0, bytes).await?;
    file.sync_data().await?;
    disk.rename(&beside, path).await?;
    match path.parent() {
        Some(dir) => disk.sync_dir(dir).await,
        None => Ok(()),
    }
}
