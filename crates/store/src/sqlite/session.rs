//! The only connection that writes: each batch in one transaction. After an error that leaves the state of the disk
//! unknown, it writes nothing more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use flovyn_engine::Mutations;
use rusqlite::{Connection, ErrorCode};

use super::apply::apply;
use super::connect::give_up_pages;
use super::error::store_error;
use super::loader::Loader;
use super::log::Log;
use super::sql::Statements;
use crate::port::{SharedDecider, Step, StoreError, StoreResult, next_step};

/// After this time without a write, memory that only speeds up writing is freed.
pub(super) const RESTS_AFTER: Duration = Duration::from_secs(2);
/// After a transaction that took longer, the next one does not run on a caller's thread.
pub(super) const SLOW: Duration = Duration::from_millis(5);

/// The connection and its state.
pub(super) struct Session {
    // The log comes before the connection, because the connection that is closed last removes the log file.
    pub(super) log: Log,
    pub(super) conn: Connection,
    statements: &'static Statements,
    /// SQLite's counter of changes that other connections made to the file.
    data_version: i64,
    /// Whether the last transaction was slow.
    pub(super) slow: Arc<AtomicBool>,
    /// When it last wrote. `None`: the memory for writing has been freed since.
    pub(super) wrote_at: Option<Instant>,
    /// Set by the first fatal error. The file can no longer be trusted, so nothing is written afterwards.
    broken: Option<StoreError>,
}

impl Session {
    pub(super) fn new(mut conn: Connection) -> StoreResult<Self> {
        let log = Log::open(&mut conn)?;
        let mut session = Self {
            log,
            conn,
            statements: Statements::all(),
            data_version: 0,
            slow: Arc::default(),
            wrote_at: None,
            broken: None,
        };
        session.others_wrote()?;
        Ok(session)
    }

    /// Decides a batch on the rows in the file and writes it, in one transaction.
    pub(super) fn transact(&mut self, loader: &mut Loader, batch: &SharedDecider) -> StoreResult<()> {
        self.in_transaction(|session| {
            if session.others_wrote()? {
                loader.forget();
            }
            let Some(mutations) = session.decide(loader, batch)? else { return session.roll_back() };
            session.commit()?;
            loader.keep(*mutations);
            Ok(())
        })
    }

    /// Writes a batch that was decided on rows of this session, which may or may not be in the file when it was
    /// decided.
    pub(super) fn write(&mut self, mutations: &Mutations) -> StoreResult<()> {
        self.in_transaction(|session| {
            if session.others_wrote()? {
                return Err(StoreError::Conflict("another connection has changed the file".into()));
            }
            apply(&session.conn, session.statements, mutations)?;
            session.commit()
        })
    }

    /// Runs `work` in a transaction. If anything fails, the transaction leaves no changes.
    fn in_transaction(&mut self, work: impl FnOnce(&mut Self) -> StoreResult<()>) -> StoreResult<()> {
        if let Some(why) = &self.broken {
            return Err(why.clone());
        }
        let began = Instant::now();
        let begun = execute(&self.conn, "BEGIN IMMEDIATE").map_err(store_error);
        let result = begun.and_then(|()| work(self)).map_err(|error| match self.roll_back() {
            Err(worse) if !error.is_final() => worse,
            _ => error,
        });
        self.slow.store(began.elapsed() > SLOW, Ordering::Relaxed);
        if let Err(error) = &result
            && error.is_final()
        {
            self.broken = Some(error.clone());
        }
        result
    }

    /// Decides the batch and executes its changes. Returns the changes to commit. `None` if there are none.
    fn decide(&mut self, loader: &mut Loader, batch: &SharedDecider) -> StoreResult<Option<Box<Mutations>>> {
        let mut loaded = None;
        loop {
            match next_step(batch, loaded)? {
                Step::Load(wants) => loaded = Some(loader.load(&self.conn, &wants)?),
                Step::Commit(mutations) => {
                    apply(&self.conn, self.statements, &mutations)?;
                    return Ok(Some(mutations));
                }
                Step::Done => return Ok(None),
            }
        }
    }

    /// Frees memory if there was no write for a while.
    pub(super) fn rest_if_idle(&mut self) {
        if self.wrote_at.is_some_and(|at| at.elapsed() >= RESTS_AFTER) {
            self.wrote_at = None;
            self.conn.flush_prepared_statement_cache();
            give_up_pages(&self.conn);
        }
    }

    /// Whether another connection has written since the last call. No other process of Flovyn can have the file open,
    /// but a person with the `sqlite3` shell can.
    fn others_wrote(&mut self) -> StoreResult<bool> {
        let mut statement = self.conn.prepare_cached("PRAGMA data_version").map_err(store_error)?;
        let version = statement.query_row([], |row| row.get(0)).map_err(store_error)?;
        Ok(std::mem::replace(&mut self.data_version, version) != version)
    }

    /// Commits. A full disk stops a commit before its last page, so none of it counts. Any other failure may have come
    /// after that. A failed fsync cannot be repeated: the next fsync would succeed without having written the data.
    fn commit(&mut self) -> StoreResult<()> {
        let Err(error) = execute(&self.conn, "COMMIT") else {
            self.wrote_at = Some(Instant::now());
            return Ok(());
        };
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull | ErrorCode::DatabaseCorrupt) => Err(store_error(error)),
            _ => Err(StoreError::Fatal(format!("a commit failed: {error}"))),
        }
    }

    fn roll_back(&self) -> StoreResult<()> {
        // After some errors SQLite has already rolled back.
        if self.conn.is_autocommit() {
            return Ok(());
        }
        let rolled_back = execute(&self.conn, "ROLLBACK");
        rolled_back.map_err(|error| StoreError::Fatal(format!("a rollback failed: {error}")))
    }

    /// Keeps the log short. Called after the callers have been answered.
    pub(super) fn tend_log(&mut self) {
        if self.broken.is_none()
            && let Err(error) = self.log.tend(&self.conn)
        {
            self.broken = Some(error);
        }
    }
}

/// Executes a cached statement, so that it is not parsed each time.
fn execute(conn: &Connection, statement: &str) -> rusqlite::Result<()> {
    conn.prepare_cached(statement)?.execute([]).map(|_| ())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use flovyn_engine::request::{Op, StartWorkflow};
    use flovyn_engine::state::{Execution, PausedQueue};
    use flovyn_engine::{Batch, Change, Loaded, Request, Row, Wants};
    use rusqlite::StatementStatus;
    use uuid::Uuid;

    use super::*;
    use crate::clock::SystemClock;
    use crate::port::Decider;
    use crate::sqlite::{connect, migrate};

    type ExecutionKey = <Execution as Row>::Key;

    /// A session with its loader.
    struct Desk {
        session: Session,
        loader: Loader,
    }

    impl Desk {
        fn new(directory: &tempfile::TempDir) -> Self {
            let mut conn = connect::open_writer(&directory.path().join("test.db")).unwrap();
            migrate::migrate(&mut conn).unwrap();
            let loader = Loader::new(&conn, Arc::new(SystemClock));
            Self { session: Session::new(conn).unwrap(), loader }
        }

        fn transact(&mut self, batch: &SharedDecider) -> StoreResult<()> {
            self.session.transact(&mut self.loader, batch)
        }

        fn rest(&mut self) {
            self.session.rest_if_idle();
            self.loader.rest_if_idle();
        }

        fn paused(&self) -> i64 {
            self.session.conn.query_row("SELECT count(*) FROM paused_queue", [], |row| row.get(0)).unwrap()
        }

        /// Starts an execution. Returns its key.
        fn start(&mut self) -> ExecutionKey {
            let op = Op::from(StartWorkflow::new("order", "default", "{}".into()));
            let start = Batch::new(vec![Arc::new(Request::new(Uuid::nil(), 1, op))], Arc::default());
            self.transact(&(Arc::new(Mutex::new(start)) as SharedDecider)).unwrap();
            let id = "SELECT id FROM workflow_execution";
            let id = self.session.conn.query_row(id, [], |row| row.get(0)).unwrap();
            (Uuid::nil(), Uuid::from_bytes(id))
        }

        fn look(&mut self, key: ExecutionKey) -> Execution {
            let seen = Arc::new(Mutex::new(None));
            let look: SharedDecider = Arc::new(Mutex::new(Look(key, seen.clone())));
            self.transact(&look).unwrap();
            seen.lock().unwrap().take().unwrap()
        }
    }

    /// Pauses the queues with these names.
    struct Pause(Vec<String>);

    impl Decider for Pause {
        fn step(&mut self, loaded: Option<Loaded>) -> Step {
            let Some(loaded) = loaded else { return Step::Load(Arc::default()) };
            let pause = |name: &String| PausedQueue {
                tenant_id: Uuid::nil(),
                name: name.as_str().into(),
                paused_ms: loaded.now.ms,
            };
            let queues = self.0.iter().map(pause).map(Change::Insert).collect();
            Step::Commit(Box::new(Mutations { queues, ..Default::default() }))
        }
    }

    fn pause(names: impl IntoIterator<Item = String>) -> SharedDecider {
        Arc::new(Mutex::new(Pause(names.into_iter().collect())))
    }

    /// Reads one execution and writes nothing.
    struct Look(ExecutionKey, Arc<Mutex<Option<Execution>>>);

    impl Decider for Look {
        fn step(&mut self, loaded: Option<Loaded>) -> Step {
            let Some(loaded) = loaded else {
                let mut wants = Wants::default();
                wants.executions.peek.insert(self.0);
                return Step::Load(Arc::new(wants));
            };
            *self.1.lock().unwrap() = loaded.executions.into_iter().next();
            Step::Done
        }
    }

    #[test]
    fn a_full_disk_refuses_the_batch_and_no_more() {
        let directory = tempfile::tempdir().unwrap();
        let mut desk = Desk::new(&directory);
        let conn = &desk.session.conn;
        let pages: i64 = conn.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
        conn.query_row(&format!("PRAGMA max_page_count = {}", pages + 2), [], |_| Ok(())).unwrap();
        let error = desk.transact(&pause((0..1_000).map(|n| format!("{n:0>100}")))).unwrap_err();
        assert!(matches!(&error, StoreError::Unavailable(why) if why.starts_with("disk full")), "{error}");
        assert_eq!(desk.paused(), 0);
        desk.transact(&pause(["small".to_owned()])).unwrap();
        assert_eq!(desk.paused(), 1);
    }

    #[test]
    fn after_a_failed_commit_nothing_is_written_any_more() {
        let directory = tempfile::tempdir().unwrap();
        let mut desk = Desk::new(&directory);
        // A commit that SQLite refuses simulates a failed fsync.
        desk.session.conn.commit_hook(Some(|| true)).unwrap();
        let error = desk.transact(&pause(["first".to_owned()])).unwrap_err();
        assert!(matches!(error, StoreError::Fatal(_)), "{error}");
        desk.session.conn.commit_hook(None::<fn() -> bool>).unwrap();
        let error = desk.transact(&pause(["second".to_owned()])).unwrap_err();
        assert!(matches!(error, StoreError::Fatal(_)), "{error}");
        assert_eq!(desk.paused(), 0);
    }

    #[test]
    fn after_a_while_without_writes_nothing_is_kept_in_memory() {
        let directory = tempfile::tempdir().unwrap();
        let mut desk = Desk::new(&directory);
        let key = desk.start();
        let has_begun = |desk: &Desk| {
            let statement = desk.session.conn.prepare_cached("BEGIN IMMEDIATE").unwrap();
            statement.get_status(StatementStatus::Run) > 0
        };
        desk.rest();
        assert!(desk.loader.remembers(&key), "it has only just been written");
        assert!(has_begun(&desk), "the statement is kept");
        let long_ago = Instant::now().checked_sub(RESTS_AFTER);
        (desk.session.wrote_at, *desk.loader.used_at()) = (long_ago, long_ago);
        desk.rest();
        assert!(!desk.loader.remembers(&key));
        assert!(!has_begun(&desk), "it is prepared anew");
        assert_eq!(desk.look(key).id, key.1);
    }

    #[test]
    fn what_another_connection_changes_is_seen() {
        let directory = tempfile::tempdir().unwrap();
        let mut desk = Desk::new(&directory);
        let key = desk.start();
        assert_eq!(desk.look(key).priority_seconds, 0);
        let other = Connection::open(directory.path().join("test.db")).unwrap();
        other.execute("UPDATE workflow_execution SET priority_seconds = 9", []).unwrap();
        assert_eq!(desk.look(key).priority_seconds, 9);
    }

    #[test]
    fn the_log_is_moved_into_the_database_and_starts_anew() {
        let directory = tempfile::tempdir().unwrap();
        let mut desk = Desk::new(&directory);
        let (mut before, mut restarts) = (0, 0);
        for batch in 0.. {
            desk.transact(&pause([format!("{batch:0>4000}")])).unwrap();
            desk.session.tend_log();
            let pages = desk.session.log.pages();
            restarts += usize::from(pages < before);
            before = pages;
            if restarts == 2 {
                break;
            }
            assert!(batch < 100_000, "the log never starts anew: {pages} pages");
        }
        let conn = &desk.session.conn;
        let moved: i64 = conn.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
        let in_file = std::fs::metadata(directory.path().join("test.db")).unwrap().len();
        assert!(in_file > 4_096 * 500, "{in_file} bytes of {moved} pages are in the database");
    }
}
