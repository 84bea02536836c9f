//! The background loops as they run in a server: woken by events, not only by their own interval.

use std::time::Duration;

use flovyn_engine::request::*;
use flovyn_engine::state::*;
use flovyn_engine::{Code, Limits};
use flovyn_service::loops;

use crate::common::{
    Faulty, Place, Server, TENANT, answered, id, on_each_store, on_postgres, schedule_task, start_timer,
    task, tasks, until, until_async,
};

/// Intervals so long that no loop runs by itself during a test.
fn asleep() -> loops::Options {
    let long = Duration::from_secs(100_000);
    loops::Options {
        poll: long,
        key_cleanup: long,
        retention: long,
        batch_cleanup: long,
        ..loops::Options::default()
    }
}

async fn fired(server: &Server, id: uuid::Uuid) -> usize {
    server.count(id, EventKind::TimerFired).await
}

async fn a_timer_that_is_due_before_what_the_loop_sleeps_for_fires_at_once(place: Place) {
    let server = place.server_with_loops(asleep(), true).await;
    let far = server.suspended("order", vec![start_timer("far", 3_600_000)]).await;
    let near = server.suspended("order", vec![start_timer("near", 0)]).await;
    until_async("the timer fires", async || fired(&server, near).await == 1).await;
    assert_eq!(fired(&server, far).await, 0);
    server.stop().await;
    server.check().await;
}

async fn a_loop_looks_again_when_the_clock_is_moved(place: Place) {
    let server = place.server_with_loops(asleep(), true).await;
    let id = server.suspended("order", vec![start_timer("far", 3_600_000)]).await;
    server.move_clock(3_600_000);
    server.clock_moved();
    until_async("the timer fires", async || fired(&server, id).await == 1).await;
    server.stop().await;
}

async fn what_comes_of_one_firing_is_worked_off_without_waiting(place: Place) {
    let server = place.server_with_loops(asleep(), true).await;
    let commands = (0..450).map(|number| schedule_task(id(number), "left")).collect();
    let execution_id = server.suspended("order", commands).await;
    server.must(crate::common::terminate(execution_id)).await;
    until_async("the follow-ups are through", async || {
        // Each page becomes due one millisecond after the last one.
        server.move_clock(1);
        server.clock_moved();
        !server.snapshot().await.due.iter().any(|row| row.class.is_follow_up())
    })
    .await;
    server.stop().await;
    let snapshot = server.check().await;
    assert!(snapshot.tasks.iter().all(|row| row.status == TaskStatus::Cancelled));
}

async fn gathered_reports_are_written_by_the_loop(place: Place) {
    let options = loops::Options { reports: Duration::from_millis(1), ..asleep() };
    let server = place.server_with_loops(options, true).await;
    let task_id = server.create_task(task("work")).await;
    let token = Some(server.claim_task("work").await.token);
    server
        .report(TENANT, ReportProgress { task_id, token, progress: 0.25, details: Some("a quarter".into()) })
        .unwrap();
    until_async("the report is written", async || server.task(task_id).await.progress == 0.25).await;
    server.stop().await;
}

async fn more_reports_than_can_wait_are_dropped_and_counted(place: Place) {
    let server = place.server().await;
    let task_id = server.create_task(task("work")).await;
    for number in 0..10_003 {
        let message = format!("{number}").into();
        server
            .report(TENANT, AppendLogLine { task_id, token: None, level: LogLevel::Info, message })
            .unwrap();
    }
    assert_eq!(server.stats().figures().dropped_reports, 3);
}

async fn a_server_whose_queue_is_full_says_so_and_answers_all_it_accepted(place: Place) {
    let store = Faulty::new(place.store().await);
    let server = place.server_on(store.clone(), Limits::default());
    store.hold();
    let mut accepted = Vec::new();
    let refusal = loop {
        assert!(accepted.len() < 50_000, "the queue has no limit");
        let mut call = Box::pin(server.call(TENANT, HeartbeatWorker { worker_id: id(1) }));
        match futures::poll!(&mut call) {
            std::task::Poll::Pending => accepted.push(call),
            std::task::Poll::Ready(answer) => break answer.unwrap_err(),
        }
    };
    assert_eq!(refusal.code, Code::Overloaded);
    store.release();
    for answer in futures::future::join_all(accepted).await {
        assert_eq!(answer.unwrap_err().code, Code::WorkerNotFound);
    }
}

/// One server creates tasks until the parked poller of the other server receives one.
async fn served_by_another(place: &Place, options: loops::Options, hints: bool) {
    let here = place.server_with_loops(options.clone(), hints).await;
    let there = place.server_with_loops(options, hints).await;
    let poll = here.poll(tasks("work")).await;
    until_async("the poller is served", async || {
        // Repeated, because a task that was created before the other server listened causes no hint.
        there.create_task(task("work")).await;
        poll.is_finished()
    })
    .await;
    assert_eq!(answered(poll).await.len(), 1);
    here.stop().await;
    there.stop().await;
}

async fn a_hint_of_another_process_wakes_a_poller_long_before_it_would_look(place: Place) {
    served_by_another(&place, asleep(), true).await;
}

async fn without_hints_polling_alone_finds_the_work_of_another_process(place: Place) {
    let options = loops::Options { poll: Duration::from_millis(5), ..asleep() };
    served_by_another(&place, options, false).await;
}

async fn a_lease_that_ends_wakes_the_loop_and_the_next_poller(place: Place) {
    let server = place.server_with_loops(asleep(), true).await;
    let task_id = server.create_task(task("work")).await;
    server.claim_task("work").await;
    let poll = server.poll(tasks("work")).await;
    server.move_clock(server.limits().session_lease_ms);
    server.clock_moved();
    until("the second worker has it", || poll.is_finished()).await;
    assert_eq!(answered(poll).await.tasks[0].task.id, task_id);
    server.stop().await;
    server.check().await;
}

on_each_store!(
    a_timer_that_is_due_before_what_the_loop_sleeps_for_fires_at_once,
    a_loop_looks_again_when_the_clock_is_moved,
    what_comes_of_one_firing_is_worked_off_without_waiting,
    gathered_reports_are_written_by_the_loop,
    more_reports_than_can_wait_are_dropped_and_counted,
    a_server_whose_queue_is_full_says_so_and_answers_all_it_accepted,
    without_hints_polling_alone_finds_the_work_of_another_process,
    a_lease_that_ends_wakes_the_loop_and_the_next_poller,
);
on_postgres!(
    a_timer_that_is_due_before_what_the_loop_sleeps_for_fires_at_once,
    a_hint_of_another_process_wakes_a_poller_long_before_it_would_look,
    without_hints_polling_alone_finds_the_work_of_another_process,
);
