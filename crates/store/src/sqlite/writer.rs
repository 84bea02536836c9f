//! Decides and writes batches. Batches are decided one after the other and written in that order, each in one
//! transaction.
//!
//! A small batch is decided and written on its caller's thread, a larger one on a separate thread. If more batches
//! follow, another thread writes the batch, so that the next one can be decided meanwhile. The next batch is written
//! after the first one is in the file. If the first one was not written, the decision of the next one is discarded.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Instant;

use flovyn_engine::Mutations;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::loader::Loader;
use super::pool::Pool;
use super::session::{RESTS_AFTER, Session};
use crate::clock::Clock;
use crate::port::{SharedDecider, StoreError, StoreResult};

type Reply = oneshot::Sender<StoreResult<()>>;

enum Job {
    Batch(SharedDecider, Reply),
    /// The log needs upkeep.
    Tend,
}

/// A decided batch for the thread that only writes.
struct Order {
    mutations: Arc<Mutations>,
    /// Receives whether the batch was written, before its caller is answered.
    written: mpsc::Sender<bool>,
    reply: Reply,
}

/// The parts for deciding and for writing. The first is locked before the second.
#[derive(Clone)]
struct Parts {
    loader: Arc<Mutex<Loader>>,
    session: Arc<Mutex<Session>>,
}

/// Dropping the writer waits until its threads have finished the accepted batches.
pub(super) struct Writer {
    parts: Parts,
    /// Whether the last transaction was slow.
    slow: Arc<AtomicBool>,
    /// The number of batches that are accepted and not begun. No later batch may overtake them.
    waiting: Arc<AtomicUsize>,
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the threads. `thread_rests` is called from time to time, when unused memory is freed. `None`: nothing is
    /// ever freed.
    pub(super) fn start(
        conn: Connection,
        clock: Arc<dyn Clock>,
        readers: Weak<Pool>,
        thread_rests: Option<fn()>,
    ) -> StoreResult<Self> {
        let loader = Arc::new(Mutex::new(Loader::new(&conn, clock)));
        let session = Session::new(conn)?;
        let slow = Arc::clone(&session.slow);
        let parts = Parts { loader, session: Arc::new(Mutex::new(session)) };
        // Unbounded, because the service has only one or two batches in flight.
        let (jobs, accepted) = mpsc::channel();
        let waiting = Arc::<AtomicUsize>::default();
        let writing = Writing::new(&parts);
        let deciding =
            Deciding { parts: parts.clone(), waiting: Arc::clone(&waiting), writing, readers, thread_rests };
        let thread = spawn("flovyn-sqlite", move || deciding.run(&accepted))?;
        Ok(Self { parts, slow, waiting, jobs: Some(jobs), thread: Some(thread) })
    }

    pub(super) async fn transact(&self, batch: SharedDecider) -> StoreResult<()> {
        let stopped = || StoreError::Fatal("the writer has stopped".into());
        let jobs = self.jobs.as_ref().ok_or_else(stopped)?;
        // A thread of the runtime must not wait for a slow disk, or for the upkeep of the log.
        if batch.lock().unwrap_or_else(PoisonError::into_inner).is_small()
            && !self.slow.load(Ordering::Relaxed)
            && self.waiting.load(Ordering::SeqCst) == 0
            && let Ok(mut loader) = self.parts.loader.try_lock()
            && loader.is_settled()
            && let Ok(session) = self.parts.session.try_lock()
        {
            return transact_here(&mut loader, session, &batch, jobs);
        }
        let (reply, answer) = oneshot::channel();
        self.waiting.fetch_add(1, Ordering::SeqCst);
        jobs.send(Job::Batch(batch, reply)).map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }
}

/// Runs a batch on the caller's thread. This blocks the thread for one short commit. Waking another thread and being
/// woken by it would take about as long, and the caller waits for this batch anyway.
fn transact_here(
    loader: &mut Loader,
    mut session: MutexGuard<'_, Session>,
    batch: &SharedDecider,
    jobs: &mpsc::Sender<Job>,
) -> StoreResult<()> {
    let result = session.transact(loader, batch);
    if session.log.wants_tending() {
        let _ = jobs.send(Job::Tend);
    }
    result
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.jobs.take());
        end(self.thread.take());
    }
}

/// The thread that decides batches, and writes a batch that no other batch follows.
struct Deciding {
    parts: Parts,
    waiting: Arc<AtomicUsize>,
    writing: Writing,
    readers: Weak<Pool>,
    /// `None`: nothing is ever freed.
    thread_rests: Option<fn()>,
}

impl Deciding {
    fn run(mut self, accepted: &mpsc::Receiver<Job>) {
        let mut rested_at = Instant::now();
        loop {
            match accepted.recv_timeout(RESTS_AFTER) {
                Ok(Job::Batch(batch, reply)) => self.take(batch, reply),
                Ok(Job::Tend) | Err(RecvTimeoutError::Timeout) => lock(&self.parts.session).tend_log(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if rested_at.elapsed() >= RESTS_AFTER {
                rested_at = Instant::now();
                self.rest();
            }
        }
    }

    /// Frees memory that has not been used for a while.
    fn rest(&mut self) {
        let Some(thread_rests) = self.thread_rests else { return };
        if lock(&self.parts.loader).rest_if_idle() {
            self.writing.end();
        }
        if let Ok(mut session) = self.parts.session.try_lock() {
            session.rest_if_idle();
        }
        if let Some(readers) = self.readers.upgrade() {
            readers.rest();
        }
        thread_rests();
    }

    fn take(&mut self, batch: SharedDecider, reply: Reply) {
        let mut loader = lock(&self.parts.loader);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        let is_followed = batch.lock().unwrap_or_else(PoisonError::into_inner).is_followed();
        if !is_followed && loader.is_settled() {
            let mut session = lock(&self.parts.session);
            let result = session.transact(&mut loader, &batch);
            drop(batch);
            // The caller may have gone. The commit stays valid.
            let _ = reply.send(result);
            session.tend_log();
            return;
        }
        let decided = loader.decide_ahead(&batch);
        drop(batch);
        match decided {
            Ok(Some(mutations)) => {
                let mutations = Arc::new(*mutations);
                let written = loader.goes(&mutations);
                self.writing.write(Order { mutations, written, reply });
            }
            Ok(None) => drop(reply.send(Ok(()))),
            Err(error) => drop(reply.send(Err(error))),
        }
    }
}

/// The thread that only writes. It is started when it is first needed and ends after some idle time. Dropping it waits
/// for the batches that it has accepted.
struct Writing {
    session: Arc<Mutex<Session>>,
    orders: Option<mpsc::Sender<Order>>,
    thread: Option<JoinHandle<()>>,
}

impl Writing {
    fn new(parts: &Parts) -> Self {
        Self { session: Arc::clone(&parts.session), orders: None, thread: None }
    }

    /// If the thread has ended, dropping the order informs all receivers that the batch was not written.
    fn write(&mut self, order: Order) {
        if self.orders.is_none()
            && let Err(error) = self.begin()
        {
            let _ = order.reply.send(Err(error));
            return;
        }
        if let Some(orders) = &self.orders {
            let _ = orders.send(order);
        }
    }

    fn begin(&mut self) -> StoreResult<()> {
        // There is never more than one batch in the channel, because the next one waits until this one is written.
        let (orders, accepted) = mpsc::channel::<Order>();
        let session = Arc::clone(&self.session);
        let work = move || {
            while let Ok(Order { mutations, written, reply }) = accepted.recv() {
                let mut session = lock(&session);
                let result = session.write(&mutations);
                drop(mutations);
                // The receivers may have gone. The commit stays valid.
                let _ = written.send(result.is_ok());
                let _ = reply.send(result);
                session.tend_log();
            }
        };
        self.thread = Some(spawn("flovyn-commit", work)?);
        self.orders = Some(orders);
        Ok(())
    }

    fn end(&mut self) {
        drop(self.orders.take());
        end(self.thread.take());
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.end();
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> StoreResult<JoinHandle<()>> {
    let thread = std::thread::Builder::new().name(name.into()).spawn(work);
    thread.map_err(|error| StoreError::Unavailable(format!("cannot start the thread that writes: {error}")))
}

fn end(thread: Option<JoinHandle<()>>) {
    if let Some(thread) = thread {
        // The thread panics only because of a fault of Flovyn, which the panic hook has reported.
        let _ = thread.join();
    }
}

/// A panic in a decider is caught before it can poison the lock.
fn lock<T>(part: &Mutex<T>) -> MutexGuard<'_, T> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use flovyn_engine::state::{Lane, PausedQueue, Ready, WorkClass};
    use flovyn_engine::{Change, Loaded, Scan, Wants};
    use futures::FutureExt;
    use uuid::Uuid;

    use super::super::session::SLOW;
    use super::*;
    use crate::clock::SystemClock;
    use crate::port::{Decider, Step};
    use crate::sqlite::{connect, migrate};

    fn start(directory: &tempfile::TempDir) -> Writer {
        let mut conn = connect::open_writer(&directory.path().join("test.db")).unwrap();
        migrate::migrate(&mut conn).unwrap();
        Writer::start(conn, Arc::new(SystemClock), Weak::new(), Some(|| ())).unwrap()
    }

    /// A small batch that records the thread on which it runs and takes the given time.
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
        let writer = start(&directory);
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
        let busy = lock(&writer.parts.session);
        let mut waits = std::pin::pin!(writer.transact(small(Duration::ZERO)));
        assert!(waits.as_mut().now_or_never().is_none(), "the session is in use");
        drop(busy);
        waits.await.unwrap();
        assert_ne!(*ran_on.lock().unwrap(), Some(here));
    }

    /// Loads the given wants, sends the result, and writes.
    struct Looks {
        wants: Wants,
        found: mpsc::Sender<Loaded>,
        mutations: Option<Mutations>,
    }

    impl Decider for Looks {
        fn step(&mut self, loaded: Option<Loaded>) -> Step {
            let Some(loaded) = loaded else { return Step::Load(Arc::new(std::mem::take(&mut self.wants))) };
            self.found.send(loaded).unwrap();
            self.mutations.take().map_or(Step::Done, |mutations| Step::Commit(Box::new(mutations)))
        }

        fn is_followed(&self) -> bool {
            true
        }
    }

    fn looks(wants: Wants, mutations: Option<Mutations>) -> (SharedDecider, mpsc::Receiver<Loaded>) {
        let (found, finds) = mpsc::channel();
        (Arc::new(Mutex::new(Looks { wants, found, mutations })), finds)
    }

    fn lane() -> Lane {
        let (tenant_id, class) = (Uuid::nil(), WorkClass::Task);
        Lane { tenant_id, class, queue: "main".into(), kind: "mail".into(), version: Default::default() }
    }

    fn ready(number: i64) -> Ready {
        Ready { lane: lane(), sort_ms: number, id: Uuid::from_u128(7) }
    }

    fn insert(numbers: impl IntoIterator<Item = i64>) -> Mutations {
        Mutations {
            ready: numbers.into_iter().map(ready).map(Change::Insert).collect(),
            ..Default::default()
        }
    }

    /// The first two rows of the lane.
    fn first_two() -> Wants {
        Wants { lanes: [(lane(), 2)].into(), ..Default::default() }
    }

    fn numbers(loaded: &Loaded) -> Vec<i64> {
        loaded.ready.iter().map(|row| row.sort_ms).collect()
    }

    const WAITS: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn a_batch_is_decided_on_what_is_being_written_and_answered_after_it() {
        let directory = tempfile::tempdir().unwrap();
        let writer = start(&directory);
        let (first, _found) = looks(Wants::default(), Some(insert([1, 2, 3, 4])));
        writer.transact(first).await.unwrap();
        // The next batch is decided, but cannot be written as long as the session is in use.
        let busy = lock(&writer.parts.session);
        let delete = |number| Change::Delete { row: ready(number), expected_version: None };
        let changes = vec![Change::Insert(ready(0)), delete(1), delete(2)];
        let changes = Mutations { ready: changes, ..Default::default() };
        let (writes, _found) = looks(Wants::default(), Some(changes));
        let (looks_on, finds) = looks(first_two(), None);
        let (mut writes, mut looks_on) =
            (Box::pin(writer.transact(writes)), Box::pin(writer.transact(looks_on)));
        assert!(writes.as_mut().now_or_never().is_none());
        assert!(looks_on.as_mut().now_or_never().is_none());
        assert_eq!(numbers(&finds.recv_timeout(WAITS).unwrap()), [0, 3], "the rows after the first batch");
        assert!(looks_on.as_mut().now_or_never().is_none(), "its rows are not written yet");
        drop(busy);
        writes.await.unwrap();
        looks_on.await.unwrap();
        let (looks_again, finds) = looks(first_two(), None);
        writer.transact(looks_again).await.unwrap();
        assert_eq!(numbers(&finds.recv_timeout(WAITS).unwrap()), [0, 3], "the rows in the file");
    }

    #[tokio::test]
    async fn the_thread_that_only_writes_comes_and_goes() {
        static RESTED: AtomicUsize = AtomicUsize::new(0);
        let thread_rests = || {
            RESTED.fetch_add(1, Ordering::Relaxed);
        };
        let directory = tempfile::tempdir().unwrap();
        let mut conn = connect::open_writer(&directory.path().join("test.db")).unwrap();
        migrate::migrate(&mut conn).unwrap();
        let loader = Arc::new(Mutex::new(Loader::new(&conn, Arc::new(SystemClock))));
        let parts = Parts { loader, session: Arc::new(Mutex::new(Session::new(conn).unwrap())) };
        let (waiting, writing) = (Arc::new(AtomicUsize::new(2)), Writing::new(&parts));
        let mut deciding =
            Deciding { parts, waiting, writing, readers: Weak::new(), thread_rests: Some(thread_rests) };
        for number in [1, 2] {
            let (batch, _found) = looks(Wants::default(), Some(insert([number])));
            let (reply, answer) = oneshot::channel();
            deciding.take(batch, reply);
            answer.await.unwrap().unwrap();
            deciding.rest();
            assert!(deciding.writing.thread.is_some(), "the thread may be needed again");
            *lock(&deciding.parts.loader).used_at() = Instant::now().checked_sub(RESTS_AFTER);
            deciding.rest();
            assert!(deciding.writing.thread.is_none());
        }
        assert_eq!(RESTED.load(Ordering::Relaxed), 4, "at each attempt to free memory");
        let (batch, _found) = looks(Wants::default(), Some(insert([3])));
        deciding.waiting.store(1, Ordering::SeqCst);
        let (reply, answer) = oneshot::channel();
        deciding.take(batch, reply);
        answer.await.unwrap().unwrap();
        *lock(&deciding.parts.loader).used_at() = Instant::now().checked_sub(RESTS_AFTER);
        deciding.thread_rests = None;
        deciding.rest();
        assert!(deciding.writing.thread.is_some(), "nothing is ever freed");
    }

    #[tokio::test]
    async fn a_search_waits_until_what_it_may_miss_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let writer = start(&directory);
        let busy = lock(&writer.parts.session);
        let queue = PausedQueue { tenant_id: Uuid::nil(), name: "main".into(), paused_ms: 1 };
        let pause = Mutations { queues: vec![Change::Insert(queue.clone())], ..Default::default() };
        let (pauses, _found) = looks(Wants::default(), Some(pause));
        let searches = Wants { scans: [Scan::PausedQueues].into(), ..Default::default() };
        let (searches, finds) = looks(searches, None);
        let (mut pauses, mut searches) =
            (Box::pin(writer.transact(pauses)), Box::pin(writer.transact(searches)));
        assert!(pauses.as_mut().now_or_never().is_none());
        assert!(searches.as_mut().now_or_never().is_none());
        drop(busy);
        pauses.await.unwrap();
        searches.await.unwrap();
        assert_eq!(finds.recv_timeout(WAITS).unwrap().queues, [queue]);
    }

    #[tokio::test]
    async fn what_was_decided_on_a_batch_that_is_not_written_is_not_written_either() {
        let directory = tempfile::tempdir().unwrap();
        let writer = start(&directory);
        let busy = lock(&writer.parts.session);
        let (fails, _found) = looks(Wants::default(), Some(insert([1])));
        let (follows, finds) = looks(first_two(), Some(insert([2])));
        let (mut fails, mut follows) = (Box::pin(writer.transact(fails)), Box::pin(writer.transact(follows)));
        assert!(fails.as_mut().now_or_never().is_none());
        assert!(follows.as_mut().now_or_never().is_none());
        assert_eq!(numbers(&finds.recv_timeout(WAITS).unwrap()), [1]);
        // Another connection inserts the same key meanwhile.
        let other = Connection::open(directory.path().join("test.db")).unwrap();
        let taken = "INSERT INTO ready VALUES (zeroblob(16), 1, 'main', 'other', '', 5, zeroblob(16))";
        other.execute(taken, []).unwrap();
        drop(busy);
        for lost in [fails.await, follows.await] {
            assert!(matches!(lost, Err(StoreError::Conflict(_))), "{lost:?}");
        }
        let (looks_again, finds) = looks(first_two(), Some(insert([3])));
        writer.transact(looks_again).await.unwrap();
        assert_eq!(numbers(&finds.recv_timeout(WAITS).unwrap()), [0i64; 0]);
    }
}
