//! Only one process uses a file, under whatever name it is opened.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use flovyn_store::sqlite::{Options, SqliteReader, SqliteStore, backup};
use flovyn_store::{Store, StoreError};

fn open(path: &Path) -> Result<SqliteStore, StoreError> {
    SqliteStore::open(path, Options { readers: 1, ..Default::default() })
}

#[track_caller]
fn refused(path: &Path) -> String {
    match open(path) {
        Err(StoreError::Unavailable(why)) => why,
        other => panic!("{}: {other:?}", path.display()),
    }
}

/// The number of SQLite's locks on the file, as the kernel lists them. A process that sees none assumes that it is the
/// last one to close the file.
#[cfg(target_os = "linux")]
fn posix_locks(path: &Path) -> usize {
    let inode = format!(":{} ", fs::metadata(path).unwrap().ino());
    let process = format!(" {} ", std::process::id());
    let locks = fs::read_to_string("/proc/locks").unwrap();
    let is_ours = |line: &&str| line.contains("POSIX") && line.contains(&inode) && line.contains(&process);
    locks.lines().filter(is_ours).count()
}

#[tokio::test]
async fn a_file_that_is_open_is_refused_by_every_name_and_says_where_it_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let [first, link, elsewhere] =
        ["flovyn.db", "link.db", "elsewhere/other.db"].map(|name| folder.path().join(name));
    let store = open(&first).unwrap();
    store.serves_at("gRPC 127.0.0.1:9090, HTTP 127.0.0.1:8080");
    fs::create_dir(elsewhere.parent().unwrap()).unwrap();
    fs::hard_link(&first, &elsewhere).unwrap();
    symlink(&first, &link).unwrap();
    #[cfg(target_os = "linux")]
    assert!(posix_locks(&first) > 0, "SQLite holds a lock while the file is open");
    for name in [&first, &link, &elsewhere] {
        let why = refused(name);
        let process = format!("process {}", std::process::id());
        assert!(why.contains(&process), "{why}");
        assert!(why.contains("HTTP 127.0.0.1:8080"), "{why}");
        // Closing a descriptor of the file would have dropped the locks.
        #[cfg(target_os = "linux")]
        assert!(posix_locks(&first) > 0, "{} was refused and SQLite's locks are gone", name.display());
    }
    assert!(refused(&elsewhere).contains("flovyn.db"), "the error shows the name of the open file");
    // Readers may open the file by any name that leads to its log.
    drop(SqliteReader::open(&first).unwrap());
    drop(SqliteReader::open(&link).unwrap());
    assert!(matches!(SqliteReader::open(&elsewhere), Err(StoreError::Unavailable(_))));
    let copy = folder.path().join("copy.db");
    assert!(matches!(backup(&elsewhere, &copy), Err(StoreError::Unavailable(_))));
    backup(&link, &copy).unwrap();
    drop(store);
    drop(open(&elsewhere).unwrap());
    drop(open(&link).unwrap());
}

/// The log belongs to the first name.
#[tokio::test]
async fn a_file_that_was_left_open_is_refused_by_another_name() {
    let folder = tempfile::tempdir().unwrap();
    let [first, other] = ["flovyn.db", "other.db"].map(|name| folder.path().join(name));
    let store = open(&first).unwrap();
    // A reader prevents the removal of the log, as a kill does.
    let reader = SqliteReader::open(&first).unwrap();
    drop(store);
    assert!(folder.path().join("flovyn.db-wal").exists());
    fs::hard_link(&first, &other).unwrap();
    let why = refused(&other);
    assert!(why.contains("left open as") && why.contains("flovyn.db-wal"), "{why}");
    drop(reader);
    drop(open(&first).unwrap());
    drop(open(&other).unwrap());
}

#[tokio::test]
async fn a_uri_is_no_name_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let uri = format!("file:{}?mode=rwc", folder.path().join("flovyn.db").display());
    let error = open(Path::new(&uri)).unwrap_err();
    assert!(matches!(&error, StoreError::Refused(why) if why.contains("is a URI")), "{error}");
}

/// Simulates a bind mount, or a file system without extended attributes: only the lock on the file itself detects the
/// other process.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_file_itself_is_locked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flovyn.db");
    drop(open(&path).unwrap());
    let other = fs::File::open(&path).unwrap();
    other.try_lock().unwrap();
    let why = refused(&path);
    assert!(why.contains("is the same file"), "{why}");
    drop(other);
    let store = open(&path).unwrap();
    let other = fs::File::open(&path).unwrap();
    assert!(matches!(other.try_lock(), Err(fs::TryLockError::WouldBlock)));
    drop(store);
    other.try_lock().unwrap();
}
