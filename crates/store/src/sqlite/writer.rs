//! The one connection that writes: batches run one after the other, each in one transaction, loads included. Large
//! ones run on a thread of its own, small ones where they come from.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use flovyn_engine::Mutations;
use rusqlite::{Connection, ErrorCode};
use tokio::sync::oneshot;

use super::apply::apply;
use super::cache::Cache;
use super::connect::give_up_pages;
use super::error::store_error;
use super::load::load;
use super::log::Log;
use super::pool::Pool;
use super::sql::Statements;
use crate::clock::Clock;
use crate::port::{SharedDecider, Step, StoreError, StoreResult, next_step};

/// After so long without a write, what was kept to write faster is given up. As often the readers are asked to do the same.
const RESTS_AFTER: Duration = Duration::from_secs(2);
/// After a transaction that took longer, the next is not waited for on a caller's thread.
const SLOW: Duration = Duration::from_millis(5);

enum Job {
    Batch(SharedDecider, oneshot::Sender<StoreResult<()>>),
    /// The log wants looking after.
    Tend,
}

/// The writer and its thread. Dropping it lets the thread finish what it has accepted and waits for it.
pub(super) struct Writer {
    session: Arc<Mutex<Session>>,
    /// Whether the last transaction was slow.
    slow: Arc<AtomicBool>,
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Its thread tells the readers now and then to rest.
    pub(super) fn start(conn: Connection, clock: Arc<dyn Clock>, readers: Weak<Pool>) -> StoreResult<Self> {
        let session = Session::new(conn, clock)?;
        let slow = Arc::clone(&session.slow);
        let session = Arc::new(Mutex::new(session));
        // Unbounded: the service has one or two batches under way.
        let (jobs, accepted) = mpsc::channel();
        let owned = Arc::clone(&session);
        let work = move || {
            let mut rested_at = Instant::now();
            loop {
                let job = accepted.recv_timeout(RESTS_AFTER);
                let mut session = lock(&owned);
                match job {
                    Ok(Job::Batch(batch, reply)) => {
                        let result = session.transact(&batch);
                        drop(batch);
                        // Whoever asked may be gone; what was committed stays committed.
                        let _ = reply.send(result);
                    }
                    Ok(Job::Tend) | Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
                session.tend_log();
                session.rest_if_idle();
                drop(session);
                if rested_at.elapsed() >= RESTS_AFTER {
                    rested_at = Instant::now();
                    if let Some(readers) = readers.upgrade() {
                        readers.rest();
                    }
                }
            }
        };
        let thread = std::thread::Builder::new().name("flovyn-sqlite".into()).spawn(work);
        let thread =
            thread.map_err(|error| StoreError::Unavailable(format!("no thread to write on: {error}")))?;
        Ok(Self { session, slow, jobs: Some(jobs), thread: Some(thread) })
    }

    pub(super) async fn transact(&self, batch: SharedDecider) -> StoreResult<()> {
        let stopped = || StoreError::Fatal("the writer has stopped".into());
        let jobs = self.jobs.as_ref().ok_or_else(stopped)?;
        // A thread that serves everybody must not wait for a slow disk, nor while the log is being looked after.
        if batch.lock().unwrap_or_else(PoisonError::into_inner).is_small()
            && !self.slow.load(Ordering::Relaxed)
            && let Ok(session) = self.session.try_lock()
        {
            return transact_here(session, &batch, jobs);
        }
        let (reply, answer) = oneshot::channel();
        jobs.send(Job::Batch(batch, reply)).map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }
}

/// On the caller's thread. This blocks it for one short commit; waking another thread and being woken by it takes
/// as long again, and whoever waits here waits for this.
fn transact_here(
    mut session: MutexGuard<'_, Session>,
    batch: &SharedDecider,
    jobs: &mpsc::Sender<Job>,
) -> StoreResult<()> {
    let result = session.transact(batch);
    if session.log.wants_tending() {
        let _ = jobs.send(Job::Tend);
    }
    result
}

/// Without being parsed anew each time.
fn execute(conn: &Connection, statement: &str) -> rusqlite::Result<()> {
    conn.prepare_cached(statement)?.execute([]).map(|_| ())
}

/// A panic in a decider is caught before it gets here.
fn lock(session: &Mutex<Session>) -> MutexGuard<'_, Session> {
    session.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            // It ends by panicking only through a fault of ours, which the panic hook has reported.
            let _ = thread.join();
        }
    }
}

/// The connection and what has become of it.
struct Session {
    // Before the connection: the one that is closed last tidies the log away.
    log: Log,
    conn: Connection,
    clock: Arc<dyn Clock>,
    statements: Statements,
    cache: Cache,
    /// SQLite's count of changes that others made to the file.
    data_version: i64,
    /// Whether the last transaction was slow.
    slow: Arc<AtomicBool>,
    /// When it last wrote, until it has given up what it kept for that.
    wrote_at: Option<Instant>,
    /// Set by the first fatal error: the file can no longer be trusted, so nothing is written after it.
    broken: Option<String>,
}

impl Session {
    fn new(mut conn: Connection, clock: Arc<dyn Clock>) -> StoreResult<Self> {
        let log = Log::open(&mut conn)?;
        Ok(Self {
            log,
            conn,
            clock,
            statements: Statements::new(),
            cache: Cache::default(),
            data_version: 0,
            slow: Arc::default(),
            wrote_at: None,
            broken: None,
        })
    }

    fn transact(&mut self, batch: &SharedDecider) -> StoreResult<()> {
        if let Some(why) = &self.broken {
            return Err(StoreError::Fatal(why.clone()));
        }
        let began = Instant::now();
        let result = self.run(batch);
        self.slow.store(began.elapsed() > SLOW, Ordering::Relaxed);
        if let Err(StoreError::Fatal(why)) = &result {
            self.broken = Some(why.clone());
        }
        result
    }

    fn run(&mut self, batch: &SharedDecider) -> StoreResult<()> {
        execute(&self.conn, "BEGIN IMMEDIATE").map_err(store_error)?;
        match self.work(batch) {
            Ok(Some(mutations)) => {
                self.commit()?;
                self.cache.take_in(*mutations, &self.statements);
                self.wrote_at = Some(Instant::now());
                Ok(())
            }
            Ok(None) => self.roll_back(),
            Err(error) => self.roll_back().and(Err(error)),
        }
    }

    /// What has been written and is to be committed, if anything.
    fn work(&mut self, batch: &SharedDecider) -> StoreResult<Option<Box<Mutations>>> {
        self.drop_cache_if_stale()?;
        let mut loaded = None;
        loop {
            match next_step(batch, loaded)? {
                Step::Load(wants) => {
                    let clock = self.clock.as_ref();
                    loaded = Some(load(&self.conn, &self.statements, &mut self.cache, &wants, clock)?);
                }
                Step::Commit(mutations) => {
                    apply(&self.conn, &self.statements, &mutations)?;
                    return Ok(Some(mutations));
                }
                Step::Done => return Ok(None),
            }
        }
    }

    /// A server that has nothing to do needs no memory for it.
    fn rest_if_idle(&mut self) {
        if self.wrote_at.is_some_and(|at| at.elapsed() >= RESTS_AFTER) {
            self.wrote_at = None;
            self.cache = Cache::default();
            if let Err(error) = self.statements.give_up_large(&self.conn) {
                tracing::debug!(%error, "statements could not be given up");
            }
            give_up_pages(&self.conn);
        }
    }

    /// No other process of ours can have the file open, but a person with the `sqlite3` shell can.
    fn drop_cache_if_stale(&mut self) -> StoreResult<()> {
        let mut statement = self.conn.prepare_cached("PRAGMA data_version").map_err(store_error)?;
        let version = statement.query_row([], |row| row.get(0)).map_err(store_error)?;
        if std::mem::replace(&mut self.data_version, version) != version {
            self.cache = Cache::default();
        }
        Ok(())
    }

    /// A full disk stops a commit before its last page, so nothing of it counts. Any other failure may have come
    /// after, and a failed fsync cannot be repeated: the next one would succeed without having written.
    fn commit(&self) -> StoreResult<()> {
        let Err(error) = execute(&self.conn, "COMMIT") else { return Ok(()) };
        if error.sqlite_error_code() == Some(ErrorCode::DiskFull) {
            return self.roll_back().and(Err(store_error(error)));
        }
        let _ = self.roll_back();
        Err(StoreError::Fatal(format!("a commit failed: {error}")))
    }

    fn roll_back(&self) -> StoreResult<()> {
        // Some errors make SQLite roll back by itself.
        if self.conn.is_autocommit() {
            return Ok(());
        }
        let rolled_back = execute(&self.conn, "ROLLBACK");
        rolled_back.map_err(|error| StoreError::Fatal(format!("a rollback failed: {error}")))
    }

    /// What keeps the log short, after whoever asked has been answered.
    fn tend_log(&mut self) {
        if self.broken.is_none()
            && let Err(error) = self.log.tend(&self.conn)
        {
            self.broken = Some(error.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use flovyn_engine::request::{Op, StartWorkflow};
    use flovyn_engine::state::{Execution, PausedQueue};
    use flovyn_engine::{Batch, Change, Loaded, Request, Row, Wants};
    use futures::FutureExt;
    use uuid::Uuid;

    use super::*;
    use crate::clock::SystemClock;
    use crate::port::Decider;
    use crate::sqlite::{connect, migrate};

    type ExecutionKey = <Execution as Row>::Key;

    /// Pauses queues of these names.
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

    fn session(directory: &tempfile::TempDir) -> Session {
        let mut conn = connect::open_writer(&directory.path().join("test.db")).unwrap();
        migrate::migrate(&mut conn).unwrap();
        Session::new(conn, Arc::new(SystemClock)).unwrap()
    }

    fn paused(session: &Session) -> i64 {
        session.conn.query_row("SELECT count(*) FROM paused_queue", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn a_full_disk_refuses_the_batch_and_no_more() {
        let directory = tempfile::tempdir().unwrap();
        let mut session = session(&directory);
        let pages: i64 = session.conn.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
        session.conn.query_row(&format!("PRAGMA max_page_count = {}", pages + 2), [], |_| Ok(())).unwrap();
        let error = session.transact(&pause((0..1_000).map(|n| format!("{n:0>100}")))).unwrap_err();
        assert!(matches!(&error, StoreError::Unavailable(why) if why.starts_with("disk full")), "{error}");
        assert_eq!(paused(&session), 0);
        session.transact(&pause(["small".to_owned()])).unwrap();
        assert_eq!(paused(&session), 1);
    }

    #[test]
    fn after_a_failed_commit_nothing_is_written_any_more() {
        let directory = tempfile::tempdir().unwrap();
        let mut session = session(&directory);
        // A commit that SQLite refuses stands for one whose fsync failed.
        session.conn.commit_hook(Some(|| true)).unwrap();
        let error = session.transact(&pause(["first".to_owned()])).unwrap_err();
        assert!(matches!(error, StoreError::Fatal(_)), "{error}");
        session.conn.commit_hook(None::<fn() -> bool>).unwrap();
        let error = session.transact(&pause(["second".to_owned()])).unwrap_err();
        assert!(matches!(error, StoreError::Fatal(_)), "{error}");
        assert_eq!(paused(&session), 0);
    }

    /// Looks at one execution and writes nothing.
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

    fn look(session: &mut Session, key: ExecutionKey) -> Execution {
        let seen = Arc::new(Mutex::new(None));
        let look: SharedDecider = Arc::new(Mutex::new(Look(key, seen.clone())));
        session.transact(&look).unwrap();
        seen.lock().unwrap().take().unwrap()
    }

    /// Starts an execution; its key.
    fn start(session: &mut Session) -> ExecutionKey {
        let op = Op::from(StartWorkflow::new("order", "default", "{}".into()));
        let start = Batch::new(vec![Arc::new(Request::new(Uuid::nil(), 1, op))], Arc::default());
        session.transact(&(Arc::new(Mutex::new(start)) as SharedDecider)).unwrap();
        let id = session.conn.query_row("SELECT id FROM workflow_execution", [], |row| row.get(0)).unwrap();
        (Uuid::nil(), Uuid::from_bytes(id))
    }

    /// Of few requests: notes on which thread it runs, and how long it takes.
    struct Small(Arc<Mutex<Option<std::thread::ThreadId>>>, Duration);

    impl Decider for Small {
        fn step(&mut self, _: Option<Loaded>) -> Step {
            let began = Instant::now();
            while began.elapsed() < self.1 {
                std::hint::spin_loop();
            }
            *self.0.lock().unwrap() = Some(std::thread::current().id());
            Step::Done
        }

        fn is_small(&self) -> bool {
            true
        }
    }

    #[tokio::test]
    async fn a_small_batch_runs_on_its_callers_thread_unless_that_would_have_to_wait() {
        let directory = tempfile::tempdir().unwrap();
        let mut conn = connect::open_writer(&directory.path().join("test.db")).unwrap();
        migrate::migrate(&mut conn).unwrap();
        let writer = Writer::start(conn, Arc::new(SystemClock), Weak::new()).unwrap();
        let (ran_on, here) = (Arc::default(), std::thread::current().id());
        let small = |takes| Arc::new(Mutex::new(Small(Arc::clone(&ran_on), takes))) as SharedDecider;
        writer.slow.store(false, Ordering::Relaxed);
        writer.transact(small(Duration::ZERO)).await.unwrap();
        assert_eq!(*ran_on.lock().unwrap(), Some(here));
        writer.slow.store(false, Ordering::Relaxed);
        writer.transact(small(SLOW * 2)).await.unwrap();
        writer.transact(small(Duration::ZERO)).await.unwrap();
        assert_ne!(*ran_on.lock().unwrap(), Some(here), "the one before was slow");
        writer.slow.store(false, Ordering::Relaxed);
        let busy = lock(&writer.session);
        let mut waits = std::pin::pin!(writer.transact(small(Duration::ZERO)));
        assert!(waits.as_mut().now_or_never().is_none(), "the session is in use");
        drop(busy);
        waits.await.unwrap();
        assert_ne!(*ran_on.lock().unwrap(), Some(here));
    }

    #[test]
    fn after_a_while_without_writes_nothing_is_kept_in_memory() {
        let directory = tempfile::tempdir().unwrap();
        let mut session = session(&directory);
        let key = start(&mut session);
        session.rest_if_idle();
        assert!(session.cache.executions.get(&key).is_some(), "it has only just been written");
        session.wrote_at = Instant::now().checked_sub(RESTS_AFTER);
        session.rest_if_idle();
        assert!(session.cache.executions.get(&key).is_none());
        assert_eq!(look(&mut session, key).id, key.1);
    }

    #[test]
    fn what_another_connection_changes_is_seen() {
        let directory = tempfile::tempdir().unwrap();
        let mut session = session(&directory);
        let key = start(&mut session);
        assert_eq!(look(&mut session, key).priority_seconds, 0);
        let other = Connection::open(directory.path().join("test.db")).unwrap();
        other.execute("UPDATE workflow_execution SET priority_seconds = 9", []).unwrap();
        assert_eq!(look(&mut session, key).priority_seconds, 9);
    }

    #[test]
    fn the_log_is_moved_into_the_database_and_starts_anew() {
        let directory = tempfile::tempdir().unwrap();
        let mut session = session(&directory);
        let (mut before, mut restarts) = (0, 0);
        for batch in 0.. {
            session.transact(&pause([format!("{batch:0>4000}")])).unwrap();
            session.tend_log();
            let pages = session.log.pages();
            restarts += usize::from(pages < before);
            before = pages;
            if restarts == 2 {
                break;
            }
            assert!(batch < 100_000, "the log never starts anew: {pages} pages");
        }
        let moved: i64 = session.conn.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
        let in_file = std::fs::metadata(directory.path().join("test.db")).unwrap().len();
        assert!(in_file > 4_096 * 500, "{in_file} bytes of {moved} pages are in the database");
    }
}
