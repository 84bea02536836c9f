//! The record of the operations on the watched files, in the order in which they were carried out.
//!
//! An entry is a line `KIND NAME OFFSET SIZE`. For a write, SIZE bytes of data follow the line. `NAME` is the
//! suffix that follows the path of the database in the file's name, or `=` if there is none. The entry is
//! written before the call returns, so it precedes every answer that a client receives afterwards.

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
    // The entry is written in one write, so a killed process leaves only whole entries.
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
