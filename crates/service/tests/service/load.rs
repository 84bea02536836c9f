//! Many concurrent clients and workers on one database, with one server and with two: everything happens exactly once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use flovyn_engine::Reply;
use flovyn_engine::reply::{Activation, TaskDelivery};
use flovyn_engine::request::Outcome;
use flovyn_engine::state::*;
use flovyn_service::{Options, Service, SideBySideFrom, loops};
use futures::future::join_all;

use crate::common::{
    Place, TENANT, complete, finish, keyed, many, on_each_store, on_postgres, schedule_task, submit, tasks,
    workflows,
};

const CLIENTS: usize = 64;
const WORKERS: usize = 4;
/// A worker polls again after this time. The result does not depend on it.
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// The number of workflows. The environment variable selects the long form.
fn volume(short: usize, long: usize) -> usize {
    if std::env::var("FLOVYN_LONG").is_ok_and(|value| value == "1") { long } else { short }
}

#[derive(Default)]
struct Tally {
    to_start: AtomicUsize,
    tasks_accepted: AtomicUsize,
    finished: AtomicUsize,
    all: usize,
}

impl Tally {
    fn is_done(&self) -> bool {
        self.finished.load(Ordering::SeqCst) >= self.all
    }
}

async fn client(service: Service, tally: Arc<Tally>) {
    loop {
        let number = tally.to_start.fetch_add(1, Ordering::SeqCst);
        if number >= tally.all {
            return;
        }
        let reply = service.call(TENANT, keyed("order", &format!("order-{number}"))).await.unwrap();
        assert!(matches!(reply, Reply::Started(started) if started.key_new));
    }
}

async fn activate(service: &Service, tally: &Tally, activation: &Activation) {
    let id = activation.execution.id;
    if activation.execution.base_sequence == 0 {
        let task_id = uuid::Uuid::from_u128(id.as_u128() ^ 1);
        let commands = vec![schedule_task(task_id, "work")];
        service.call(TENANT, submit(activation, commands, Outcome::Suspended)).await.unwrap();
    } else {
        service.call(TENANT, finish(activation)).await.unwrap();
        tally.finished.fetch_add(1, Ordering::SeqCst);
    }
}

async fn run_task(service: &Service, tally: &Tally, delivery: &TaskDelivery) {
    match service.call(TENANT, complete(delivery)).await.unwrap() {
        Reply::TaskReported { repeated: false, .. } => tally.tasks_accepted.fetch_add(1, Ordering::SeqCst),
        other => panic!("{other:?}"),
    };
}

async fn workflow_worker(service: Service, tally: Arc<Tally>) {
    while !tally.is_done() {
        let claimed = service.poll(TENANT, many(workflows("order"), 8), ASK_AGAIN).await.unwrap();
        join_all(claimed.workflows.iter().map(|activation| activate(&service, &tally, activation))).await;
    }
}

async fn task_worker(service: Service, tally: Arc<Tally>) {
    while !tally.is_done() {
        let claimed = service.poll(TENANT, many(tasks("work"), 8), ASK_AGAIN).await.unwrap();
        join_all(claimed.tasks.iter().map(|delivery| run_task(&service, &tally, delivery))).await;
    }
}

async fn every_task_of_many_workflows_is_accepted_once(place: Place, servers: usize, all: usize) {
    let tally = Arc::new(Tally { all, ..Tally::default() });
    let mut running = Vec::new();
    let mut services = Vec::new();
    for _ in 0..servers {
        // The loops run, as in production.
        let loops = loops::Options { poll: Duration::from_millis(100), ..loops::Options::default() };
        // Lets two batches run at once, where the store can do that, with fewer waiting requests than by default.
        let side_by_side = SideBySideFrom { second_requests: 16, ..SideBySideFrom::default() };
        let options = Options { loops, side_by_side, ..Options::default() };
        let service = Service::start(place.store().await, options);
        for _ in 0..CLIENTS {
            running.push(tokio::spawn(client(service.clone(), tally.clone())));
        }
        for _ in 0..WORKERS {
            running.push(tokio::spawn(workflow_worker(service.clone(), tally.clone())));
            running.push(tokio::spawn(task_worker(service.clone(), tally.clone())));
        }
        services.push(service);
    }
    for task in running {
        task.await.unwrap();
    }
    // If the database is in this process, a second batch needs more requests than there are clients.
    let at_once = place.store().await.is_shared();
    let seconds: u64 = services.iter().map(|service| service.stats().figures().second_batches).sum();
    assert_eq!(seconds > 0, at_once, "two batches at once: {seconds}");
    for service in services {
        service.stop().await;
    }
    assert_eq!(tally.tasks_accepted.load(Ordering::SeqCst), all);
    assert_eq!(tally.finished.load(Ordering::SeqCst), all);
    let snapshot = place.server().await.check().await;
    assert_eq!(snapshot.executions.len(), all);
    assert!(snapshot.executions.iter().all(|row| row.status == ExecutionStatus::Completed));
    assert!(
        snapshot.executions.iter().all(|row| row.last_sequence == 4),
        "started, scheduled, completed, ended"
    );
    assert!(snapshot.tasks.iter().all(|row| row.execution_count == 1), "a task was handed out twice");
    assert!(snapshot.ready.is_empty() && snapshot.due.is_empty());
}

async fn every_task_of_many_workflows_is_accepted_once_by_one_server(place: Place) {
    every_task_of_many_workflows_is_accepted_once(place, 1, volume(200, 5_000)).await;
}

async fn every_task_of_many_workflows_is_accepted_once_by_two_servers(place: Place) {
    every_task_of_many_workflows_is_accepted_once(place, 2, volume(600, 5_000)).await;
}

on_each_store!(every_task_of_many_workflows_is_accepted_once_by_one_server);
on_postgres!(every_task_of_many_workflows_is_accepted_once_by_two_servers);
