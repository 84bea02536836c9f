//! Files with one damaged page: our check finds everything that SQLite's own check finds, and no damaged file is used.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use flovyn_engine::request::{CreateTask, StartWorkflow, TaskSpec};
use flovyn_engine::{Batch, Op, Request};
use flovyn_store::integrity::{Integrity, OnProgress};
use flovyn_store::sqlite::{FileCheck, Options, SqliteStore, check};
use flovyn_store::{FileHealth, Store, StoreError};
use uuid::Uuid;

use crate::support::{OPTIONS, Random};

const PAGE: usize = 4_096;
const PAGES: usize = 2_000;
const CORRUPTIONS: usize = 200;
/// Much longer than the check of such a file takes.
const SOON: Duration = Duration::from_secs(60);

/// A database of slightly more than 2,000 pages, with rows of all sizes in tables and indexes.
async fn grown(folder: &Path) -> PathBuf {
    let path = folder.join("flovyn.db");
    let mut random = Random(17);
    let mut seed = 0;
    let is_small = || fs::metadata(&path).map_or(0, |facts| facts.len()) < (PAGES * PAGE) as u64;
    while is_small() {
        // Closing the store moves the log into the file.
        let store = SqliteStore::open(&path, options(FileCheck::Quick)).unwrap();
        let mut requests = Vec::new();
        for _ in 0..100 {
            seed += 1;
            let long = random.below(20) == 0;
            let input = format!("\"{}\"", "x".repeat(random.below(if long { 20_000 } else { 2_000 })));
            let op: Op = match seed % 3 {
                0 => CreateTask::standalone(TaskSpec::new("charge", input.into_bytes().into())).into(),
                _ => StartWorkflow::new("order", "default", input.into_bytes().into()).into(),
            };
            requests.push(Arc::new(Request::new(Uuid::nil(), seed, op)));
        }
        let batch = Batch::new(requests, Arc::default());
        store.transact(Arc::new(std::sync::Mutex::new(batch)), OPTIONS).await.unwrap();
    }
    path
}

/// A damaged page: its index, its new content, and a description of the damage.
fn corrupt(bytes: &[u8], random: &mut Random) -> (usize, Vec<u8>, &'static str) {
    let pages = bytes.len() / PAGE;
    // The first pages contain the schema and the roots, so they are chosen more often than by chance.
    let page = if random.below(8) == 0 { random.below(40) } else { random.below(pages) };
    let other = random.below(pages);
    let mut target = bytes[page * PAGE..][..PAGE].to_vec();
    let how = match random.below(6) {
        0 => {
            target.fill(0);
            "zeros"
        }
        1 => {
            target.fill_with(|| u8::try_from(random.below(256)).unwrap());
            "noise"
        }
        2 => {
            target.copy_from_slice(&bytes[other * PAGE..][..PAGE]);
            "another page"
        }
        3 => {
            target[random.below(16)] ^= 1 << random.below(8);
            "one bit of its header"
        }
        4 => {
            target[random.below(PAGE)] ^= 1 << random.below(8);
            "one bit"
        }
        _ => {
            // One sector of the disk.
            target[random.below(8) * 512..][..512].fill(0xA5);
            "a sector"
        }
    };
    (page, target, how)
}

/// The first finding of SQLite's own check. `None`: it finds nothing.
fn reference(path: &Path) -> Option<String> {
    let look = || -> rusqlite::Result<String> {
        let conn = rusqlite::Connection::open(path)?;
        conn.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
    };
    match look() {
        Ok(text) if text == "ok" => None,
        Ok(text) => Some(text),
        Err(error) => Some(error.to_string()),
    }
}

fn ours(path: &Path) -> Integrity {
    let quiet: OnProgress = Arc::new(|_| ());
    check(path, &quiet).unwrap()
}

fn options(check: FileCheck) -> Options {
    Options { readers: 1, check, ..Options::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_file_that_sqlite_finds_damaged_is_used_in_silence() {
    let folder = tempfile::tempdir().unwrap();
    let path = grown(folder.path()).await;
    let sound = fs::read(&path).unwrap();
    assert!((PAGES..PAGES + 200).contains(&(sound.len() / PAGE)), "{} pages", sound.len() / PAGE);
    assert_eq!(ours(&path).damages, []);
    drop(SqliteStore::open(&path, options(FileCheck::default())).unwrap());

    let mut random = Random(23);
    let (mut found, mut named, mut late) = (0, 0, 0);
    let mut places = BTreeSet::new();
    let file = fs::File::options().write(true).open(&path).unwrap();
    for number in 0..CORRUPTIONS {
        let (page, content, how) = corrupt(&sound, &mut random);
        let what = format!("corruption {number}, {how} in page {}", page + 1);
        let offset = page * PAGE;
        file.write_all_at(&content, offset as u64).unwrap();
        let expected = reference(&path);
        let report = ours(&path);
        assert_eq!(report.damages.is_empty(), expected.is_none(), "{what}: {expected:?}, {report:?}");
        let opened = SqliteStore::open(&path, options(FileCheck::default()));
        if expected.is_none() {
            drop(opened.unwrap());
        } else {
            let error = opened.unwrap_err();
            assert!(matches!(error, StoreError::Damaged(_)), "{what}: {error}");
            found += 1;
            let first = &report.damages[0];
            named += usize::from(first.page.is_some() || first.place.starts_with("index"));
            places.insert(first.place.clone());
            assert!(folder.path().join("flovyn.db-damaged").exists(), "{what}: no marker for the next start");
            if number % 5 == 0 {
                late += usize::from(is_found_late(&path, &what).await);
            }
        }
        file.write_all_at(&sound[offset..offset + PAGE], offset as u64).unwrap();
        for suffix in ["-wal", "-shm", "-damaged"] {
            let _ = fs::remove_file(folder.path().join(format!("flovyn.db{suffix}")));
        }
    }
    assert!(fs::read(&path).unwrap() == sound, "the check has changed the file");
    assert!(found > CORRUPTIONS / 2, "only {found} of the corruptions can be found at all");
    assert!(named * 10 > found * 8, "{named} of {found} name a page or an index");
    assert!(places.len() > 8, "{places:?}");
    assert!(late > 5, "only {late} were found late");
}

/// Simulates a file that is too large to be checked before it is used. The sample refuses it, or the background check
/// finds the damage.
async fn is_found_late(path: &Path, what: &str) -> bool {
    let _ = fs::remove_file(path.with_extension("db-damaged"));
    let store = match SqliteStore::open(path, options(FileCheck::UpTo(10))) {
        Ok(store) => store,
        Err(error) => {
            assert!(matches!(error, StoreError::Damaged(_)), "{what}: {error}");
            return false;
        }
    };
    let health: Arc<FileHealth> = store.file_health().unwrap();
    let found = tokio::time::timeout(SOON, health.damaged()).await;
    let found = found.unwrap_or_else(|_| panic!("{what}: the check in the background found nothing"));
    assert!(found.contains("the database is damaged"), "{found}");
    assert!(!health.is_checked(), "{what}");
    drop(store);
    // From now on, the whole file is checked before it is used.
    let again = SqliteStore::open(path, options(FileCheck::Quick));
    assert!(matches!(again, Err(StoreError::Damaged(_))), "{what}: {again:?}");
    true
}

#[tokio::test]
async fn a_sound_file_loses_its_mark_and_a_cut_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = grown(folder.path()).await;
    let mark = folder.path().join("flovyn.db-damaged");
    fs::write(&mark, "earlier").unwrap();
    let store = SqliteStore::open(&path, options(FileCheck::Quick)).unwrap();
    assert!(store.file_health().unwrap().is_checked() && !mark.exists(), "the whole file was checked");
    drop(store);
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    let error = SqliteStore::open(&path, options(FileCheck::Quick)).unwrap_err();
    assert!(matches!(error, StoreError::Damaged(_)), "{error}");
    assert_ne!(ours(&path).damages, []);
}

/// A batch does not notice damage that a read finds.
#[tokio::test]
async fn a_read_that_meets_damage_reports_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = grown(folder.path()).await;
    let store = SqliteStore::open(&path, options(FileCheck::Quick)).unwrap();
    let pages = fs::metadata(&path).unwrap().len() / PAGE as u64;
    let file = fs::File::options().write(true).open(&path).unwrap();
    for page in 1..pages {
        file.write_all_at(&[0xA5; PAGE], page * PAGE as u64).unwrap();
    }
    let error = store.snapshot().await.unwrap_err();
    assert!(matches!(error, StoreError::Damaged(_)), "{error}");
    let found = tokio::time::timeout(SOON, store.file_health().unwrap().damaged()).await.unwrap();
    assert!(found.contains("FLV0079"), "{found}");
}
