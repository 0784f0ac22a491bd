//! The interposed symbols. A definition in the executable comes before the C library's, for static references and
//! for look-ups by name alike.

use std::ffi::{CStr, c_int, c_long, c_uint, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// Nanoseconds in a second.
const SECOND_NS: u64 = 1_000_000_000;

/// The C library's own definition of a symbol, looked up once.
struct Real {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Real {
    const fn new(name: &'static CStr) -> Self {
        Self { name, found: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// The definition after this executable's. Null only where the C library lacks the symbol, in which case nothing
    /// could have called it.
    fn address(&self) -> *mut c_void {
        let known = self.found.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        // SAFETY: the name is a C string; `dlsym` has no other precondition.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.found.store(found, Ordering::Relaxed);
        found
    }
}

static GETRANDOM: Real = Real::new(c"getrandom");
static GETENTROPY: Real = Real::new(c"getentropy");
static CLOCK_GETTIME: Real = Real::new(c"clock_gettime");
static SYSCALL: Real = Real::new(c"syscall");

type GetRandom = unsafe extern "C" fn(*mut c_void, usize, c_uint) -> isize;
type GetEntropy = unsafe extern "C" fn(*mut c_void, usize) -> c_int;
type ClockGetTime = unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> c_int;
type Syscall = unsafe extern "C" fn(c_long, c_long, c_long, c_long, c_long, c_long, c_long) -> c_long;

/// `getrandom(2)`.
///
/// # Safety
/// As in C: `buffer` points to `len` writable bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn getrandom(buffer: *mut c_void, len: usize, flags: c_uint) -> isize {
    // SAFETY: the caller's promise on the buffer.
    if unsafe { fill_raw(buffer, len) } {
        return isize::try_from(len).unwrap_or(isize::MAX);
    }
    // SAFETY: the C library's function has this signature, and the arguments are the caller's.
    unsafe { std::mem::transmute::<*mut c_void, GetRandom>(GETRANDOM.address())(buffer, len, flags) }
}

/// `getentropy(3)`.
///
/// # Safety
/// As in C: `buffer` points to `len` writable bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn getentropy(buffer: *mut c_void, len: usize) -> c_int {
    // SAFETY: the caller's promise on the buffer.
    if unsafe { fill_raw(buffer, len) } {
        return 0;
    }
    // SAFETY: the C library's function has this signature, and the arguments are the caller's.
    unsafe { std::mem::transmute::<*mut c_void, GetEntropy>(GETENTROPY.address())(buffer, len) }
}

/// `clock_gettime(2)`. Clocks of processor time stay real; a real wall clock may be stepped.
///
/// # Safety
/// As in C: `time` points to a writable `timespec`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> c_int {
    // SAFETY: the caller's promise on the pointer.
    if unsafe { tell_time(clock, time) } {
        return 0;
    }
    // SAFETY: the C library's function has this signature, and the arguments are the caller's.
    let told =
        unsafe { std::mem::transmute::<*mut c_void, ClockGetTime>(CLOCK_GETTIME.address())(clock, time) };
    // SAFETY: the caller's promise on the pointer; the C library wrote there.
    if let Some(time) = unsafe { time.as_mut() }.filter(|_time| told == 0) {
        crate::steps::put_ahead(clock, time);
    }
    told
}

/// `syscall(2)`, through which ring draws its entropy. Six arguments are the most that the kernel takes, and callers
/// that pass fewer leave the rest unread.
///
/// # Safety
/// As in C: whatever the numbered call asks of its arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    if number == libc::SYS_getrandom {
        let len = usize::try_from(b).unwrap_or(0);
        // SAFETY: `getrandom` takes a buffer of `len` writable bytes, which the caller promises.
        if unsafe { fill_raw(std::ptr::with_exposed_provenance_mut(a.cast_unsigned() as usize), len) } {
            return b;
        }
    }
    // SAFETY: the C library's function reads as many arguments as the numbered call has, all of them passed on.
    unsafe { std::mem::transmute::<*mut c_void, Syscall>(SYSCALL.address())(number, a, b, c, d, e, f) }
}

/// Fills the buffer when the thread is simulated.
///
/// # Safety
/// `buffer` points to `len` writable bytes.
unsafe fn fill_raw(buffer: *mut c_void, len: usize) -> bool {
    if buffer.is_null() || len == 0 {
        return false;
    }
    // SAFETY: the caller's promise; bytes have no invalid values and `fill` only writes.
    crate::fill(unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), len) })
}

/// Writes the simulated time when the thread is simulated and the clock is one of those simulated.
///
/// # Safety
/// `time` points to a writable `timespec`, or is null.
unsafe fn tell_time(clock: libc::clockid_t, time: *mut libc::timespec) -> bool {
    let wall = match clock {
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE => true,
        libc::CLOCK_MONOTONIC
        | libc::CLOCK_MONOTONIC_COARSE
        | libc::CLOCK_MONOTONIC_RAW
        | libc::CLOCK_BOOTTIME => false,
        _ => return false,
    };
    let Some(ns) = crate::time_ns(wall).filter(|_| !time.is_null()) else {
        return false;
    };
    let seconds = libc::time_t::try_from(ns / SECOND_NS).unwrap_or(libc::time_t::MAX);
    let nanos = c_long::try_from(ns % SECOND_NS).unwrap_or(0);
    // SAFETY: the caller's promise, and null was excluded above.
    unsafe { time.write(libc::timespec { tv_sec: seconds, tv_nsec: nanos }) };
    true
}
