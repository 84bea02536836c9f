//! Copies of a database: made while a server writes to it, checked, and put back where none is.
//!
//! A copy is written by `VACUUM INTO` on a connection that only reads: one read transaction, so the copy is the database at
//! one moment, with everything that was committed before it began. Writers go on; only the log cannot be
//! shortened until the copy is done.

use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::error::store_error;
use super::{connect, held, migrate};
use crate::port::{StoreError, StoreResult};

/// A copy of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    pub bytes: u64,
    /// Its schema.
    pub version: usize,
}

/// Copies a database, in use or not, into a new file.
///
/// # Errors
/// When the file is there already, or the copy cannot be made or does not stand its check. No file is left then.
pub fn backup(database: &Path, file: &Path) -> StoreResult<Copied> {
    connect::check_library(rusqlite::version_number())?;
    if !database.is_file() {
        return Err(StoreError::Unavailable(format!("there is no database {}", database.display())));
    }
    refuse_existing(file)?;
    held::refuse_other_name(database)?;
    let source = connect::open_reader(database)?;
    migrate::version(&source)?;
    let draft = Draft::new(file)?;
    let path = draft.0.to_str().ok_or_else(|| failed(file, "its name is not UTF-8"))?;
    source.execute("VACUUM INTO ?1", [path]).map_err(store_error)?;
    draft.finish(file)
}

/// Puts a copy where a server will find it. There must be no database yet.
///
/// # Errors
/// When there is one, when a process holds the place, or when the copy is damaged or of a newer schema.
pub fn restore(file: &Path, database: &Path) -> StoreResult<Copied> {
    connect::check_library(rusqlite::version_number())?;
    if !file.is_file() {
        return Err(StoreError::Unavailable(format!("there is no file {}", file.display())));
    }
    verify(file)?;
    let _lock = held::lock_name(database)?;
    refuse_existing(database)?;
    let draft = Draft::new(database)?;
    fs::copy(file, &draft.0).map_err(|error| failed(database, error))?;
    draft.finish(database)
}

/// A file under another name until it is whole; gone if it never is.
struct Draft(PathBuf);

impl Draft {
    fn new(file: &Path) -> StoreResult<Self> {
        let mut path = file.as_os_str().to_owned();
        path.push(format!(".draft-{}", std::process::id()));
        let draft = Self(PathBuf::from(path));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        // It holds whatever the database holds.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(&draft.0).map_err(|error| failed(file, error))?;
        Ok(draft)
    }

    /// Checks it, makes it durable and gives it its name, which must still be free.
    fn finish(self, file: &Path) -> StoreResult<Copied> {
        let version = verify(&self.0)?;
        let done = || -> std::io::Result<u64> {
            let content = File::open(&self.0)?;
            content.sync_all()?;
            // A link never replaces a file, as a renaming would.
            fs::hard_link(&self.0, file)?;
            if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
                File::open(folder)?.sync_all()?;
            }
            Ok(content.metadata()?.len())
        };
        match done() {
            Ok(bytes) => Ok(Copied { bytes, version }),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(exists(file)),
            Err(error) => Err(failed(file, error)),
        }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // Linked under its own name, or worth nothing; whatever is left behind says by its name what it is.
        let _ = fs::remove_file(&self.0);
    }
}

fn refuse_existing(file: &Path) -> StoreResult<()> {
    if file.symlink_metadata().is_ok() { Err(exists(file)) } else { Ok(()) }
}

fn exists(file: &Path) -> StoreError {
    StoreError::Refused(format!(
        "{} is there already and is not overwritten: choose another name",
        file.display()
    ))
}

fn failed(file: &Path, problem: impl std::fmt::Display) -> StoreError {
    StoreError::Unavailable(format!("cannot write {}: {problem}", file.display()))
}

/// Whether a copy is whole and of a schema that this binary knows. Returns the schema.
fn verify(file: &Path) -> StoreResult<usize> {
    let conn: Connection = connect::open_reader(file)?;
    let unreadable = |error: rusqlite::Error| {
        StoreError::Refused(format!("{} is no whole database: {error}", file.display()))
    };
    let found: String =
        conn.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).map_err(unreadable)?;
    if found != "ok" {
        return Err(StoreError::Refused(format!("{} is damaged: {found}", file.display())));
    }
    let version = migrate::version(&conn)?;
    migrate::refuse_newer(version)?;
    Ok(version)
}
