//! Files of the operating system. Every call runs on the blocking pool.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use crate::{Boxed, Disk, DiskLock, File, Open};

#[derive(Debug)]
pub(super) struct SystemDisk;

impl Disk for SystemDisk {
    fn open<'a>(&'a self, path: &'a Path, how: Open) -> Boxed<'a, io::Result<Box<dyn File>>> {
        on_path(path, move |path| {
            let file = match how {
                Open::Read => fs::File::open(path)?,
                Open::Write => fs::OpenOptions::new().read(true).write(true).open(path)?,
                Open::Create => fs::OpenOptions::new().read(true).write(true).create_new(true).open(path)?,
            };
            Ok(Box::new(SystemFile(Arc::new(file))) as Box<dyn File>)
        })
    }

    fn read<'a>(&'a self, path: &'a Path) -> Boxed<'a, io::Result<Bytes>> {
        on_path(path, |path| fs::read(path).map(Bytes::from))
    }

    fn list<'a>(&'a self, dir: &'a Path) -> Boxed<'a, io::Result<Vec<String>>> {
        on_path(dir, |dir| {
            let mut names = Vec::new();
            for entry in fs::read_dir(dir)? {
                names.push(entry?.file_name().to_string_lossy().into_owned());
            }
            names.sort_unstable();
            Ok(names)
        })
    }

    fn create_dir_all<'a>(&'a self, dir: &'a Path) -> Boxed<'a, io::Result<()>> {
        on_path(dir, |dir| {
            fs::create_dir_all(&dir)?;
            match dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                Some(parent) => fs::File::open(parent)?.sync_all(),
                None => Ok(()),
            }
        })
    }

    fn rename<'a>(&'a self, from: &'a Path, to: &'a Path) -> Boxed<'a, io::Result<()>> {
        let to = to.to_owned();
        on_path(from, move |from| fs::rename(from, to))
    }

    fn remove<'a>(&'a self, path: &'a Path) -> Boxed<'a, io::Result<()>> {
        on_path(path, fs::remove_file)
    }

    fn sync_dir<'a>(&'a self, dir: &'a Path) -> Boxed<'a, io::Result<()>> {
        on_path(dir, |dir| fs::File::open(dir)?.sync_all())
    }

    fn lock<'a>(&'a self, path: &'a Path) -> Boxed<'a, io::Result<Box<dyn DiskLock>>> {
        on_path(path, |path| {
            let file = fs::OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
            file.try_lock().map_err(io::Error::from)?;
            Ok(Box::new(SystemLock { _file: file }) as Box<dyn DiskLock>)
        })
    }

    fn native(&self, path: &Path) -> Option<PathBuf> {
        Some(path.to_owned())
    }
}

#[derive(Debug)]
struct SystemLock {
    _file: fs::File,
}

impl DiskLock for SystemLock {}

#[derive(Debug)]
struct SystemFile(Arc<fs::File>);

impl File for SystemFile {
    fn write_at(&self, offset: u64, bytes: Bytes) -> Boxed<'_, io::Result<()>> {
        let file = Arc::clone(&self.0);
        blocking(move || file.write_all_at(&bytes, offset))
    }

    fn read_at(&self, offset: u64, len: usize) -> Boxed<'_, io::Result<Bytes>> {
        let file = Arc::clone(&self.0);
        blocking(move || read_up_to(&file, offset, len))
    }

    fn sync_data(&self) -> Boxed<'_, io::Result<()>> {
        let file = Arc::clone(&self.0);
        blocking(move || file.sync_data())
    }

    fn set_len(&self, len: u64) -> Boxed<'_, io::Result<()>> {
        let file = Arc::clone(&self.0);
        blocking(move || file.set_len(len))
    }

    fn allocate(&self, len: u64) -> Boxed<'_, io::Result<()>> {
        let file = Arc::clone(&self.0);
        blocking(move || claim(&file, len))
    }

    fn size(&self) -> Boxed<'_, io::Result<u64>> {
        let file = Arc::clone(&self.0);
        blocking(move || Ok(file.metadata()?.len()))
    }
}

/// Claims blocks; where the file system cannot, zeros are written beyond the present end.
fn claim(file: &fs::File, len: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;

    match fallocate(file, FallocateFlags::empty(), 0, len) {
        Ok(()) => Ok(()),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
            let zeros = vec![0; 64 * 1024];
            let mut end = file.metadata()?.len();
            while end < len {
                let more = usize::try_from(len - end).map_or(zeros.len(), |left| left.min(zeros.len()));
                file.write_all_at(zeros.get(..more).unwrap_or_default(), end)?;
                end += more as u64;
            }
            Ok(())
        }
        Err(errno) => Err(errno.into()),
    }
}

fn read_up_to(file: &fs::File, offset: u64, len: usize) -> io::Result<Bytes> {
    let mut buffer = vec![0; len];
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset.saturating_add(filled as u64)) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(again) if again.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    buffer.truncate(filled);
    Ok(buffer.into())
}

fn on_path<'a, T: Send + 'static>(
    path: &Path,
    work: impl FnOnce(PathBuf) -> io::Result<T> + Send + 'static,
) -> Boxed<'a, io::Result<T>> {
    let path = path.to_owned();
    blocking(move || work(path))
}

fn blocking<'a, T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Boxed<'a, io::Result<T>> {
    Box::pin(async move {
        match tokio::task::spawn_blocking(work).await {
            Ok(result) => result,
            Err(_ended) => Err(io::Error::other("the blocking pool ended")),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write_atomic;

    #[tokio::test]
    async fn allocated_space_reads_as_zeros() {
        let dir = tempfile::tempdir().unwrap();
        let file = SystemDisk.open(&dir.path().join("log"), Open::Create).await.unwrap();
        file.allocate(10_000).await.unwrap();
        file.allocate(5_000).await.unwrap();
        assert_eq!(file.size().await.unwrap(), 10_000);
        assert_eq!(file.read_at(9_998, 8).await.unwrap(), [0u8, 0].as_slice());
    }

    #[tokio::test]
    async fn an_atomic_write_replaces_and_a_lock_excludes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        write_atomic(&SystemDisk, &path, Bytes::from_static(b"old")).await.unwrap();
        write_atomic(&SystemDisk, &path, Bytes::from_static(b"new")).await.unwrap();
        assert_eq!(SystemDisk.read(&path).await.unwrap(), "new");
        assert_eq!(SystemDisk.list(dir.path()).await.unwrap(), ["state"]);

        let lock = dir.path().join("lock");
        let held = SystemDisk.lock(&lock).await.unwrap();
        let refused = SystemDisk.lock(&lock).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        drop(held);
        SystemDisk.lock(&lock).await.unwrap();
    }
}
