//! Names of files, live and durable. Changes reach the disk in order, as a journal has them; syncing a directory
//! makes its changes durable.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use simulation_hooks::Random;

use super::PowerLoss;

/// The tree of names.
#[derive(Debug, Default)]
pub(super) struct Names {
    dirs: BTreeSet<PathBuf>,
    live: BTreeMap<PathBuf, u64>,
    durable: BTreeMap<PathBuf, u64>,
    /// Changes that are not durable, oldest first.
    pending: Vec<Change>,
}

#[derive(Clone, Debug)]
enum Change {
    Create(PathBuf, u64),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

impl Names {
    pub(super) fn get(&self, path: &Path) -> io::Result<u64> {
        self.live.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.check_dir(dir)?;
        let inside = self.live.keys().chain(&self.dirs).filter(|path| path.parent() == Some(dir));
        let mut names: Vec<String> = inside
            .filter_map(|path| path.file_name())
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Makes directories, durable at once.
    pub(super) fn create_dir_all(&mut self, dir: &Path) {
        self.dirs.extend(dir.ancestors().map(Path::to_path_buf));
    }

    pub(super) fn create(&mut self, path: &Path, file: u64) -> io::Result<()> {
        self.check_parent(path)?;
        if self.live.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.change(Change::Create(path.to_owned(), file));
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.get(from)?;
        self.check_parent(to)?;
        self.change(Change::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    pub(super) fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.get(path)?;
        self.change(Change::Remove(path.to_owned()));
        Ok(())
    }

    pub(super) fn check_dir(&self, dir: &Path) -> io::Result<()> {
        if self.dirs.contains(dir) { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    /// Makes the changes in a directory durable, and those that came before them.
    pub(super) fn sync_dir(&mut self, dir: &Path) {
        let last = self.pending.iter().rposition(|change| change.is_in(dir));
        let count = last.map_or(0, |last| last + 1);
        self.make_durable(count);
    }

    pub(super) fn power_off(&mut self, loss: PowerLoss, random: &mut Random) {
        if loss == PowerLoss::Torn {
            let survive = random.below(self.pending.len() as u64 + 1);
            self.make_durable(usize::try_from(survive).unwrap_or(0));
        }
        self.pending.clear();
        self.live = self.durable.clone();
    }

    pub(super) fn live_files(&self) -> BTreeSet<u64> {
        self.live.values().copied().collect()
    }

    /// Every file that some name leads to, or would after a power loss.
    pub(super) fn files(&self) -> BTreeSet<u64> {
        self.live.values().chain(self.durable.values()).copied().collect()
    }

    fn check_parent(&self, path: &Path) -> io::Result<()> {
        path.parent().map_or(Ok(()), |dir| self.check_dir(dir))
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.live);
        self.pending.push(change);
    }

    fn make_durable(&mut self, count: usize) {
        for change in self.pending.drain(..count) {
            change.apply(&mut self.durable);
        }
    }
}

impl Change {
    fn apply(&self, names: &mut BTreeMap<PathBuf, u64>) {
        match self {
            Self::Create(path, file) => drop(names.insert(path.clone(), *file)),
            Self::Rename(from, to) => {
                if let Some(file) = names.remove(from) {
                    names.insert(to.clone(), file);
                }
            }
            Self::Remove(path) => drop(names.remove(path)),
        }
    }

    fn is_in(&self, dir: &Path) -> bool {
        match self {
            Self::Create(path, _) | Self::Remove(path) => path.parent() == Some(dir),
            Self::Rename(from, to) => from.parent() == Some(dir) || to.parent() == Some(dir),
        }
    }
}
