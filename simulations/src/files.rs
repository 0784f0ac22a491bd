//! The simulator's own files, outside of every simulated world.

#![expect(clippy::disallowed_methods, reason = "what runs no scenario reads and writes the real disk")]

use std::io;
use std::path::{Path, PathBuf};

/// The text of a file.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    std::fs::read_to_string(path)
}

/// Writes a file and makes the directories above it.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    std::fs::write(path, bytes)
}

/// Makes a directory that is empty.
pub(crate) fn make_empty(path: &Path) -> io::Result<()> {
    remove(path)?;
    std::fs::create_dir_all(path)
}

/// Removes a directory and what is in it, when it is there.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The commit of the working directory, `+` behind it when something in it was changed; `None` where git does not tell.
pub(crate) fn commit() -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = std::process::Command::new("git").args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let is_changed =
        git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|said| !said.is_empty());
    Some(if is_changed { commit + "+" } else { commit })
}

/// The files of a directory whose names end so, sorted.
pub(crate) fn list(directory: &Path, ending: &str) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|found| found == ending) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
