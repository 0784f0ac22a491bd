//! A wall clock that steps, for processes of which another one is told when.
//!
//! This package is also built as a library that a real process is started with (`LD_PRELOAD`). The environment then
//! names a file of eight bytes: how many nanoseconds its `CLOCK_REALTIME` is ahead, in the machine's order of bytes. Who
//! started it holds the same file as [`Steps`]. Threads that are simulated never look here.

use std::ffi::{CStr, CString, c_char};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicPtr, Ordering};

/// The variable of the environment that names the file.
pub const STEPS: &str = "SIMULATION_CLOCK";

/// Nanoseconds in a millisecond.
const MILLI_NS: i64 = 1_000_000;
/// Nanoseconds in a second.
const SECOND_NS: i64 = 1_000_000_000;

/// How far this process's own wall clock is ahead; null where nobody steps it.
static AHEAD: AtomicPtr<AtomicI64> = AtomicPtr::new(std::ptr::null_mut());

/// Runs before `main`, wherever this package is linked or loaded.
#[used]
#[unsafe(link_section = ".init_array")]
static FOLLOW: extern "C" fn() = follow;

extern "C" fn follow() {
    // SAFETY: before `main` no other thread changes the environment.
    let named = unsafe { libc::getenv(c"SIMULATION_CLOCK".as_ptr()) };
    if named.is_null() {
        return;
    }
    // SAFETY: the environment holds C strings.
    let file = unsafe { CStr::from_ptr(named.cast::<c_char>()) };
    if let Ok(ahead) = map(file) {
        AHEAD.store(ahead, Ordering::Relaxed);
    }
}

/// Puts a time that the real wall clock told ahead, in a process whose clock is stepped.
pub(crate) fn put_ahead(clock: libc::clockid_t, time: &mut libc::timespec) {
    let ahead = AHEAD.load(Ordering::Relaxed);
    if ahead.is_null() || !matches!(clock, libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE) {
        return;
    }
    // SAFETY: what `map` gave stays mapped for ever.
    let ahead = unsafe { &*ahead }.load(Ordering::Relaxed);
    let nanos = time.tv_nsec.saturating_add(ahead);
    time.tv_sec = time.tv_sec.saturating_add(nanos.div_euclid(SECOND_NS));
    time.tv_nsec = nanos.rem_euclid(SECOND_NS);
}

/// The clock of processes that were started with a file in [`STEPS`].
#[derive(Debug)]
pub struct Steps {
    ahead: &'static AtomicI64,
}

impl Steps {
    /// Makes the file; the clock is not ahead yet.
    ///
    /// # Errors
    /// The kernel's, when the file cannot be made or mapped.
    #[expect(clippy::disallowed_methods, reason = "clocks of real processes are files of a real disk")]
    pub fn create(file: &Path) -> io::Result<Self> {
        std::fs::write(file, 0_i64.to_ne_bytes())?;
        let name = CString::new(file.as_os_str().as_bytes())?;
        let ahead = map(&name)?;
        // SAFETY: what `map` gave stays mapped for ever.
        Ok(Self { ahead: unsafe { &*ahead } })
    }

    /// Steps the clock.
    pub fn step(&self, by_ms: i64) {
        self.ahead.fetch_add(by_ms.saturating_mul(MILLI_NS), Ordering::Relaxed);
    }

    /// How far it is ahead, in milliseconds.
    #[must_use]
    pub fn ahead_ms(&self) -> i64 {
        self.ahead.load(Ordering::Relaxed) / MILLI_NS
    }
}

/// Maps the number in `file`, for as long as the process runs.
fn map(file: &CStr) -> io::Result<*mut AtomicI64> {
    // SAFETY: the name is a C string.
    let open = unsafe { libc::open(file.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    if open < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new mapping, of a file that is open; nothing else is at its address.
    let mapped = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            size_of::<AtomicI64>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            open,
            0,
        )
    };
    let mapped = if mapped == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(mapped.cast()) };
    // SAFETY: the descriptor is this function's; the mapping needs it no longer.
    unsafe { libc::close(open) };
    mapped
}
