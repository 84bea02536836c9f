//! Copies of a database: made while a server writes to it, checked, and restored where no database exists.
//!
//! `VACUUM INTO` writes the copy, on a connection that only reads. It is one read transaction, so the copy is the
//! state at one time, with everything that was committed before it began. Writers continue; only the write-ahead log
//! cannot be shortened until the copy is done.

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
    /// The version of its schema.
    pub version: usize,
}

/// Copies a database into a new file. The database may be in use.
///
/// # Errors
/// Fails if the file already exists, or if the copy cannot be made or fails its check. No file is left behind then.
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

/// Restores a copy to the place where a server expects its database. There must be no database yet.
///
/// # Errors
/// Fails if there is a database, if a process has locked the place, or if the copy is damaged or has a newer schema.
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

/// A file under a temporary name until it is complete. Dropping it deletes the temporary name.
struct Draft(PathBuf);

impl Draft {
    fn new(file: &Path) -> StoreResult<Self> {
        let mut path = file.as_os_str().to_owned();
        path.push(format!(".draft-{}", std::process::id()));
        let draft = Self(PathBuf::from(path));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        // The copy is as confidential as the database.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(&draft.0).map_err(|error| failed(file, error))?;
        Ok(draft)
    }

    /// Checks the file, makes it durable and gives it its final name, which must be free.
    fn finish(self, file: &Path) -> StoreResult<Copied> {
        let version = verify(&self.0)?;
        let done = || -> std::io::Result<u64> {
            let content = File::open(&self.0)?;
            content.sync_all()?;
            // Unlike a rename, a link never replaces an existing file.
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
        // The file has its final name by now, or it is incomplete. If the removal fails, the name of the remaining
        // file shows that it is a draft.
        let _ = fs::remove_file(&self.0);
    }
}

fn refuse_existing(file: &Path) -> StoreResult<()> {
    if file.symlink_metadata().is_ok() { Err(exists(file)) } else { Ok(()) }
}

fn exists(file: &Path) -> StoreError {
    StoreError::Refused(format!(
        "{} already exists and is not overwritten: choose another name",
        file.display()
    ))
}

fn failed(file: &Path, problem: impl std::fmt::Display) -> StoreError {
    StoreError::Unavailable(format!("cannot write {}: {problem}", file.display()))
}

/// Checks that a copy is undamaged and that this binary knows its schema. Returns the version of the schema.
fn verify(file: &Path) -> StoreResult<usize> {
    let conn: Connection = connect::open_reader(file)?;
    let unreadable = |error: rusqlite::Error| {
        StoreError::Refused(format!("{} is damaged or not a database: {error}", file.display()))
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
