//! The source of the rows on which a batch is decided: the cache of recent rows, the changes that are being written,
//! and the file.
//!
//! While a batch is being written, the next one can be decided. It reads the file through a separate connection, which
//! shows the rows before or after that batch. The loader applies the batch's changes to these rows, so in both cases
//! the next batch sees the rows after it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, TryRecvError};
use std::time::Instant;

use flovyn_engine::{Loaded, Mutations, Scan, Wants};
use rusqlite::Connection;

use super::cache::Cache;
use super::connect::open_reader;
use super::error::store_error;
use super::load::load;
use super::session::RESTS_AFTER;
use super::sql::Statements;
use crate::clock::Clock;
use crate::port::{SharedDecider, Step, StoreError, StoreResult, next_step};

pub(super) struct Loader {
    path: PathBuf,
    clock: Arc<dyn Clock>,
    statements: &'static Statements,
    cache: Cache,
    /// Reads the file while a batch is being written. `None` until it is first needed.
    reader: Option<Connection>,
    being_written: Option<BeingWritten>,
    /// When rows were last cached or read ahead. `None`: the cache has been freed since.
    used_at: Option<Instant>,
}

/// A batch that is decided and is being written to the file.
struct BeingWritten {
    mutations: Arc<Mutations>,
    /// Receives once whether the batch was written.
    written: mpsc::Receiver<bool>,
}

impl Loader {
    /// Creates the loader for the file that this connection has open.
    pub(super) fn new(conn: &Connection, clock: Arc<dyn Clock>) -> Self {
        Self {
            path: PathBuf::from(conn.path().unwrap_or_default()),
            clock,
            statements: Statements::all(),
            cache: Cache::default(),
            reader: None,
            being_written: None,
            used_at: None,
        }
    }

    /// Loads rows inside the transaction of the writing connection, while no other batch is being written.
    pub(super) fn load(&mut self, conn: &Connection, wants: &Wants) -> StoreResult<Loaded> {
        load(conn, self.statements, &mut self.cache, &Mutations::default(), wants, self.clock.as_ref())
    }

    /// Decides a batch without writing it. If this succeeds, the batch before it is in the file.
    pub(super) fn decide_ahead(&mut self, batch: &SharedDecider) -> StoreResult<Option<Box<Mutations>>> {
        let mut loaded = None;
        let mutations = loop {
            match next_step(batch, loaded)? {
                Step::Load(wants) => loaded = Some(self.load_ahead(&wants)?),
                Step::Commit(mutations) => break Some(mutations),
                Step::Done => break None,
            }
        };
        // The rows on which this batch was decided must be in the file before the decision is used.
        self.settle()?;
        Ok(mutations)
    }

    fn load_ahead(&mut self, wants: &Wants) -> StoreResult<Loaded> {
        let before = match &self.being_written {
            Some(before) if may_have_changed(&before.mutations, wants) => {
                self.settle()?;
                Arc::default()
            }
            Some(before) => Arc::clone(&before.mutations),
            None => Arc::default(),
        };
        self.used_at = Some(Instant::now());
        let reader = match self.reader.take() {
            Some(reader) => reader,
            None => open_reader(&self.path)?,
        };
        let reader = self.reader.insert(reader);
        // All rows are read in one transaction. It ends when it is dropped, because there is nothing to commit.
        let moment = reader.unchecked_transaction().map_err(store_error)?;
        load(&moment, self.statements, &mut self.cache, &before, wants, self.clock.as_ref())
    }

    /// Registers a batch that will be written now. The writer must send whether it was written.
    pub(super) fn goes(&mut self, mutations: &Arc<Mutations>) -> mpsc::Sender<bool> {
        let (tell, written) = mpsc::channel();
        self.being_written = Some(BeingWritten { mutations: Arc::clone(mutations), written });
        tell
    }

    /// Waits until no batch is being written. Fails if that batch was not written: then the batch decided on its rows
    /// is lost as well.
    pub(super) fn settle(&mut self) -> StoreResult<()> {
        let Some(before) = self.being_written.take() else { return Ok(()) };
        // If the thread ended without an answer, it has committed nothing.
        let written = before.written.recv().unwrap_or(false);
        self.settled(before, written)
    }

    /// Whether no batch is being written. Does not wait.
    pub(super) fn is_settled(&mut self) -> bool {
        let Some(before) = self.being_written.take() else { return true };
        match before.written.try_recv() {
            Err(TryRecvError::Empty) => {
                self.being_written = Some(before);
                return false;
            }
            // If that batch was not written, no other batch has seen its rows.
            written => drop(self.settled(before, written.unwrap_or(false))),
        }
        true
    }

    fn settled(&mut self, before: BeingWritten, written: bool) -> StoreResult<()> {
        if written {
            self.keep(Arc::unwrap_or_clone(before.mutations));
            return Ok(());
        }
        self.forget();
        Err(StoreError::Conflict("the previous batch was not written".into()))
    }

    /// Caches rows that have just been committed.
    pub(super) fn keep(&mut self, committed: Mutations) {
        self.used_at = Some(Instant::now());
        self.cache.take_in(committed, self.statements);
    }

    /// Clears the cache, because it may differ from the file.
    pub(super) fn forget(&mut self) {
        self.cache = Cache::default();
    }

    #[cfg(test)]
    pub(super) fn remembers(&mut self, key: &(uuid::Uuid, uuid::Uuid)) -> bool {
        self.cache.executions.get(key).is_some()
    }

    /// Frees the cache if it has not been used for a while. Returns whether it did.
    pub(super) fn rest_if_idle(&mut self) -> bool {
        let rests = self.used_at.is_some_and(|at| at.elapsed() >= RESTS_AFTER) && self.is_settled();
        if rests {
            self.used_at = None;
            self.forget();
            self.reader = None;
        }
        rests
    }

    #[cfg(test)]
    pub(super) fn used_at(&mut self) -> &mut Option<Instant> {
        &mut self.used_at
    }
}

/// Whether these changes could affect a search, so that searching only the file would be wrong. Keys and lanes are
/// combined with the changes.
fn may_have_changed(before: &Mutations, wants: &Wants) -> bool {
    wants.scans.iter().any(|scan| match scan {
        Scan::PausedQueues => !before.queues.is_empty(),
        _ => true,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use flovyn_engine::Change;
    use flovyn_engine::Row;
    use flovyn_engine::state::{Timer, TimerStatus};
    use uuid::Uuid;

    use super::*;
    use crate::clock::SystemClock;
    use crate::port::Decider;
    use crate::sqlite::{connect, migrate};

    /// Loads timers.
    struct Look(Wants, Arc<Mutex<Vec<Timer>>>);

    impl Decider for Look {
        fn step(&mut self, loaded: Option<Loaded>) -> Step {
            let Some(loaded) = loaded else { return Step::Load(Arc::new(self.0.clone())) };
            *self.1.lock().unwrap() = loaded.timers;
            Step::Done
        }
    }

    fn timer(name: &str, version: i64) -> Timer {
        let (tenant_id, execution_id) = (Uuid::nil(), Uuid::nil());
        let status = TimerStatus::Open;
        Timer { tenant_id, execution_id, name: name.into(), fire_ms: 1, version, status }
    }

    /// One timer stays, one is changed and one deleted while the loader reads, and one is new.
    #[test]
    fn rows_are_seen_as_what_is_being_written_makes_them() {
        let directory = tempfile::tempdir().unwrap();
        let mut conn = connect::open_writer(&directory.path().join("test.db")).unwrap();
        migrate::migrate(&mut conn).unwrap();
        for name in ["there", "changed", "deleted"] {
            let insert = "INSERT INTO timer VALUES (zeroblob(16), zeroblob(16), ?1, 1, 1, 0)";
            conn.execute(insert, [name]).unwrap();
        }
        let mut loader = Loader::new(&conn, Arc::new(SystemClock));
        let timers = vec![
            Change::Update { row: timer("changed", 2), expected_version: Some(1) },
            Change::Delete { row: timer("deleted", 1), expected_version: Some(1) },
            Change::Insert(timer("new", 1)),
        ];
        let mutations = Arc::new(Mutations { timers, ..Default::default() });
        let look = |loader: &mut Loader, written| {
            let tell = loader.goes(&mutations);
            tell.send(written).unwrap();
            let mut wants = Wants::default();
            let names = ["there", "changed", "deleted", "new", "never"];
            wants.timers.lock.extend(names.map(|name| timer(name, 1).key()));
            let seen = Arc::new(Mutex::new(Vec::new()));
            let decided =
                loader.decide_ahead(&(Arc::new(Mutex::new(Look(wants, Arc::clone(&seen)))) as SharedDecider));
            let seen: Vec<Timer> = seen.lock().unwrap().drain(..).collect();
            decided.map(|_| seen)
        };
        let seen = look(&mut loader, true).unwrap();
        assert_eq!(seen, [timer("changed", 2), timer("new", 1), timer("there", 1)]);
        // A result based on that batch must not be returned.
        let lost = look(&mut loader, false);
        assert!(matches!(lost, Err(StoreError::Conflict(_))), "{lost:?}");
        assert!(loader.is_settled());
    }
}
