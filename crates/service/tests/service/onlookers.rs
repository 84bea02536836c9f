//! An onlooker is notified of ready work that no poller takes, and takes none.

use std::time::Duration;

use flovyn_engine::state::Lane;

use crate::common::{Place, on_each_store, on_postgres, task, tasks};

const SOON: Duration = Duration::from_secs(20);

fn lanes(kind: &str) -> Vec<Lane> {
    tasks(kind).lanes(crate::common::TENANT)
}

async fn one_onlooker_is_told_of_work_that_nobody_takes(place: Place) {
    let server = place.server().await;
    assert!(!server.has_work(lanes("work")).await.unwrap());
    let other = server.look_on(lanes("other"));
    let (first, second) = (server.look_on(lanes("work")), server.look_on(lanes("work")));
    let task_id = server.create_task(task("work")).await;
    tokio::time::timeout(SOON, first.sees_work()).await.expect("it is notified");
    assert!(server.has_work(lanes("work")).await.unwrap());
    // As many are notified as there is work, and only for their own lanes.
    for untold in [&second, &other] {
        assert!(tokio::time::timeout(Duration::ZERO, untold.sees_work()).await.is_err());
    }
    assert_eq!(server.task(task_id).await.execution_count, 0);
    drop(first);
    server.create_task(task("work")).await;
    tokio::time::timeout(SOON, second.sees_work()).await.expect("it is notified of the next task");
}

async fn a_poller_comes_before_an_onlooker(place: Place) {
    let server = place.server().await;
    let onlooker = server.look_on(lanes("work"));
    let poll = server.poll(tasks("work")).await;
    server.create_task(task("work")).await;
    assert_eq!(poll.await.unwrap().unwrap().tasks.len(), 1);
    assert!(tokio::time::timeout(Duration::ZERO, onlooker.sees_work()).await.is_err());
}

/// A claim that a batch has at that time is kept, not dropped.
async fn a_poll_that_is_cut_ends_at_once(place: Place) {
    let server = place.server().await;
    let cut = std::future::ready(());
    let poll = server.poll_until(crate::common::TENANT, tasks("work"), 100 * SOON, cut);
    assert!(tokio::time::timeout(SOON, poll).await.expect("it ends").unwrap().is_empty());
    let task_id = server.create_task(task("work")).await;
    let poll = server.poll_until(crate::common::TENANT, tasks("work"), SOON, std::future::ready(()));
    assert_eq!(poll.await.unwrap().tasks[0].task.id, task_id);
}

on_each_store!(
    one_onlooker_is_told_of_work_that_nobody_takes,
    a_poller_comes_before_an_onlooker,
    a_poll_that_is_cut_ends_at_once,
);
on_postgres!(one_onlooker_is_told_of_work_that_nobody_takes, a_poll_that_is_cut_ends_at_once);
