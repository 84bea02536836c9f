//! Two batches in flight at once: no request is lost between them, and answers keep their order where they have to.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use flovyn_engine::request::*;
use flovyn_engine::state::TaskStatus;
use flovyn_engine::{Code, Limits, Loaded, Now, Refusal, Reply};
use flovyn_store::{Decider, SharedDecider, Step, Store, StoreError, TransactOptions, store_around};
use futures::future::{BoxFuture, join_all};
use tokio::sync::Notify;

use crate::common::{
    LONG, Place, QUEUE, Server, TENANT, answered, complete, finish, id, task, tasks, until, workflow,
    workflows,
};

/// The number of requests from which a second batch begins. `SOME`: from which a batch runs beside the loop.
const MANY: usize = 96;
const SOME: usize = 8;
/// The most requests in one batch.
const FULL: usize = 256;

/// A store whose transactions can be held back after they are done, or find all tasks busy.
struct Held {
    inner: Arc<dyn Store>,
    /// Whether other processes may write to it.
    shared: bool,
    hold_next: AtomicBool,
    busy_next: AtomicBool,
    /// The next transaction that begins while another one is in flight fails with a conflict.
    conflict_second: AtomicBool,
    released: Notify,
    in_flight: AtomicUsize,
    most_in_flight: AtomicUsize,
}

impl Held {
    async fn reads(&self) -> StoreResult<()> {
        Ok(())
    }
}

store_around!(Held, reads, {
    async fn transact(&self, batch: SharedDecider, options: TransactOptions) -> StoreResult<()> {
        let in_flight = self.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_in_flight.fetch_max(in_flight, Ordering::SeqCst);
        let is_held = self.hold_next.swap(false, Ordering::SeqCst);
        let batch = match self.busy_next.swap(false, Ordering::SeqCst) {
            true => Arc::new(Mutex::new(TasksAreBusy(batch))),
            false => batch,
        };
        let done = match in_flight > 1 && self.conflict_second.swap(false, Ordering::SeqCst) {
            true => Err(StoreError::Conflict("as ordered".to_owned())),
            false => self.inner.transact(batch, options).await,
        };
        if is_held {
            self.released.notified().await;
        }
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
        done
    }

    async fn now(&self) -> StoreResult<Now> {
        self.inner.now().await
    }

    async fn turn_take(&self, name: &str, every_ms: i64) -> StoreResult<bool> {
        self.inner.turn_take(name, every_ms).await
    }

    fn is_shared(&self) -> bool {
        self.shared
    }

    fn overlaps_batches(&self) -> bool {
        true
    }
});

/// A batch for which all tasks are locked by others.
struct TasksAreBusy(SharedDecider);

impl Decider for TasksAreBusy {
    fn step(&mut self, mut loaded: Option<Loaded>) -> Step {
        if let Some(loaded) = &mut loaded {
            loaded.busy.tasks.extend(loaded.tasks.drain(..).map(|task| task.key()));
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner).step(loaded)
    }
}

struct Scene {
    store: Arc<Held>,
    server: Server,
}

type Calls<'a> = Vec<BoxFuture<'a, Result<Reply, Refusal>>>;

impl Scene {
    async fn new() -> Self {
        Self::on(true).await
    }

    /// `shared`: a database that several processes share; otherwise it is in this process.
    async fn on(shared: bool) -> Self {
        let place = Place::memory().await;
        let store = Arc::new(Held {
            inner: place.store().await,
            shared,
            hold_next: AtomicBool::new(false),
            busy_next: AtomicBool::new(false),
            conflict_second: AtomicBool::new(false),
            released: Notify::new(),
            in_flight: AtomicUsize::new(0),
            most_in_flight: AtomicUsize::new(0),
        });
        Self { server: place.server_on(store.clone(), Limits::default()), store }
    }

    /// Sends requests, all of them before anything else happens.
    async fn send(&self, count: usize, op: impl Into<flovyn_engine::Op>) -> Calls<'_> {
        let op = op.into();
        let call = || -> BoxFuture<'_, _> { Box::pin(self.server.call(TENANT, op.clone())) };
        let mut calls: Calls<'_> = (0..count).map(|_| call()).collect();
        for call in &mut calls {
            assert!(matches!(futures::poll!(call), Poll::Pending));
        }
        calls
    }

    /// A batch that has been decided, and is not answered before it is released.
    async fn held(&self, op: impl Into<flovyn_engine::Op>) -> Calls<'_> {
        self.store.hold_next.store(true, Ordering::SeqCst);
        let calls = self.send(SOME, op).await;
        until("a batch is held", || self.in_flight() == 1).await;
        calls
    }

    fn in_flight(&self) -> usize {
        self.store.in_flight.load(Ordering::SeqCst)
    }

    fn release(&self) {
        self.store.released.notify_one();
    }

    /// Lets everything happen that can happen: there is only one thread.
    async fn rest(&self) {
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
    }
}

fn all_went_well(answers: Vec<Result<Reply, Refusal>>) -> usize {
    answers.into_iter().map(Result::unwrap).count()
}

#[tokio::test]
async fn a_second_batch_begins_once_many_wait_and_a_third_does_not() {
    let scene = Scene::new().await;
    let held = scene.held(workflow("order")).await;
    let some = scene.send(MANY - 1, workflow("order")).await;
    scene.rest().await;
    assert_eq!(scene.store.most_in_flight.load(Ordering::SeqCst), 1, "too few wait");
    scene.store.hold_next.store(true, Ordering::SeqCst);
    let one_more = scene.send(1, workflow("order")).await;
    until("the second is in flight", || scene.in_flight() == 2).await;
    let others = scene.send(2 * MANY, workflow("order")).await;
    scene.rest().await;
    scene.release();
    scene.release();
    let all = held.into_iter().chain(some).chain(one_more).chain(others);
    assert_eq!(all_went_well(join_all(all).await), SOME + 3 * MANY);
    assert_eq!(scene.store.most_in_flight.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_poller_that_searched_just_before_work_was_left_searches_again() {
    let scene = Scene::new().await;
    scene.store.hold_next.store(true, Ordering::SeqCst);
    // Its claim is in the batch that is held. The claim has found nothing, and the poller is not parked yet.
    let service = scene.server.service.clone();
    let mut poll: BoxFuture<'_, _> = Box::pin(async move { service.poll(TENANT, tasks("work"), LONG).await });
    assert!(futures::poll!(&mut poll).is_pending());
    let held = scene.send(SOME, workflow("order")).await;
    until("a batch is held", || scene.in_flight() == 1).await;
    let create = CreateTask::standalone(task("work"));
    assert_eq!(all_went_well(join_all(scene.send(MANY, create).await).await), MANY);
    assert_eq!((scene.in_flight(), scene.server.pollers()), (1, 0), "no poller was there to take it");
    scene.release();
    assert_eq!(all_went_well(join_all(held).await), SOME);
    assert_eq!(answered(tokio::spawn(poll)).await.tasks.len(), 1);
}

#[tokio::test]
async fn where_the_database_is_in_this_process_batches_are_answered_in_order() {
    let scene = Scene::on(false).await;
    scene.store.hold_next.store(true, Ordering::SeqCst);
    let service = scene.server.service.clone();
    let mut poll: BoxFuture<'_, _> = Box::pin(async move { service.poll(TENANT, tasks("work"), LONG).await });
    assert!(futures::poll!(&mut poll).is_pending());
    // Enough requests follow, so the first batch runs beside the loop. It is held, and the second batch makes work for
    // its poller.
    let held = scene.send(FULL - 1, workflow("order")).await;
    let mut created = scene.send(MANY, CreateTask::standalone(task("work"))).await;
    until("both are in flight", || scene.server.stats().figures().second_batches == 1).await;
    scene.rest().await;
    for call in &mut created {
        assert!(futures::poll!(call).is_pending());
    }
    scene.release();
    assert_eq!(all_went_well(join_all(held.into_iter().chain(created)).await), FULL - 1 + MANY);
    assert_eq!(answered(tokio::spawn(poll)).await.tasks.len(), 1);
}

#[tokio::test]
async fn in_this_process_a_batch_that_is_decided_again_is_answered_after_the_one_ahead_of_it() {
    let scene = Scene::on(false).await;
    scene.store.hold_next.store(true, Ordering::SeqCst);
    scene.store.conflict_second.store(true, Ordering::SeqCst);
    let mut first = scene.send(FULL, workflow("order")).await;
    let mut second = scene.send(MANY, workflow("order")).await;
    until("both are in flight", || scene.server.stats().figures().second_batches == 1).await;
    scene.rest().await;
    assert!(!scene.store.conflict_second.load(Ordering::SeqCst), "the second has failed");
    for call in first.iter_mut().chain(&mut second) {
        assert!(futures::poll!(call).is_pending(), "the first is not answered yet");
    }
    scene.release();
    assert_eq!(all_went_well(join_all(first.into_iter().chain(second)).await), FULL + MANY);
    assert_eq!(scene.server.stats().figures().conflicts, 1);
}

#[tokio::test]
async fn where_the_database_is_in_this_process_a_batch_that_nothing_follows_runs_in_the_loop() {
    let scene = Scene::on(false).await;
    for (all, seconds) in [(FULL + MANY - 1, 0), (FULL + MANY, 1)] {
        scene.store.hold_next.store(true, Ordering::SeqCst);
        let calls = scene.send(all, workflow("order")).await;
        until("the first is in flight", || scene.in_flight() > 0).await;
        scene.rest().await;
        scene.release();
        assert_eq!(all_went_well(join_all(calls).await), all);
        assert_eq!(scene.server.stats().figures().second_batches, seconds);
    }
}

#[tokio::test]
async fn nothing_runs_beside_a_start_that_a_worker_was_notified_of() {
    let scene = Scene::on(false).await;
    let claim = Claim { provisional: true, ..workflows("order") };
    let poll = scene.server.poll(claim).await;
    let start = scene.send(1, workflow("order")).await;
    let activation = answered(poll).await.workflows.remove(0);
    assert!(activation.provisional);
    // Its first step goes into the batch after that of the start.
    scene.store.hold_next.store(true, Ordering::SeqCst);
    let mut others = scene.send(FULL, HeartbeatWorker { worker_id: id(1) }).await;
    let step = scene.send(1, finish(&activation)).await;
    others.extend(scene.send(MANY, HeartbeatWorker { worker_id: id(1) }).await);
    until("the start is being written", || scene.in_flight() == 1).await;
    scene.rest().await;
    assert_eq!(scene.store.most_in_flight.load(Ordering::SeqCst), 1);
    scene.release();
    assert_eq!(all_went_well(join_all(start.into_iter().chain(step)).await), 2);
    assert!(join_all(others).await.into_iter().all(|answer| answer.is_err()), "there is no such worker");
}

/// Many tasks are enqueued and drained at the same time, on the real SQLite store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_sqlite_every_task_is_accepted_once_though_batches_overlap() {
    const ALL: usize = 4_000;
    let place = Place::sqlite().await;
    let server = place.server_on(place.store().await, Limits::default());
    let items = vec![CreateTask::standalone(task("work")); 500];
    let puts = (0..ALL / items.len()).map(|_| server.must(CreateTasks { items: items.clone() }));
    let done = AtomicUsize::new(0);
    let drains = (0..3).map(async |_| {
        let claimer = Claimer { session: Some(id(1)), ..tasks("work").claimer };
        let claim = Claim { max: 250, claimer, ..tasks("work") };
        while done.load(Ordering::SeqCst) < ALL {
            let claimed =
                server.service.poll(TENANT, claim.clone(), Duration::from_millis(50)).await.unwrap();
            let accepted =
                join_all(claimed.tasks.iter().map(|delivery| server.must(complete(delivery)))).await;
            done.fetch_add(accepted.len(), Ordering::SeqCst);
        }
    });
    tokio::join!(join_all(puts), join_all(drains));
    assert!(server.stats().figures().second_batches > 0);
    let snapshot = server.check().await;
    assert_eq!(snapshot.tasks.len(), ALL);
    assert!(snapshot.tasks.iter().all(|row| row.status == TaskStatus::Completed && row.execution_count == 1));
    assert!(snapshot.ready.is_empty() && snapshot.due.is_empty());
}

#[tokio::test]
async fn claims_of_a_session_for_much_work_take_turns() {
    let scene = Scene::on(false).await;
    scene.server.must(CreateTasks { items: vec![CreateTask::standalone(task("work")); 700] }).await;
    let before = scene.server.stats().figures().commits;
    let polls = [(1, 200), (1, 200), (2, 200)].map(|(session, max)| {
        let service = scene.server.service.clone();
        let claimer = Claimer { session: Some(id(session)), ..tasks("work").claimer };
        async move { service.poll(TENANT, Claim { max, claimer, ..tasks("work") }, LONG).await }
    });
    let claimed: Vec<usize> =
        join_all(polls).await.into_iter().map(|claimed| claimed.unwrap().tasks.len()).collect();
    assert_eq!(claimed, [200, 200, 200]);
    assert_eq!(scene.server.stats().figures().commits, before + 2, "one batch for the first of each");
}

#[tokio::test]
async fn a_service_that_stops_finishes_both() {
    let scene = Scene::new().await;
    let held = scene.held(workflow("order")).await;
    scene.store.hold_next.store(true, Ordering::SeqCst);
    let second = scene.send(MANY, workflow("order")).await;
    until("the second is in flight", || scene.in_flight() == 2).await;
    let waiting = scene.send(SOME, workflow("order")).await;
    let service = scene.server.service.clone();
    let stops = tokio::spawn(async move { service.stop().await });
    scene.rest().await;
    assert!(!stops.is_finished());
    scene.release();
    scene.release();
    let all = held.into_iter().chain(second).chain(waiting);
    assert_eq!(all_went_well(join_all(all).await), 2 * SOME + MANY);
    stops.await.unwrap();
}

#[tokio::test]
async fn a_poller_that_finds_only_what_another_batch_holds_searches_again() {
    let scene = Scene::new().await;
    scene.server.must(CreateTask::standalone(task("work"))).await;
    let held = scene.held(workflow("order")).await;
    scene.store.busy_next.store(true, Ordering::SeqCst);
    let service = scene.server.service.clone();
    let mut poll: BoxFuture<'_, _> = Box::pin(async move { service.poll(TENANT, tasks("work"), LONG).await });
    assert!(futures::poll!(&mut poll).is_pending());
    // These are enough for a second batch, in which the task is busy.
    assert_eq!(all_went_well(join_all(scene.send(MANY, workflow("order")).await).await), MANY);
    assert!(!scene.store.busy_next.load(Ordering::SeqCst));
    assert_eq!(scene.server.pollers(), 0, "it must search again instead of waiting");
    scene.release();
    assert_eq!(all_went_well(join_all(held).await), SOME);
    assert_eq!(answered(tokio::spawn(poll)).await.tasks.len(), 1);
}

#[tokio::test]
async fn the_queue_is_bounded_while_a_batch_is_in_flight() {
    let scene = Scene::new().await;
    let held = scene.held(workflow("order")).await;
    // The second batch is in flight too, so that no third one takes requests from the queue.
    scene.store.hold_next.store(true, Ordering::SeqCst);
    let second = scene.send(MANY, workflow("order")).await;
    until("the second is in flight", || scene.in_flight() == 2).await;
    let mut accepted = Vec::new();
    let refusal = loop {
        assert!(accepted.len() < 50_000, "the queue has no limit");
        let mut call = Box::pin(scene.server.call(TENANT, HeartbeatWorker { worker_id: id(1) }));
        match futures::poll!(&mut call) {
            Poll::Pending => accepted.push(call),
            Poll::Ready(answer) => break answer.unwrap_err(),
        }
        // The loop may accept the requests that have arrived.
        tokio::task::yield_now().await;
    };
    assert_eq!(refusal.code, Code::Overloaded);
    scene.release();
    scene.release();
    assert_eq!(all_went_well(join_all(held.into_iter().chain(second)).await), SOME + MANY);
    for answer in join_all(accepted).await {
        assert_eq!(answer.unwrap_err().code, Code::WorkerNotFound);
    }
}

#[tokio::test]
async fn work_that_a_poller_was_woken_for_goes_to_another_one_if_it_has_gone() {
    let scene = Scene::on(false).await;
    let service = &scene.server.service;
    let poll = || -> BoxFuture<'_, _> { Box::pin(service.poll(TENANT, tasks("work"), LONG)) };
    let mut polls: Vec<_> = (0..5).map(|_| poll()).collect();
    for poll in &mut polls {
        assert!(futures::poll!(poll).is_pending());
    }
    until("all wait", || scene.server.pollers() == 5).await;
    scene.server.must(PauseQueue { queue: QUEUE.into() }).await;
    scene.server.must(CreateTask::standalone(task("work"))).await;
    // This returns just before the woken pollers, which are the first ones, are in a batch.
    scene.server.must(ResumeQueue { queue: QUEUE.into() }).await;
    assert!(scene.server.pollers() > 0, "not all are woken");
    let last = polls.pop().unwrap();
    drop(polls);
    assert_eq!(last.await.unwrap().tasks.len(), 1);
}
