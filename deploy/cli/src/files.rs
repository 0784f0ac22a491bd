//! Files that operators keep: certificates, keys, configuration. Each is replaced whole; secrets are their owner's alone.

#![expect(clippy::disallowed_methods, reason = "an operator's files are the executable's, not a node's")]

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::failure::{Exit, Failure};

/// Who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readers {
    /// Everyone.
    All,
    /// Its owner: it holds a secret.
    Owner,
}

/// Writes a file, so that its name holds either the old contents or the new.
pub(crate) fn write(path: &Path, text: &str, readers: Readers) -> Result<(), Failure> {
    let failed = |error: io::Error| {
        let mend = "check that the directory exists, is yours to write and has space";
        Failure::failed(format!("cannot write {}: {error}", path.display())).mend(mend)
    };
    let beside = beside(path);
    // One left by an earlier run that broke off.
    drop(fs::remove_file(&beside));
    let mode = match readers {
        Readers::All => 0o644,
        Readers::Owner => 0o600,
    };
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside).map_err(failed)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
    fs::rename(&beside, path).map_err(failed)
}

/// Whether there is anything of that name.
pub(crate) fn exists(path: &Path) -> bool {
    path.exists()
}

/// Whether it is a directory.
pub(crate) fn is_dir(path: &Path) -> bool {
    path.is_dir()
}

/// Who may do what with a file, in the bits of `chmod`.
#[cfg(test)]
pub(crate) fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Reads a text file.
pub(crate) fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path)
        .map_err(|error| Failure::failed(format!("cannot read {}: {error}", path.display())))
}

/// Reads a text file that has at most so many bytes.
pub(crate) fn read_within(path: &Path, most: u64) -> Result<String, Failure> {
    let failed = |error: io::Error| Failure::failed(format!("cannot read {}: {error}", path.display()));
    let mut text = String::new();
    fs::File::open(path)
        .and_then(|file| file.take(most.saturating_add(1)).read_to_string(&mut text))
        .map_err(failed)?;
    if text.len() as u64 > most {
        let what = format!("{} has more than {most} bytes", path.display());
        return Err(Failure::new(Exit::Invalid, what).mend("split it"));
    }
    Ok(text)
}

/// Removes a file; one that is not there is fine.
pub(crate) fn remove(path: &Path) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Failure::failed(format!("cannot remove {}: {error}", path.display())))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Makes a directory and its parents.
pub(crate) fn make_dir(path: &Path) -> Result<(), Failure> {
    fs::create_dir_all(path)
        .map_err(|error| Failure::failed(format!("cannot make the directory {}: {error}", path.display())))
}

/// Names in a directory; none when it does not exist.
pub(crate) fn list(dir: &Path) -> Result<Vec<String>, Failure> {
    let failed = |error: io::Error| Failure::failed(format!("cannot list {}: {error}", dir.display()));
    match fs::read_dir(dir) {
        Ok(entries) => entries
            .map(|entry| Ok(entry.map_err(failed)?.file_name().to_string_lossy().into_owned()))
            .collect(),
        Err(absent) if absent.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(failed(error)),
    }
}

/// Opens a log to append to.
pub(crate) fn append(path: &Path) -> Result<fs::File, Failure> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .map_err(|error| Failure::failed(format!("cannot open {}: {error}", path.display())))
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_secret_is_its_owners_alone_even_when_it_replaces_an_open_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("node.key");
        write(&path, "old", Readers::All).unwrap();
        write(&path, "secret", Readers::Owner).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(read(&path).unwrap(), "secret");
        assert_eq!(list(dir.path()).unwrap(), ["node.key"]);
        assert!(list(&dir.path().join("absent")).unwrap().is_empty());
    }
}
