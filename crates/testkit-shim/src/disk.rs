//! Which open files are watched, and the verdict on each operation on them.

use std::ffi::{CStr, c_int};
use std::sync::atomic::{AtomicU8, Ordering};

use crate::{record, settings};

/// The most file descriptors that are watched. A process under test has fewer.
const DESCRIPTORS: usize = 65_536;
/// The suffixes of watched files: each follows the path of the database. The index of the write-ahead log is
/// rebuilt after a crash, and the lock file is empty, so neither matters for durability.
const SUFFIXES: [&str; 3] = ["", "-wal", "-journal"];

/// For each descriptor: 0 if the file is not watched, otherwise the index of its suffix plus one.
static WATCHED: [AtomicU8; DESCRIPTORS] = [const { AtomicU8::new(0) }; DESCRIPTORS];

pub(crate) enum Verdict {
    /// The file is not watched.
    Unwatched,
    /// The operation is carried out and recorded under this name.
    Watched(&'static str),
    /// The operation fails with this error code.
    Fails(c_int),
}

fn suffix(path: &CStr) -> Option<usize> {
    let rest = path.to_bytes().strip_prefix(settings::get().database.as_deref()?)?;
    SUFFIXES.iter().position(|suffix| suffix.as_bytes() == rest)
}

pub(crate) fn opened(file: c_int, path: &CStr) {
    let number = suffix(path).map_or(0, |index| index as u8 + 1);
    if let Some(slot) = slot(file) {
        slot.store(number, Ordering::SeqCst);
    }
}

pub(crate) fn closed(file: c_int) {
    if let Some(slot) = slot(file) {
        slot.store(0, Ordering::SeqCst);
    }
}

pub(crate) fn removed(path: &CStr) {
    if let Some(suffix) = suffix(path) {
        record::remove(SUFFIXES[suffix]);
    }
}

fn slot(file: c_int) -> Option<&'static AtomicU8> {
    WATCHED.get(usize::try_from(file).ok()?)
}

fn name(file: c_int) -> Option<&'static str> {
    let number = slot(file)?.load(Ordering::SeqCst);
    SUFFIXES.get(usize::from(number).checked_sub(1)?).copied()
}

pub(crate) fn may_write(file: c_int) -> Verdict {
    judge(file, |fault| match fault {
        "full" => Some(libc::ENOSPC),
        "write-error" => Some(libc::EIO),
        _ => None,
    })
}

pub(crate) fn may_sync(file: c_int) -> Verdict {
    judge(file, |fault| (fault == "sync-error").then_some(libc::EIO))
}

fn judge(file: c_int, code_of: impl FnOnce(&str) -> Option<c_int>) -> Verdict {
    let Some(name) = name(file) else { return Verdict::Unwatched };
    let fault = settings::get().fault.as_ref().and_then(|path| std::fs::read_to_string(path).ok());
    match fault.as_deref().map(str::trim).and_then(code_of) {
        Some(code) => Verdict::Fails(code),
        None => Verdict::Watched(name),
    }
}

/// Whether a sync of this file is acknowledged without being carried out.
pub(crate) fn lies(name: &str) -> bool {
    name == "-wal" && settings::get().lie.as_deref() == Some("wal")
}
