//! Ensures that only one process uses a database file, under whatever name it is opened.
//!
//! Two locks keep other processes out: one on `NAME.lock` beside the file, and one on the file itself. The second lock
//! works even through a hard link, a symbolic link or a bind mount. It is a `flock`, which SQLite does not use. If a
//! process closes any descriptor of a file, it loses all its POSIX locks on the file, including those of SQLite. So
//! the descriptor stays open until the last connection is closed. For the same reason, a file that this process
//! already holds is refused before it is opened again.
//!
//! A write-ahead log is found by the name of the database. If the file were opened under another name, SQLite would
//! not see the log, and its content would be lost. So a file that was not closed properly can only be opened under the
//! same name again.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::XattrFlags;
use rustix::io::Errno;
use tokio::sync::watch;

use super::log::beside;
use super::volume;
use crate::port::{StoreError, StoreResult};

/// The extended attribute that holds the name under which a file is open, and the process. It stays with the file
/// under any name, and is removed when the file is closed properly.
const HOLDER: &str = "user.flovyn.holder";
const HOLDER_BYTES: usize = 8_192;

/// The device and the inode of a file.
type Identity = (u64, u64);

/// The files that this process holds.
static HELD: Mutex<BTreeSet<Identity>> = Mutex::new(BTreeSet::new());

/// A database file that no other process may open for writing. It is dropped after the last connection to the file.
#[derive(Debug)]
pub(super) struct Held {
    database: PathBuf,
    identity: Identity,
    name: File,
    file: File,
    /// A lock beside the file, on systems where a lock on the file itself would block SQLite's own locks. `None` on
    /// other systems.
    _instead: Option<File>,
    // Last, so that a receiver is notified after the files are closed.
    closed: watch::Sender<()>,
}

/// The holder of a file, as it is recorded in the lock file and in the extended attribute.
#[derive(Debug, PartialEq, Eq)]
struct Holder {
    path: PathBuf,
    /// For example `process 17, HTTP 127.0.0.1:8080`.
    who: String,
}

impl Holder {
    fn read(text: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(text);
        let (path, who) = text.trim_end().split_once('\n')?;
        Some(Self { path: path.into(), who: who.to_owned() })
    }

    /// The holder that is recorded on the file itself. Does not open the file. `None` if there is no such record.
    fn of(database: &Path) -> Option<Self> {
        let mut text = [0; HOLDER_BYTES];
        let length = rustix::fs::getxattr(database, HOLDER, &mut text[..]).ok()?;
        Self::read(&text[..length])
    }
}

impl Held {
    /// Takes the file; an empty file is created if there is none.
    ///
    /// # Errors
    /// Fails if another process holds the file under this name or another one, or if the file was left open under
    /// another name.
    pub(super) fn take(path: &Path) -> StoreResult<Self> {
        if path.to_string_lossy().starts_with("file:") {
            return Err(StoreError::Refused(format!(
                "{} is a URI: give the path of the file instead",
                path.display()
            )));
        }
        let database = real(path);
        // Locked until the end: if two threads come at once, only one opens the file.
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        let name = lock_name(&database)?;
        if let Ok(known) = fs::metadata(&database)
            && held.contains(&identity(&known))
        {
            return Err(same_file(path, &database));
        }
        let cannot = |doing: &str, error: io::Error| {
            StoreError::Unavailable(format!("cannot {doing} {}: {error}", path.display()))
        };
        let file = File::options().create(true).truncate(false).read(true).write(true).open(&database);
        let file = file.map_err(|error| cannot("open", error))?;
        let facts = file.metadata().map_err(|error| cannot("open", error))?;
        let shared = volume::of(&file);
        if let Some(shared) = shared {
            tracing::warn!(
                database = %path.display(),
                "the database lies on a network file system ({}), whose locks and fsync may not be reliable: move it to a disk of \
                 this machine, or use PostgreSQL",
                shared.name
            );
        }
        let identity = identity(&facts);
        let instead = match lock_file(&file, identity, shared) {
            Ok(instead) => instead,
            Err(TryLockError::WouldBlock) => return Err(same_file(path, &database)),
            Err(TryLockError::Error(error)) if shared.is_some() => {
                tracing::warn!(%error, database = %path.display(), "cannot lock the file: do not start a second server on it");
                None
            }
            Err(TryLockError::Error(error)) => return Err(cannot("lock", error)),
        };
        refuse_other_name(path)?;
        held.insert(identity);
        let closed = watch::Sender::new(());
        let held = Self { database, identity, name, file, _instead: instead, closed };
        match other_names(&held.say(""), facts.nlink()) {
            OtherNames::Known => {}
            OtherNames::Unlikely(error) => tracing::warn!(
                %error,
                database = %path.display(),
                "the file system does not store under which name the database is open: always open the file under this name"
            ),
            OtherNames::Possible(error) => {
                return Err(StoreError::Unavailable(format!(
                    "{} has {} names (hard links), and the file system cannot store which of them is in use ({error}). Under \
                     another name, the last changes would be lost: remove the other names, or move the file to a file \
                     system with extended attributes",
                    path.display(),
                    facts.nlink()
                )));
            }
        }
        Ok(held)
    }

    /// Records the name of the file, and the addresses at which this process serves, for the error message of other
    /// processes.
    ///
    /// # Errors
    /// Fails if the record cannot be stored with the file itself.
    pub(super) fn say(&self, addresses: &str) -> Result<(), Errno> {
        let separator = if addresses.is_empty() { "" } else { ", " };
        let who = format!("process {}{separator}{addresses}", std::process::id());
        let text = format!("{}\n{who}\n", self.database.display());
        // Errors are ignored, because this record only improves an error message.
        let _ = rewrite(&self.name, &text);
        rustix::fs::fsetxattr(&self.file, HOLDER, text.as_bytes(), XattrFlags::empty())
    }

    /// A channel that closes once the files are closed.
    pub(super) fn closes(&self) -> watch::Receiver<()> {
        self.closed.subscribe()
    }

    pub(super) fn database(&self) -> &Path {
        &self.database
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // If the log still exists, it has content that cannot be found under another name. Then the record must stay.
        if !beside(&self.database).exists() {
            let _ = rustix::fs::fremovexattr(&self.file, HOLDER);
        }
        HELD.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.identity);
    }
}

/// Whether the file may be opened under another name later, without the log that belongs to this name.
#[derive(Debug, PartialEq, Eq)]
enum OtherNames {
    /// The file itself records its name, so that another name is refused.
    Known,
    /// There is no record, but the file has no other name now.
    Unlikely(Errno),
    /// There is no record, and the file has other names.
    Possible(Errno),
}

/// `recorded`: whether the name could be stored with the file. `links`: the number of its hard links.
fn other_names(recorded: &Result<(), Errno>, links: u64) -> OtherNames {
    match recorded {
        Ok(()) => OtherNames::Known,
        Err(error) if links > 1 => OtherNames::Possible(*error),
        Err(error) => OtherNames::Unlikely(*error),
    }
}

/// Takes the lock on a name. It is released when the returned file is dropped. The database need not exist yet.
pub(super) fn lock_name(database: &Path) -> StoreResult<File> {
    let path = with_suffix(database, ".lock");
    let file = File::options().create(true).truncate(false).read(true).write(true).open(&path);
    let file =
        file.map_err(|error| StoreError::Unavailable(format!("cannot open {}: {error}", path.display())))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let holder = fs::read(&path).ok().and_then(|text| Holder::read(&text));
            let who = holder.map_or_else(String::new, |holder| format!(", by {}", holder.who));
            Err(StoreError::Unavailable(format!(
                "another process has the database open ({} is locked{who}): stop it, or use another data directory",
                path.display()
            )))
        }
        Err(TryLockError::Error(error)) => {
            Err(StoreError::Unavailable(format!("cannot lock {}: {error}", path.display())))
        }
    }
}

fn same_file(path: &Path, database: &Path) -> StoreError {
    let holder = Holder::of(database)
        .map_or_else(String::new, |holder| format!(" as {}, by {}", holder.path.display(), holder.who));
    StoreError::Unavailable(format!(
        "another process has the database open: {} is the same file, open{holder}. Stop it, or use another data directory",
        path.display()
    ))
}

/// Takes the lock on the file itself. If that would block SQLite's own locks, takes a lock on a separate file on this
/// machine instead. Returns that file, or `None`.
fn lock_file(
    file: &File,
    identity: Identity,
    shared: Option<volume::Shared>,
) -> Result<Option<File>, TryLockError> {
    match shared {
        Some(shared) if !shared.locks_files => Ok(None),
        _ if cfg!(target_os = "linux") => file.try_lock().map(|()| None),
        // On other systems, a `flock` and SQLite's own locks conflict.
        _ => {
            let path = std::env::temp_dir().join(format!("flovyn-{}-{}.lock", identity.0, identity.1));
            let instead = File::options().create(true).truncate(false).write(true).open(path);
            let instead = instead.map_err(TryLockError::Error)?;
            instead.try_lock().map(|()| Some(instead))
        }
    }
}

/// Refuses a file that is open, or was left open, under another name: its log has that name. Does not open the file.
pub(super) fn refuse_other_name(path: &Path) -> StoreResult<()> {
    let database = real(path);
    let Some(holder) = Holder::of(&database).filter(|holder| holder.path != database) else { return Ok(()) };
    let Ok(facts) = fs::metadata(&database) else { return Ok(()) };
    let is_same = fs::metadata(&holder.path).is_ok_and(|other| identity(&other) == identity(&facts));
    // If the recorded name is no longer this file, the file was moved, and its log should have been moved with it.
    let has_log_elsewhere = if is_same { beside(&holder.path).exists() } else { !beside(&database).exists() };
    if !has_log_elsewhere {
        return Ok(());
    }
    let (name, log) = (holder.path.display(), beside(&holder.path));
    Err(StoreError::Unavailable(format!(
        "{} is or was left open as {name}, by {}, and the last changes may be in {}, which belongs to that name: use \
         that name, or put the log beside it",
        path.display(),
        holder.who,
        log.display()
    )))
}

/// The path without symbolic links, which is the name that SQLite uses for the files beside the database. The file
/// need not exist yet.
fn real(path: &Path) -> PathBuf {
    if let Ok(real) = fs::canonicalize(path) {
        return real;
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (fs::canonicalize(folder), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}

fn identity(facts: &fs::Metadata) -> Identity {
    (facts.dev(), facts.ino())
}

fn rewrite(mut file: &File, text: &str) -> io::Result<()> {
    file.set_len(0)?;
    io::Seek::rewind(&mut file)?;
    file.write_all(text.as_bytes())
}

/// The name of a file beside the database.
pub(super) fn with_suffix(database: &Path, suffix: &str) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_record_a_file_with_several_names_is_refused() {
        assert_eq!(other_names(&Ok(()), 1), OtherNames::Known);
        assert_eq!(other_names(&Ok(()), 2), OtherNames::Known);
        assert_eq!(other_names(&Err(Errno::NOTSUP), 1), OtherNames::Unlikely(Errno::NOTSUP));
        assert_eq!(other_names(&Err(Errno::NOTSUP), 2), OtherNames::Possible(Errno::NOTSUP));
    }
}
