//! Mounts: a view of them that ends with this process, and small disks that can be full.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::ChaosError;

/// The file that fills a disk.
const BALLAST: &str = "ballast";

/// Gives this process mounts of its own: what it mounts from here on, handles of namespaces included, goes with it,
/// however it ends. Call it before there is a second thread.
///
/// # Errors
/// [`ChaosError`] when the kernel refuses, which it does without `CAP_SYS_ADMIN`.
pub fn isolate() -> Result<(), ChaosError> {
    let doing = "having mounts of its own (are you root?)";
    // SAFETY: of all that may be unshared, mounts alone are; no open file changes.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }
        .map_err(|error| ChaosError::kernel(doing)(error.into()))?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).map_err(|error| ChaosError::kernel(doing)(error.into()))
}

/// A disk in memory. Dropping it unmounts it.
#[derive(Debug)]
pub struct SmallDisk {
    at: PathBuf,
}

impl SmallDisk {
    /// Mounts one of so many MiB at a directory, which is made when it is not there.
    ///
    /// # Errors
    /// [`ChaosError`] when the kernel refuses.
    pub fn mount(at: &Path, mib: u64) -> Result<Self, ChaosError> {
        let doing = || format!("making {}", at.display());
        std::fs::create_dir_all(at).map_err(ChaosError::kernel(doing()))?;
        let size = std::ffi::CString::new(format!("size={mib}m")).unwrap_or_default();
        mount("tmpfs", at, "tmpfs", MountFlags::empty(), size.as_c_str())
            .map_err(|error| ChaosError::kernel(format!("mounting {}", at.display()))(error.into()))?;
        Ok(Self { at: at.to_owned() })
    }

    /// Fills it until nothing more fits.
    pub fn fill(&self) {
        let Ok(mut file) = std::fs::File::create(self.at.join(BALLAST)) else { return };
        let some = [0u8; 4096];
        while file.write_all(&some).is_ok() {}
    }

    /// Takes away what filled it.
    pub fn empty(&self) {
        // It may not have been filled.
        drop(std::fs::remove_file(self.at.join(BALLAST)));
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Mounts end with the process anyway.
        let _unmounted = unmount(&self.at, UnmountFlags::DETACH);
    }
}
