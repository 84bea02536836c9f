//! A library that is preloaded (`LD_PRELOAD`) into a server under test. It intercepts the calls from SQLite
//! to the disk and from the process to the clock. Environment variables choose what it does. If none is set,
//! it passes every call on.
//!
//! | variable | what it does |
//! |---|---|
//! | `FLOVYN_TEST_SHIM_DATABASE` | the path of the database file; this file, its write-ahead log and its journal are watched |
//! | `FLOVYN_TEST_SHIM_RECORD` | every write, truncation, sync and removal of a watched file is appended to this file |
//! | `FLOVYN_TEST_SHIM_LIE` | `wal`: syncs of the write-ahead log are acknowledged but not carried out |
//! | `FLOVYN_TEST_SHIM_SLOW_SYNC_MS` | every sync takes this many milliseconds longer |
//! | `FLOVYN_TEST_SHIM_FAULT` | while this file exists, its content names the error to inject: `full`, `write-error` or `sync-error` |
//! | `FLOVYN_TEST_SHIM_SKEW_MS` | this many milliseconds are added to the wall clock |
//!
//! This is the only crate with `unsafe` code. It knows no table and no rule.

mod disk;
mod next;
mod record;
mod settings;

use std::ffi::{CStr, c_char, c_int, c_void};

use libc::{clockid_t, mode_t, off_t, size_t, ssize_t, timespec};

use disk::Verdict;
use next::next;

/// Defines functions that replace those of the C library. Each can call the function that it replaces.
macro_rules! instead_of {
    ($(fn $name:ident($($argument:ident: $kind:ty),*) -> $result:ty = $body:expr;)*) => {$(
        /// # Safety
        /// The requirements are those of the C library's function with this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> $result {
            type Function = unsafe extern "C" fn($($kind),*) -> $result;
            static REAL: std::sync::OnceLock<Function> = std::sync::OnceLock::new();
            // SAFETY: the C library's function of this name has this signature.
            let real = *REAL.get_or_init(|| unsafe { next::<Function>(concat!(stringify!($name), "\0")) });
            let body: fn(Function, $($kind),*) -> $result = $body;
            body(real, $($argument),*)
        }
    )*};
}

// In C, `open` takes its mode as a variable argument. It is passed in the same place as a fixed argument.
instead_of! {
    fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int = |real, path, flags, mode| {
        // SAFETY: the arguments are passed on unchanged.
        opened(path, unsafe { real(path, flags, mode) })
    };
    fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int = |real, path, flags, mode| {
        // SAFETY: the arguments are passed on unchanged.
        opened(path, unsafe { real(path, flags, mode) })
    };
    fn close(file: c_int) -> c_int = |real, file| {
        disk::closed(file);
        // SAFETY: the arguments are passed on unchanged.
        unsafe { real(file) }
    };
    fn pwrite(file: c_int, data: *const c_void, size: size_t, offset: off_t) -> ssize_t
        = |real, file, data, size, offset| {
        // SAFETY: the arguments are passed on unchanged.
        written(file, data, offset, || unsafe { real(file, data, size, offset) })
    };
    fn pwrite64(file: c_int, data: *const c_void, size: size_t, offset: off_t) -> ssize_t
        = |real, file, data, size, offset| {
        // SAFETY: the arguments are passed on unchanged.
        written(file, data, offset, || unsafe { real(file, data, size, offset) })
    };
    fn ftruncate(file: c_int, size: off_t) -> c_int = |real, file, size| {
        // SAFETY: the arguments are passed on unchanged.
        truncated(file, size, || unsafe { real(file, size) })
    };
    fn ftruncate64(file: c_int, size: off_t) -> c_int = |real, file, size| {
        // SAFETY: the arguments are passed on unchanged.
        truncated(file, size, || unsafe { real(file, size) })
    };
    fn fsync(file: c_int) -> c_int = |real, file| {
        // SAFETY: the arguments are passed on unchanged.
        synced(file, || unsafe { real(file) })
    };
    fn fdatasync(file: c_int) -> c_int = |real, file| {
        // SAFETY: the arguments are passed on unchanged.
        synced(file, || unsafe { real(file) })
    };
    fn unlink(path: *const c_char) -> c_int = |real, path| {
        // SAFETY: the arguments are passed on unchanged.
        let done = unsafe { real(path) };
        if done == 0 {
            // SAFETY: `unlink` requires its caller to pass a NUL-terminated string.
            disk::removed(unsafe { CStr::from_ptr(path) });
        }
        done
    };
    fn clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int = |real, clock, time| {
        // SAFETY: the arguments are passed on unchanged.
        let done = unsafe { real(clock, time) };
        if done == 0 && clock == libc::CLOCK_REALTIME {
            // SAFETY: the call has succeeded, so `time` is valid and has been written to.
            skew(unsafe { &mut *time });
        }
        done
    };
}

fn opened(path: *const c_char, file: c_int) -> c_int {
    if file >= 0 {
        // SAFETY: the file was opened, so its name is a NUL-terminated string.
        disk::opened(file, unsafe { CStr::from_ptr(path) });
    }
    file
}

fn written(file: c_int, data: *const c_void, offset: off_t, real: impl FnOnce() -> ssize_t) -> ssize_t {
    match disk::may_write(file) {
        Verdict::Unwatched => real(),
        Verdict::Fails(code) => fail(code) as ssize_t,
        Verdict::Watched(name) => {
            let done = real();
            if let Ok(size) = usize::try_from(done) {
                // SAFETY: the C library has just read this many bytes from `data`.
                let data = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size) };
                record::write(name, offset, data);
            }
            done
        }
    }
}

fn truncated(file: c_int, size: off_t, real: impl FnOnce() -> c_int) -> c_int {
    match disk::may_write(file) {
        Verdict::Unwatched => real(),
        Verdict::Fails(code) => fail(code),
        Verdict::Watched(name) => {
            let done = real();
            if done == 0 {
                record::truncate(name, size);
            }
            done
        }
    }
}

fn synced(file: c_int, real: impl FnOnce() -> c_int) -> c_int {
    match disk::may_sync(file) {
        Verdict::Unwatched => real(),
        Verdict::Fails(code) => fail(code),
        Verdict::Watched(name) => {
            std::thread::sleep(settings::get().slow_sync);
            if disk::lies(name) {
                return 0;
            }
            let done = real();
            if done == 0 {
                record::sync(name);
            }
            done
        }
    }
}

fn fail(code: c_int) -> c_int {
    // SAFETY: `errno` is a valid address that belongs to this thread.
    unsafe { *libc::__errno_location() = code };
    -1
}

fn skew(time: &mut timespec) {
    const SECOND: i64 = 1_000_000_000;
    let all = time.tv_sec * SECOND + time.tv_nsec + settings::get().skew_ms * 1_000_000;
    time.tv_sec = all.div_euclid(SECOND);
    time.tv_nsec = all.rem_euclid(SECOND);
}
