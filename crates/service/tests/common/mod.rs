//! A server under test: a service on its own store, whose loops the tests tick themselves.

mod build;
mod faulty;

pub(crate) use build::*;
pub(crate) use faulty::{Fault, Faulty, UNSTORABLE};

use std::sync::Arc;
use std::time::{Duration, Instant};

use flovyn_engine::ids::{ExecutionId, TaskId, TenantId};
use flovyn_engine::reply::{Activation, Claimed, Started, TaskDelivery};
use flovyn_engine::request::*;
use flovyn_engine::snapshot::Snapshot;
use flovyn_engine::state::*;
use flovyn_engine::{Code, Limits, Now, Op, Refusal, Reply, invariants};
use flovyn_service::doctor::Doctor;
use flovyn_service::loops::DueLoop;
use flovyn_service::{Options, Service, loops};
use flovyn_store::memory::MemoryStore;
use flovyn_store::postgres::{PostgresOptions, PostgresStore};
use flovyn_store::sqlite::{self, SqliteStore};
use flovyn_store::{Inspect, ManualClock, Store};
use flovyn_testkit::{TestDatabase, fresh_database};
use futures::future::join_all;
use tempfile::TempDir;
use uuid::Uuid;

pub(crate) const TENANT: TenantId = Uuid::from_u128(0xA000_0000_0000_7000_8000_0000_0000_0001);
pub(crate) const BEGIN_MS: i64 = 1_800_000_000_000;
pub(crate) const QUEUE: &str = "main";
/// A wait that ends only when it is answered or dropped.
pub(crate) const LONG: Duration = Duration::from_secs(600);
/// Ends a test that would otherwise hang. It measures nothing.
const HANGS: Duration = Duration::from_secs(30);

/// The place where a scenario runs. It may have several servers.
pub(crate) struct Place {
    store: Option<Arc<dyn Store>>,
    database: Option<TestDatabase>,
    clock: Arc<ManualClock>,
    _directory: Option<TempDir>,
}

impl Place {
    pub(crate) async fn memory() -> Self {
        let clock = clock();
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(clock.clone()));
        Self { store: Some(store), database: None, clock, _directory: None }
    }

    pub(crate) async fn sqlite() -> Self {
        let (clock, directory) = (clock(), tempfile::tempdir().unwrap());
        let options = sqlite::Options { clock: clock.clone(), readers: 2, ..Default::default() };
        let store = SqliteStore::open(directory.path().join("flovyn.db"), options).unwrap();
        Self { store: Some(Arc::new(store)), database: None, clock, _directory: Some(directory) }
    }

    /// Every server has its own connections, like a process. The clock is that of the database.
    pub(crate) async fn postgres() -> Self {
        Self { store: None, database: Some(fresh_database().await), clock: clock(), _directory: None }
    }

    /// The store of one process.
    pub(crate) async fn store(&self) -> Arc<dyn Store> {
        match (&self.store, &self.database) {
            (Some(store), _) => store.clone(),
            (None, Some(database)) => {
                let options = PostgresOptions::new(database.url.clone());
                Arc::new(PostgresStore::connect(options).await.unwrap())
            }
            (None, None) => unreachable!("a place has a store or a database"),
        }
    }

    pub(crate) async fn server(&self) -> Server {
        self.server_with(Limits::default()).await
    }

    pub(crate) async fn server_with(&self, limits: Limits) -> Server {
        self.server_on(self.store().await, limits)
    }

    pub(crate) fn server_on(&self, store: Arc<dyn Store>, limits: Limits) -> Server {
        let loops = loops::Options { enabled: false, ..loops::Options::default() };
        self.start(store, Options { limits, loops, ..Options::default() })
    }

    /// A server with running loops, as in production.
    pub(crate) async fn server_with_loops(&self, loops: loops::Options, hints: bool) -> Server {
        self.start(self.store().await, Options { loops, hints, ..Options::default() })
    }

    pub(crate) fn start(&self, store: Arc<dyn Store>, options: Options) -> Server {
        let clock = self.store.is_some().then(|| self.clock.clone());
        Server { service: Service::start(store, options), clock }
    }

    /// Several servers, as if in several processes.
    pub(crate) async fn servers(&self, count: usize) -> Vec<Server> {
        let mut servers = Vec::new();
        for _ in 0..count {
            servers.push(self.server().await);
        }
        servers
    }
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(Now::same(BEGIN_MS)))
}

/// Makes one test for each scenario and store.
macro_rules! on_each_store {
    ($($scenario:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $scenario() { super::$scenario($crate::common::Place::memory().await).await })*
        }
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $scenario() { super::$scenario($crate::common::Place::sqlite().await).await })*
        }
    };
}
pub(crate) use on_each_store;

/// The same on PostgreSQL, for scenarios with several processes.
macro_rules! on_postgres {
    ($($scenario:ident),* $(,)?) => {
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $scenario() { super::$scenario($crate::common::Place::postgres().await).await })*
        }
    };
}
pub(crate) use on_postgres;

/// Waits until a condition is true.
pub(crate) async fn until(what: &'static str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < HANGS, "{what} never happened");
        tokio::task::yield_now().await;
    }
}

/// The answer to a poll that must soon be answered.
pub(crate) async fn answered(poll: tokio::task::JoinHandle<Result<Claimed, Refusal>>) -> Claimed {
    until("the poller is answered", || poll.is_finished()).await;
    poll.await.expect("the poll does not panic").expect("the poll is not refused")
}

/// Like [`until`], for an asynchronous condition.
pub(crate) async fn until_async(what: &'static str, mut condition: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !condition().await {
        assert!(began.elapsed() < HANGS, "{what} never happened");
        tokio::task::yield_now().await;
    }
}

/// Sends all requests without waiting for any of them.
pub(crate) async fn at_once<O: Into<Op>>(asked: Vec<(&Server, O)>) -> Vec<Result<Reply, Refusal>> {
    let send = |(server, op): (&Server, O)| {
        let (server, op) = (server.clone(), op.into());
        tokio::spawn(async move { server.ask(op).await })
    };
    let sent: Vec<_> = asked.into_iter().map(send).collect();
    let answers = join_all(sent).await;
    answers.into_iter().map(|answer| answer.expect("the call does not panic")).collect()
}

/// Distributes requests among servers in turn.
pub(crate) fn dealt<O>(servers: &[Server], ops: impl IntoIterator<Item = O>) -> Vec<(&Server, O)> {
    servers.iter().cycle().zip(ops).collect()
}

#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) service: Service,
    clock: Option<Arc<ManualClock>>,
}

impl std::ops::Deref for Server {
    type Target = Service;
    fn deref(&self) -> &Service {
        &self.service
    }
}

impl Server {
    pub(crate) async fn ask(&self, op: impl Into<Op>) -> Result<Reply, Refusal> {
        self.service.call(TENANT, op).await
    }

    pub(crate) async fn must(&self, op: impl Into<Op>) -> Reply {
        let op = op.into();
        self.ask(op.clone()).await.unwrap_or_else(|refusal| panic!("{refusal} for {op:?}"))
    }

    pub(crate) async fn refused(&self, op: impl Into<Op>, code: Code) {
        let op = op.into();
        match self.ask(op.clone()).await {
            Err(refusal) => assert_eq!(refusal.code, code, "{refusal} for {op:?}"),
            Ok(reply) => panic!("{op:?} was accepted with {reply:?}, expected {code:?}"),
        }
    }

    pub(crate) async fn start(&self, kind: &str) -> ExecutionId {
        self.start_as(workflow(kind)).await.execution_id
    }

    pub(crate) async fn start_as(&self, start: StartWorkflow) -> Started {
        match self.must(start).await {
            Reply::Started(started) => started,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn create_task(&self, spec: TaskSpec) -> TaskId {
        self.create_task_as(CreateTask::standalone(spec)).await
    }

    pub(crate) async fn create_task_as(&self, create: CreateTask) -> TaskId {
        match self.must(create).await {
            Reply::TaskCreated(created) => created.task_id,
            other => panic!("{other:?}"),
        }
    }

    /// Claims ready work without waiting.
    pub(crate) async fn claim(&self, claim: Claim) -> Claimed {
        match self.must(claim).await {
            Reply::Claimed(claimed) => claimed,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn claim_workflow(&self, kind: &str) -> Activation {
        let claimed = self.claim(workflows(kind)).await;
        claimed.workflows.into_iter().next().unwrap_or_else(|| panic!("no workflow of kind {kind} is ready"))
    }

    pub(crate) async fn claim_task(&self, task_type: &str) -> TaskDelivery {
        let claimed = self.claim(tasks(task_type)).await;
        claimed.tasks.into_iter().next().unwrap_or_else(|| panic!("no task of type {task_type} is ready"))
    }

    /// Waits for work as a worker does. When this returns, the poll is parked or answered.
    pub(crate) async fn poll(&self, claim: Claim) -> tokio::task::JoinHandle<Result<Claimed, Refusal>> {
        let before = self.pollers();
        let service = self.service.clone();
        let poll = tokio::spawn(async move { service.poll(TENANT, claim, LONG).await });
        until("the poller is parked", || self.pollers() > before || poll.is_finished()).await;
        poll
    }

    /// A new execution that has run its first activation and now waits.
    pub(crate) async fn suspended(&self, kind: &str, commands: Vec<Command>) -> ExecutionId {
        let id = self.start(kind).await;
        let activation = self.claim_workflow(kind).await;
        assert_eq!(activation.execution.id, id);
        self.must(submit(&activation, commands, Outcome::Suspended)).await;
        id
    }

    /// Moves the clock and does nothing else.
    pub(crate) fn move_clock(&self, ms: i64) {
        self.clock.as_ref().expect("this store has a clock that can be moved").advance_ms(ms);
    }

    /// Lets time pass: by moving the clock, or by waiting for the database's clock.
    pub(crate) async fn pass(&self, ms: i64) {
        match &self.clock {
            Some(clock) => clock.advance_ms(ms),
            None => {
                let until_ms = self.store().now().await.unwrap().ms + ms;
                while self.store().now().await.unwrap().ms < until_ms {
                    tokio::task::yield_now().await;
                }
            }
        }
        self.fire_due().await;
    }

    /// Fires everything that is due, including the work that this makes due.
    pub(crate) async fn fire_due(&self) {
        for _ in 0..500 {
            if self.tick().await == 0 {
                return;
            }
        }
        panic!("due rows never end: {:?}", self.snapshot().await.due);
    }

    /// Lets follow-ups run page by page until they are finished. Each page becomes due one millisecond after the
    /// previous one.
    pub(crate) async fn settle(&self) {
        for _ in 0..500 {
            self.pass(1).await;
            if !self.snapshot().await.due.iter().any(|row| row.class.is_follow_up()) {
                return;
            }
        }
        panic!("a follow-up never ends: {:?}", self.snapshot().await.due);
    }

    /// Fires one page of the due table.
    pub(crate) async fn tick(&self) -> usize {
        DueLoop::new(self.service.clone(), &loops::Options::default()).tick().await.unwrap()
    }

    pub(crate) async fn snapshot(&self) -> Snapshot {
        self.store().snapshot().await.unwrap()
    }

    /// Asserts that every promise holds.
    pub(crate) async fn check(&self) -> Snapshot {
        let snapshot = self.snapshot().await;
        let found = invariants::check(&snapshot, self.store().now().await.unwrap());
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert!(found.is_empty(), "{}", found.join("; "));
        let mut doctor = Doctor::with_page_rows(Arc::clone(self.store()) as Arc<dyn Inspect>, 3);
        while let Some(examined) = doctor.next().await.unwrap() {
            assert!(examined.findings.is_empty(), "{}: {:?}", examined.part, examined.findings);
        }
        snapshot
    }

    pub(crate) async fn execution(&self, id: ExecutionId) -> Execution {
        self.store().execution_get(TENANT, id).await.unwrap().expect("the execution is there")
    }

    pub(crate) async fn status(&self, id: ExecutionId) -> ExecutionStatus {
        self.execution(id).await.status
    }

    pub(crate) async fn task(&self, id: TaskId) -> Task {
        self.store().task_get(TENANT, id).await.unwrap().expect("the task is there")
    }

    pub(crate) async fn attempts(&self, id: TaskId) -> Vec<AttemptStatus> {
        let rows = self.store().attempt_list(TENANT, id).await.unwrap();
        let attempts = self.task(id).await.ended_attempts(rows);
        attempts.iter().map(|attempt| attempt.status).collect()
    }

    pub(crate) async fn events(&self, id: ExecutionId) -> Vec<Event> {
        let events = self.store().event_page(TENANT, id, 0, 100_000).await.unwrap();
        events.into_iter().map(|logged| logged.event).collect()
    }

    /// The number of events of a kind in an execution.
    pub(crate) async fn count(&self, id: ExecutionId, kind: EventKind) -> usize {
        self.events(id).await.iter().filter(|event| event.kind == kind).count()
    }
}
