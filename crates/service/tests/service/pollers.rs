//! Waiting pollers: as many are woken as there is work, and work that could not be delivered is released.

use std::time::Duration;

use flovyn_engine::Refusal;
use flovyn_engine::reply::Claimed;
use flovyn_engine::request::*;
use flovyn_engine::state::*;
use flovyn_service::loops::{self, WakeLoop};
use tokio::task::JoinHandle;

use crate::common::{
    Faulty, LONG, Place, QUEUE, Server, TENANT, answered, complete, finish, id, many, on_each_store,
    on_postgres, schedule_task, signal, submit, task, tasks, terminate, until, workflow, workflows,
};

/// More than the number of steps that follow from any single request here.
const BARRIERS: usize = 6;

type Poll = JoinHandle<Result<Claimed, Refusal>>;

async fn parked(server: &Server, count: usize, claim: &Claim) -> Vec<Poll> {
    let mut polls = Vec::new();
    for _ in 0..count {
        let (service, claim) = (server.service.clone(), claim.clone());
        polls.push(tokio::spawn(async move { service.poll(TENANT, claim, LONG).await }));
    }
    until("all pollers are parked", || server.pollers() == count).await;
    polls
}

/// The answers to the polls that no longer wait, and the polls that still wait.
async fn served(server: &Server, polls: Vec<Poll>) -> (Vec<Claimed>, Vec<Poll>) {
    // These requests are answered one after the other, so all consequences of earlier requests are finished after
    // them.
    for _ in 0..BARRIERS {
        server.claim(tasks("nothing")).await;
    }
    let gone = polls.len() - server.pollers();
    until("all answers have arrived", || polls.iter().filter(|poll| poll.is_finished()).count() == gone)
        .await;
    let (finished, waiting): (Vec<Poll>, Vec<Poll>) = polls.into_iter().partition(|poll| poll.is_finished());
    let mut claimed = Vec::new();
    for poll in finished {
        claimed.push(answered(poll).await);
    }
    (claimed, waiting)
}

async fn three_items_wake_three_of_a_hundred_pollers(place: Place) {
    let server = place.server().await;
    let polls = parked(&server, 100, &tasks("work")).await;
    let before = server.stats().figures();
    server.must(CreateTasks { items: vec![CreateTask::standalone(task("work")); 3] }).await;
    let (claimed, waiting) = served(&server, polls).await;
    let sizes: Vec<usize> = claimed.iter().map(Claimed::len).collect();
    assert_eq!(sizes, [1, 1, 1]);
    assert_eq!((waiting.len(), server.pollers()), (97, 97), "the others stay parked");
    let after = server.stats().figures();
    assert_eq!(after.commits - before.commits, 1, "made and handed out in one transaction");
    // One request for the work, three for the pollers, and the barriers: no other poller was sent to search.
    assert_eq!(after.requests - before.requests, 1 + 3 + BARRIERS as u64);
    server.check().await;
}

async fn a_step_of_a_workflow_with_its_worker_waiting_costs_one_commit(place: Place) {
    let server = place.server().await;
    let workflows_wait = || server.poll(workflows("order"));
    let poll = workflows_wait().await;
    let commits = || server.stats().figures().commits;
    let mut before = commits();
    server.start("order").await;
    let activation = answered(poll).await.workflows.remove(0);
    assert_eq!(commits() - before, 1, "start and claim");
    let new_events = activation.new_events.as_ref().expect("the events come from the batch that wrote them");
    assert_eq!(new_events.len(), 1);

    let task_poll = server.poll(tasks("work")).await;
    before = commits();
    server
        .must(submit(&activation, vec![schedule_task(crate::common::id(1), "work")], Outcome::Suspended))
        .await;
    let delivery = answered(task_poll).await.tasks.remove(0);
    assert_eq!(commits() - before, 1, "schedule and claim");

    let poll = workflows_wait().await;
    before = commits();
    server.must(complete(&delivery)).await;
    let activation = answered(poll).await.workflows.remove(0);
    assert_eq!(commits() - before, 1, "completion and next activation");
    let new_events = activation.new_events.as_ref().expect("the events are still in memory");
    let kinds: Vec<EventKind> = new_events.iter().map(|(event, _)| event.kind).collect();
    assert_eq!(kinds, [EventKind::TaskScheduled, EventKind::TaskCompleted]);
    let output = new_events[1].1.as_ref().and_then(|task| task.output.as_deref());
    assert_eq!(output, Some(&b"1"[..]), "with the payload that is not in the event");
    server.must(finish(&activation)).await;
    server.check().await;
}

async fn whoever_waited_longest_is_served_first(place: Place) {
    let server = place.server().await;
    let first = server.poll(tasks("work")).await;
    let second = server.poll(tasks("work")).await;
    server.create_task(task("work")).await;
    assert_eq!(answered(first).await.len(), 1);
    assert!(!second.is_finished());
    server.create_task(task("work")).await;
    assert_eq!(answered(second).await.len(), 1);
}

async fn a_poller_that_has_gone_is_passed_over(place: Place) {
    let server = place.server().await;
    let gone = server.poll(tasks("work")).await;
    let stays = server.poll(tasks("work")).await;
    gone.abort();
    assert!(gone.await.unwrap_err().is_cancelled());
    server.create_task(task("work")).await;
    let claimed = answered(stays).await;
    assert_eq!(claimed.tasks[0].task.execution_count, 1);
    assert_eq!(server.stats().figures().given_back, 0);
}

/// Asserts that no worker has the work: it is enqueued again, and the attempt does not count.
async fn assert_given_back(server: &Server, task_id: uuid::Uuid, execution_id: uuid::Uuid) {
    until("it is released", || server.stats().figures().given_back == 2).await;
    // This request is answered after the release.
    server.claim(tasks("nothing")).await;
    let task = server.task(task_id).await;
    assert_eq!((task.status, task.execution_count), (TaskStatus::Pending, 0));
    assert_eq!(server.status(execution_id).await, ExecutionStatus::Pending);
    server.check().await;
    // The task has one attempt, which is still left.
    let delivery = server.claim_task("work").await;
    assert_eq!(delivery.task.execution_count, 1);
    server.must(complete(&delivery)).await;
    server.must(finish(&server.claim_workflow("order").await)).await;
    assert_eq!(server.attempts(task_id).await, [AttemptStatus::Completed]);
    server.check().await;
}

async fn work_claimed_for_pollers_that_go_during_the_commit_is_given_back(place: Place) {
    let store = Faulty::new(place.store().await);
    let server = place.server_on(store.clone(), Default::default());
    let task_id = server.create_task(TaskSpec { max_retries: Some(1), ..task("work") }).await;
    let execution_id = server.start("order").await;
    for claim in [tasks("work"), workflows("order")] {
        store.hold();
        let mut poll = Box::pin(server.service.poll(TENANT, claim, LONG));
        assert!(futures::poll!(&mut poll).is_pending());
        until("the claim is about to be written", || store.waiting() == 1).await;
        drop(poll);
        store.release();
        // This request is answered after the release.
        server.claim(tasks("nothing")).await;
    }
    assert_given_back(&server, task_id, execution_id).await;
}

async fn work_handed_to_pollers_that_go_before_they_look_is_given_back(place: Place) {
    let server = place.server().await;
    let mut for_task = Box::pin(server.service.poll(TENANT, tasks("work"), LONG));
    let mut for_workflow = Box::pin(server.service.poll(TENANT, workflows("order"), LONG));
    assert!(futures::poll!(&mut for_task).is_pending());
    assert!(futures::poll!(&mut for_workflow).is_pending());
    until("both are parked", || server.pollers() == 2).await;
    let task_id = server.create_task(TaskSpec { max_retries: Some(1), ..task("work") }).await;
    let execution_id = server.start("order").await;
    // Both have been handed over, and neither caller has received its work yet.
    server.claim(tasks("nothing")).await;
    assert_eq!(server.task(task_id).await.status, TaskStatus::Running);
    assert_eq!(server.status(execution_id).await, ExecutionStatus::Running);
    drop((for_task, for_workflow));
    assert_given_back(&server, task_id, execution_id).await;
}

async fn a_paused_queue_keeps_its_pollers_and_wakes_as_many_as_there_is_work_when_resumed(place: Place) {
    let server = place.server().await;
    server.must(PauseQueue { queue: QUEUE.into() }).await;
    let polls = parked(&server, 5, &tasks("work")).await;
    server.must(CreateTasks { items: vec![CreateTask::standalone(task("work")); 3] }).await;
    let (claimed, polls) = served(&server, polls).await;
    assert!(claimed.is_empty(), "work of a paused queue was handed out");
    assert_eq!(server.pollers(), 5);
    server.must(ResumeQueue { queue: QUEUE.into() }).await;
    let (claimed, waiting) = served(&server, polls).await;
    assert_eq!(claimed.len(), 3, "as many as there is work");
    assert_eq!((waiting.len(), server.pollers()), (2, 2));
    server.check().await;
}

async fn work_that_another_process_made_ready_finds_the_pollers_of_this_one(place: Place) {
    let servers = place.servers(2).await;
    let (here, there) = (&servers[0], &servers[1]);
    let polls = parked(here, 5, &tasks("work")).await;
    there.must(CreateTasks { items: vec![CreateTask::standalone(task("work")); 3] }).await;
    let wake = WakeLoop::new(here.service.clone(), &loops::Options::default());
    while wake.tick().await.unwrap() > 0 {
        // Every poller that was sent to search is answered or parked again.
        here.claim(tasks("nothing")).await;
    }
    let (claimed, waiting) = served(here, polls).await;
    assert_eq!(claimed.iter().map(Claimed::len).sum::<usize>(), 3);
    assert_eq!((waiting.len(), here.pollers()), (2, 2));
    here.check().await;
}

/// If many requests wait, the next batch is decided before the last one is answered. Then a poller that found nothing
/// in the last batch is parked only when that batch is answered.
async fn what_is_made_ready_before_a_poller_begins_to_wait_is_brought_to_it(place: Place) {
    let store = Faulty::new(place.store().await);
    let server = place.server_on(store.clone(), Default::default());
    store.hold();
    let mut poll = Box::pin(server.service.poll(TENANT, tasks("work"), LONG));
    assert!(futures::poll!(&mut poll).is_pending());
    until("the claim is about to be decided", || store.waiting() == 1).await;
    let create = || CreateTasks { items: vec![CreateTask::standalone(task("work"))] };
    let mut calls: Vec<_> = (0..100).map(|_| Box::pin(server.call(TENANT, create()))).collect();
    for call in &mut calls {
        assert!(futures::poll!(call).is_pending());
    }
    store.release();
    for answer in futures::future::join_all(calls).await {
        answer.unwrap();
    }
    // This request is answered after everything that is done for the poller.
    server.claim(tasks("nothing")).await;
    match futures::poll!(&mut poll) {
        std::task::Poll::Ready(claimed) => assert_eq!(claimed.unwrap().len(), 1),
        std::task::Poll::Pending => panic!("it waits although a hundred tasks are ready"),
    }
    server.check().await;
}

async fn a_server_that_stops_ends_the_polls_and_finishes_what_it_accepted(place: Place) {
    let store = Faulty::new(place.store().await);
    let server = place.server_on(store.clone(), Default::default());
    let polls = parked(&server, 3, &tasks("work")).await;
    store.hold();
    let mut accepted: Vec<_> = (0..20).map(|_| Box::pin(server.call(TENANT, workflow("order")))).collect();
    for call in &mut accepted {
        assert!(futures::poll!(call).is_pending());
    }
    let stopping = server.clone();
    let stopped = tokio::spawn(async move { stopping.stop().await });
    let code = loop {
        // Requests are refused as soon as the stop begins, although the accepted ones are not written yet.
        match futures::poll!(Box::pin(server.ask(SignalWorkflow { name: "".into(), ..signal(TENANT) }))) {
            std::task::Poll::Ready(answer) => break answer.unwrap_err().code,
            std::task::Poll::Pending => tokio::task::yield_now().await,
        }
    };
    assert_eq!(code, flovyn_engine::Code::ShuttingDown);
    store.release();
    for answer in futures::future::join_all(accepted).await {
        answer.unwrap();
    }
    stopped.await.unwrap();
    for poll in polls {
        assert!(answered(poll).await.is_empty());
    }
    assert_eq!(server.check().await.executions.len(), 20);
}

async fn a_poller_takes_no_more_than_it_asked_for(place: Place) {
    let server = place.server().await;
    let small = server.poll(many(tasks("work"), 2)).await;
    let large = server.poll(many(tasks("work"), 10)).await;
    server.must(CreateTasks { items: vec![CreateTask::standalone(task("work")); 7] }).await;
    assert_eq!(answered(small).await.len(), 2);
    assert_eq!(answered(large).await.len(), 5);
    server.check().await;
}

/// The follow-up that closes the tasks of a finished workflow has not run yet: the claim finds only these tasks at
/// first.
async fn tasks_of_a_finished_workflow_do_not_hide_what_stands_behind_them(place: Place) {
    let server = place.server().await;
    let tasks_of_it = (0..20).map(|number| schedule_task(id(500 + number), "work")).collect();
    let execution_id = server.suspended("order", tasks_of_it).await;
    let behind = server.create_task(TaskSpec { priority_seconds: 60, ..task("work") }).await;
    server.must(terminate(execution_id)).await;
    let claimed = answered(server.poll(many(tasks("work"), 1)).await).await;
    assert_eq!(claimed.tasks.iter().map(|delivery| delivery.task.id).collect::<Vec<_>>(), [behind]);
    server.check().await;
}

on_each_store!(
    tasks_of_a_finished_workflow_do_not_hide_what_stands_behind_them,
    three_items_wake_three_of_a_hundred_pollers,
    a_step_of_a_workflow_with_its_worker_waiting_costs_one_commit,
    whoever_waited_longest_is_served_first,
    a_poller_that_has_gone_is_passed_over,
    work_claimed_for_pollers_that_go_during_the_commit_is_given_back,
    work_handed_to_pollers_that_go_before_they_look_is_given_back,
    a_paused_queue_keeps_its_pollers_and_wakes_as_many_as_there_is_work_when_resumed,
    work_that_another_process_made_ready_finds_the_pollers_of_this_one,
    what_is_made_ready_before_a_poller_begins_to_wait_is_brought_to_it,
    a_server_that_stops_ends_the_polls_and_finishes_what_it_accepted,
    a_poller_takes_no_more_than_it_asked_for,
);
on_postgres!(work_that_another_process_made_ready_finds_the_pollers_of_this_one);

/// The poll only waits until it is known whether there is work. Time moves only in the steps of this test.
#[tokio::test(start_paused = true)]
async fn a_poll_that_may_not_wait_gets_what_is_ready() {
    let place = Place::memory().await;
    let store = Faulty::new(place.store().await);
    let server = place.server_on(store.clone(), Default::default());
    let task_id = server.create_task(task("work")).await;
    store.hold();
    let service = server.service.clone();
    let poll = tokio::spawn(async move { service.poll(TENANT, tasks("work"), Duration::ZERO).await });
    until("the claim is about to be written", || store.waiting() == 1 || poll.is_finished()).await;
    tokio::time::advance(Duration::from_secs(1)).await;
    store.release();
    assert_eq!(answered(poll).await.len(), 1);
    assert_eq!(server.task(task_id).await.execution_count, 1);
}
