//! SQLite's own check of its file, and the part of it that runs when a file is opened.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode};

use super::error::store_error;
use super::held::Held;
use super::{connect, held};
use crate::integrity::{Damage, FileHealth, Integrity, OnProgress, Progress};
use crate::port::{StoreError, StoreResult};

/// The most findings of one check.
const MOST: usize = 1_000;
/// The number of SQLite's virtual machine steps between two progress reports. In the first part of the check each step
/// is a page.
const STEPS: u32 = 1_000;
/// The number of pages of each table and index that are checked when a large file is opened.
const SAMPLE: u32 = 64;
/// The check in the background works for this time, then pauses three times as long, so that requests get the disk
/// first.
const WORKS: Duration = Duration::from_millis(5);
const RESTS_AT_MOST: Duration = Duration::from_millis(50);

/// How much of a file is checked before it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileCheck {
    /// The whole file if it has at most this many pages. A larger file: a sample at once, and the whole file in the
    /// background.
    UpTo(u64),
    /// The whole file, however long that takes.
    Full,
    /// Only a sample of each table and index.
    Quick,
}

impl Default for FileCheck {
    /// 8,192 pages, which are 32 MiB. Their check takes a few tenths of a second.
    fn default() -> Self {
        Self::UpTo(8_192)
    }
}

/// Checks a whole database without changing it. The database may be in use.
pub fn check(database: &Path, on_progress: &OnProgress) -> StoreResult<Integrity> {
    connect::check_library(rusqlite::version_number())?;
    if !database.is_file() {
        return Err(StoreError::Unavailable(format!("there is no database {}", database.display())));
    }
    held::refuse_other_name(database)?;
    let mut conn = match connect::open_reader(database) {
        Err(StoreError::Damaged(what)) => {
            return Ok(Integrity { damages: vec![damaged_file(what)], ..Default::default() });
        }
        opened => opened?,
    };
    let pages = pages(&conn).unwrap_or_default();
    let on_progress = Arc::clone(on_progress);
    let mut steps = 0;
    let damages = all(&mut conn, move || {
        steps += u64::from(STEPS);
        on_progress(match steps <= pages {
            true => Progress { done: steps, of: Some(pages), unit: "pages" },
            false => Progress { done: steps, of: None, unit: "steps of comparing tables with their indexes" },
        });
        false
    })?;
    Ok(Integrity { damages, checked: format!("{pages} pages"), notes: Vec::new() })
}

/// The check before a file is used. Returns whether it covered the whole file.
pub(super) fn at_open(
    conn: &mut Connection,
    database: &Path,
    check: FileCheck,
    health: &FileHealth,
) -> StoreResult<bool> {
    let pages = pages(conn)?;
    let completely = match check {
        _ if health.is_suspect() => true,
        FileCheck::UpTo(limit) => pages <= limit,
        FileCheck::Full => true,
        FileCheck::Quick => false,
    };
    let found = if completely { all(conn, || false)? } else { sample(conn)? };
    match refusal(database, &found) {
        Some(error) => {
            health.report(&error);
            Err(error)
        }
        None if completely => {
            health.found_sound();
            Ok(true)
        }
        None => Ok(false),
    }
}

/// The error for opening a damaged file. `None` if there are no findings.
fn refusal(database: &Path, found: &[Damage]) -> Option<StoreError> {
    let first = found.first()?;
    let more = match found.len() {
        1 => String::new(),
        all => format!(" (and {} more, which `flovyn doctor` lists)", all - 1),
    };
    Some(StoreError::Damaged(format!("{}: {first}{more}", database.display())))
}

/// The check of a large file while it is in use. Dropping it stops the check.
#[derive(Debug)]
pub(super) struct Background {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    pub(super) fn start(held: &Arc<Held>, health: &Arc<FileHealth>) -> StoreResult<Self> {
        let ends = Arc::<AtomicBool>::default();
        let (held, health, told) = (Arc::clone(held), Arc::clone(health), Arc::clone(&ends));
        let work = move || {
            if let Err(error) = check_beside(&held, &health, Arc::clone(&told)) {
                health.report(&error);
                if !told.load(Ordering::Relaxed) && !matches!(error, StoreError::Damaged(_)) {
                    tracing::warn!(%error, "the check of the database in the background ended early: run `flovyn doctor`");
                }
            }
        };
        let thread = std::thread::Builder::new().name("flovyn-check".into()).spawn(work);
        let thread = thread.map_err(|error| {
            StoreError::Unavailable(format!("cannot start the thread for the check: {error}"))
        })?;
        Ok(Self { ends, thread: Some(thread) })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Checks each table with its indexes in a transaction of its own. One transaction for the whole check would keep the
/// write-ahead log from being reset until its end. The list of free pages is not checked here: `flovyn doctor` does that.
fn check_beside(held: &Held, health: &FileHealth, ends: Arc<AtomicBool>) -> StoreResult<()> {
    let mut conn = connect::open_reader(held.database())?;
    let began = Instant::now();
    for table in tables(&conn)? {
        let (mut rested, ends) = (Instant::now(), Arc::clone(&ends));
        let step = move || {
            let worked = rested.elapsed();
            if worked >= WORKS {
                std::thread::sleep((worked * 3).min(RESTS_AT_MOST));
                rested = Instant::now();
            }
            ends.load(Ordering::Relaxed)
        };
        let found = watched(&mut conn, step, |conn| integrity_check(conn, Some(&table)))?;
        if let Some(error) = refusal(held.database(), &found) {
            return Err(error);
        }
    }
    health.found_sound();
    tracing::info!(seconds = began.elapsed().as_secs(), "the whole database was checked: no damage found");
    Ok(())
}

/// All findings of SQLite's own check. `step` is called repeatedly and stops the check by returning `true`.
fn all(conn: &mut Connection, step: impl FnMut() -> bool + Send + 'static) -> StoreResult<Vec<Damage>> {
    watched(conn, step, |conn| integrity_check(conn, None))
}

/// Runs a check during which `step` is called repeatedly.
fn watched<T>(
    conn: &mut Connection,
    step: impl FnMut() -> bool + Send + 'static,
    check: impl FnOnce(&Connection) -> StoreResult<T>,
) -> StoreResult<T> {
    let steps = i32::try_from(STEPS).unwrap_or(i32::MAX);
    conn.progress_handler(steps, Some(step)).map_err(store_error)?;
    let found = check(conn);
    conn.progress_handler(0, None::<fn() -> bool>).map_err(store_error)?;
    found
}

/// All tables, the schema first.
fn tables(conn: &Connection) -> StoreResult<Vec<String>> {
    let mut statement = conn
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0")
        .map_err(store_error)?;
    let names = statement.query_map([], |row| row.get(0)).map_err(store_error)?;
    let names = std::iter::once(Ok("sqlite_schema".to_owned())).chain(names);
    names.collect::<rusqlite::Result<_>>().map_err(store_error)
}

/// `table`: only this table and its indexes. `None`: the whole file.
fn integrity_check(conn: &Connection, table: Option<&str>) -> StoreResult<Vec<Damage>> {
    let trees = match Trees::read(conn) {
        Ok(trees) => trees,
        Err(error) => return Ok(vec![at("the schema", Some(1), damage_of(error)?)]),
    };
    let mut found = Vec::new();
    let mut look = || -> rusqlite::Result<()> {
        let what = table.map_or_else(|| MOST.to_string(), |table| format!("'{}'", table.replace('\'', "''")));
        let mut statement = conn.prepare(&format!("PRAGMA integrity_check({what})"))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let text = row.get_ref(0)?.as_bytes().unwrap_or_default().to_owned();
            let text = String::from_utf8_lossy(&text).into_owned();
            // For a sound file, the only answer is "ok".
            let lines = text.lines().filter(|line| *line != "ok" && !line.starts_with("***"));
            found.extend(lines.map(|line| trees.place(line)));
        }
        Ok(())
    };
    if let Err(error) = look() {
        found.push(damaged_file(damage_of(error)?));
    }
    Ok(found)
}

/// Checks the first pages of each table and index. They include the path from the root of its tree.
fn sample(conn: &Connection) -> StoreResult<Vec<Damage>> {
    let trees = match Trees::read(conn) {
        Ok(trees) => trees,
        Err(error) => return Ok(vec![at("the schema", Some(1), damage_of(error)?)]),
    };
    let mut found = Vec::new();
    for (name, place) in trees.names() {
        let mut look = || -> rusqlite::Result<()> {
            let mut statement = conn.prepare_cached(
                "SELECT pageno FROM (SELECT pageno, pagetype FROM dbstat WHERE name = ?1 LIMIT ?2) \
                 WHERE pagetype = 'corrupted'",
            )?;
            let mut rows = statement.query((name, SAMPLE))?;
            while let Some(row) = rows.next()? {
                found.push(at(
                    place,
                    row.get::<_, u32>(0).ok().map(u64::from),
                    "this is not a page of a tree".to_owned(),
                ));
            }
            Ok(())
        };
        if let Err(error) = look() {
            found.push(at(place, None, damage_of(error)?));
        }
    }
    Ok(found)
}

fn pages(conn: &Connection) -> StoreResult<u64> {
    let pages = conn.query_row("PRAGMA page_count", [], |row| row.get::<_, u32>(0)).map_err(store_error)?;
    Ok(pages.into())
}

/// The description of an error that means damage to the file. Any other error is returned as an error: if the disk cannot
/// be read at the moment, nothing is known about the file.
fn damage_of(error: rusqlite::Error) -> StoreResult<String> {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Ok(error.to_string()),
        _ => Err(store_error(error)),
    }
}

fn damaged_file(what: String) -> Damage {
    at("the file", None, what)
}

fn at(place: impl Into<String>, page: Option<u64>, what: String) -> Damage {
    Damage { place: place.into(), page, what }
}

/// The names of the trees (tables and indexes) in a file.
struct Trees {
    /// By root page: the description of the tree, such as `table task_execution`.
    by_root: BTreeMap<u64, String>,
    /// Name and description of each tree.
    named: Vec<(String, String)>,
}

impl Trees {
    fn read(conn: &Connection) -> rusqlite::Result<Self> {
        let mut trees = Self { by_root: BTreeMap::from([(1, "the schema".to_owned())]), named: Vec::new() };
        let mut statement =
            conn.prepare("SELECT rootpage, type, name, tbl_name FROM sqlite_schema WHERE rootpage > 0")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (root, kind, name): (u32, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let place = match kind.as_str() {
                "index" => format!("index {name} of table {}", row.get::<_, String>(3)?),
                _ => format!("{kind} {name}"),
            };
            trees.by_root.insert(root.into(), place.clone());
            trees.named.push((name, place));
        }
        Ok(trees)
    }

    fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        self.named.iter().map(|(name, place)| (name.as_str(), place.as_str()))
    }

    /// Reads a line of SQLite's check, such as `Tree 14 page 345 cell 3: ...` or `row 7 missing from index x`.
    fn place(&self, line: &str) -> Damage {
        if let Some((head, what)) = line.split_once(": ") {
            let words: Vec<&str> = head.split(' ').collect();
            let number = |index: usize| words.get(index).and_then(|word| word.parse::<u64>().ok());
            match words.first() {
                Some(&"Tree") => {
                    let root = number(1).unwrap_or_default();
                    let place = self.by_root.get(&root).cloned();
                    let place = place.unwrap_or_else(|| format!("the tree at page {root}"));
                    let rest = words.get(4..).unwrap_or_default().join(" ");
                    let what = if rest.is_empty() { what.to_owned() } else { format!("{rest}: {what}") };
                    return at(place, number(3), what);
                }
                Some(&"Freelist") => return at("the list of free pages", None, what.to_owned()),
                Some(&"Page") => return at("the file", number(1), what.to_owned()),
                _ => {}
            }
        }
        let named = line.split_once("index ").map(|(_, rest)| rest);
        let column =
            line.rsplit_once(" in ").and_then(|(_, rest)| rest.split_once('.')).map(|(table, _)| table);
        let name = named.or(column).unwrap_or_default();
        let place = self.names().find(|(known, _)| *known == name).map_or("the file", |(_, place)| place);
        at(place, None, line.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trees() -> Trees {
        Trees {
            by_root: BTreeMap::from([(14, "table log".to_owned())]),
            named: vec![
                ("log".to_owned(), "table log".to_owned()),
                ("by_time".to_owned(), "index by_time of table log".to_owned()),
            ],
        }
    }

    #[test]
    fn an_io_error_says_nothing_about_the_file() {
        let failed = |code| rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
        assert!(damage_of(failed(rusqlite::ffi::SQLITE_CORRUPT)).is_ok());
        for code in [rusqlite::ffi::SQLITE_IOERR_READ, rusqlite::ffi::SQLITE_BUSY] {
            let error = damage_of(failed(code)).unwrap_err();
            assert!(!matches!(error, StoreError::Damaged(_)), "{error}");
        }
    }

    #[test]
    fn a_check_by_tables_finds_damage_and_leaves_no_transaction_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let conn = Connection::open(&path).unwrap();
        conn.execute_batch("CREATE TABLE a (x); CREATE TABLE \"it's\" (x); CREATE INDEX i ON \"it's\" (x);")
            .unwrap();
        let root: u32 = conn
            .query_row("SELECT rootpage FROM sqlite_schema WHERE name = 'i'", [], |row| row.get(0))
            .unwrap();
        drop(conn);
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &[7; 4_096], u64::from(root - 1) * 4_096).unwrap();
        let mut conn = Connection::open(&path).unwrap();
        let mut damaged = Vec::new();
        for table in tables(&conn).unwrap() {
            let found = watched(&mut conn, || false, |conn| integrity_check(conn, Some(&table))).unwrap();
            assert!(conn.is_autocommit());
            damaged.extend(found.first().map(|_| table));
        }
        assert_eq!(damaged, ["it's"]);
    }

    #[test]
    fn each_line_of_the_check_names_its_place_and_page() {
        let lines = [
            (
                "Tree 14 page 345 cell 3: Rowid 7 out of order",
                "table log, page 345: cell 3: Rowid 7 out of order",
            ),
            ("Tree 14 page 9: free space corruption", "table log, page 9: free space corruption"),
            ("Tree 14 page 9 right child: 2nd reference", "table log, page 9: right child: 2nd reference"),
            ("Tree 77 page 9: x", "the tree at page 77, page 9: x"),
            ("Page 12: never used", "the file, page 12: never used"),
            ("Freelist: size is 3 but should be 4", "the list of free pages: size is 3 but should be 4"),
            (
                "row 7 missing from index by_time",
                "index by_time of table log: row 7 missing from index by_time",
            ),
            (
                "wrong # of entries in index by_time",
                "index by_time of table log: wrong # of entries in index by_time",
            ),
            ("NULL value in log.at", "table log: NULL value in log.at"),
            ("something new", "the file: something new"),
        ];
        for (line, expected) in lines {
            assert_eq!(trees().place(line).to_string(), expected);
        }
    }
}
