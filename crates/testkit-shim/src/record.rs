//! The record of what was done to the watched files, in the order in which it was done.
//!
//! An entry is a line `KIND NAME OFFSET SIZE`, and after that line, for a write, as many bytes. `NAME` is what follows the
//! path of the database in the file's name, or `=` if that is nothing. An entry is in the record before the call returns: what
//! a client is told afterwards comes after it.

use std::fs::File;
use std::io::Write;
use std::sync::{Mutex, OnceLock, PoisonError};

use libc::off_t;

use crate::settings;

static RECORD: OnceLock<Option<Mutex<File>>> = OnceLock::new();

fn append(kind: &str, name: &str, offset: off_t, size: usize, data: &[u8]) {
    let record = RECORD.get_or_init(|| {
        let path = settings::get().record.as_ref()?;
        let file = File::options().create(true).append(true).open(path);
        Some(Mutex::new(file.expect("the record can be written")))
    });
    let Some(record) = record else { return };
    let name = if name.is_empty() { "=" } else { name };
    let mut entry = format!("{kind} {name} {offset} {size}\n").into_bytes();
    entry.extend_from_slice(data);
    // In one write: a process that is killed leaves whole entries.
    let written = record.lock().unwrap_or_else(PoisonError::into_inner).write_all(&entry);
    written.expect("the record can be written");
}

pub(crate) fn write(name: &str, offset: off_t, data: &[u8]) {
    append("write", name, offset, data.len(), data);
}

pub(crate) fn truncate(name: &str, size: off_t) {
    append("truncate", name, size, 0, &[]);
}

pub(crate) fn sync(name: &str) {
    append("sync", name, 0, 0, &[]);
}

pub(crate) fn remove(name: &str) {
    append("remove", name, 0, 0, &[]);
}
