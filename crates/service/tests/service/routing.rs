//! Work goes to workers that can run it: by kind, by version, by queue, and preferably to the worker that has run it
//! before.

use std::collections::BTreeSet;

use flovyn_engine::Reply;
use flovyn_engine::request::*;
use flovyn_engine::state::*;

use crate::common::{
    Place, QUEUE, Server, TENANT, answered, capability, child, complete, finish, id, kind, many, of_session,
    on_each_store, on_postgres, register, schedule_task, signal, submit, suspend, task, tasks, workflow,
    workflows,
};

async fn two_workers_with_other_kinds_never_get_each_others_work(place: Place) {
    let servers = place.servers(2).await;
    const EACH: usize = 20;
    for _ in 0..EACH {
        servers[0].create_task(task("charge")).await;
        servers[1].create_task(task("mail")).await;
        servers[0].start("order").await;
        servers[1].start("invoice").await;
    }
    for _ in 0..EACH {
        for server in &servers {
            for (claim, wanted) in [(tasks("charge"), "charge"), (tasks("mail"), "mail")] {
                for delivery in server.claim(many(claim, 3)).await.tasks {
                    assert_eq!(&*delivery.task.task_type, wanted);
                    server.must(complete(&delivery)).await;
                }
            }
            for (claim, wanted) in [(workflows("order"), "order"), (workflows("invoice"), "invoice")] {
                for activation in server.claim(many(claim, 3)).await.workflows {
                    assert_eq!(&*activation.execution.kind, wanted);
                    server.must(finish(&activation)).await;
                }
            }
        }
    }
    let snapshot = servers[0].check().await;
    assert!(snapshot.tasks.iter().all(|row| row.status == TaskStatus::Completed));
    assert!(snapshot.executions.iter().all(|row| row.status == ExecutionStatus::Completed));
}

async fn parked_workers_with_other_kinds_never_get_each_others_work(place: Place) {
    let server = place.server().await;
    let charge = server.poll(many(tasks("charge"), 10)).await;
    let mail = server.poll(many(tasks("mail"), 10)).await;
    let order = server.poll(many(workflows("order"), 10)).await;
    // Work in another queue, and a workflow whose name is a task type.
    let mut elsewhere = task("charge");
    elsewhere.queue = Some("elsewhere".into());
    server.create_task(elsewhere).await;
    server.start("mail").await;
    assert_eq!(server.pollers(), 3, "a poller was woken for work that it cannot run");
    server.create_task(task("mail")).await;
    let claimed = answered(mail).await;
    assert_eq!(claimed.tasks.len(), 1);
    assert_eq!(&*claimed.tasks[0].task.task_type, "mail");
    assert_eq!(server.pollers(), 2);
    server.create_task(task("charge")).await;
    assert_eq!(&*answered(charge).await.tasks[0].task.queue, QUEUE);
    server.start("order").await;
    assert_eq!(answered(order).await.workflows.len(), 1);
}

fn versioned(kind_name: &str, versions: &[&str]) -> Claim {
    let versions = versions.iter().map(|version| (*version).into()).collect();
    Claim { kinds: vec![ClaimKind { versions, ..kind(kind_name) }], ..many(workflows(kind_name), 10) }
}

async fn claimed_versions(server: &Server, claim: Claim) -> BTreeSet<Option<String>> {
    let claimed = server.claim(claim).await;
    claimed.workflows.iter().map(|item| item.execution.workflow_version.as_deref().map(Into::into)).collect()
}

async fn work_that_asks_for_a_version_goes_only_to_workers_that_have_it(place: Place) {
    let server = place.server().await;
    for version in [None, Some("1.0"), Some("2.0")] {
        let workflow_version = version.map(Into::into);
        server.start_as(StartWorkflow { workflow_version, ..workflow("order") }).await;
    }
    let version = |version: &str| Some(version.to_owned());
    assert_eq!(claimed_versions(&server, versioned("order", &["3.0"])).await, BTreeSet::from([None]));
    assert_eq!(claimed_versions(&server, versioned("order", &[])).await, BTreeSet::new());
    let both = claimed_versions(&server, versioned("order", &["1.0", "2.0"])).await;
    assert_eq!(both, BTreeSet::from([version("1.0"), version("2.0")]));
    // Parked pollers also follow this rule.
    let other = server.poll(versioned("order", &["1.0"])).await;
    let right = server.poll(versioned("order", &["2.0"])).await;
    server.start_as(StartWorkflow { workflow_version: Some("2.0".into()), ..workflow("order") }).await;
    assert_eq!(answered(right).await.len(), 1);
    assert!(!other.is_finished());
}

async fn a_worker_with_many_versions_gets_work_of_each(place: Place) {
    let server = place.server().await;
    let names: Vec<String> = (0..40).map(|number| format!("1.{number}")).collect();
    for name in &names {
        let workflow_version = Some(name.as_str().into());
        server.start_as(StartWorkflow { workflow_version, ..workflow("order") }).await;
    }
    let versions: Vec<&str> = names.iter().map(String::as_str).collect();
    let claimed = server.claim(many(versioned("order", &versions), 100)).await;
    assert_eq!(claimed.len(), names.len());
}

async fn a_child_without_queue_goes_to_its_parents_and_one_on_default_goes_to_default(place: Place) {
    let server = place.server().await;
    let on_default = ScheduleChild { queue: Some("default".into()), ..child(id(2), "child") };
    let elsewhere = ScheduleChild { queue: Some("elsewhere".into()), ..child(id(3), "child") };
    let mut spec = TaskSpec::new("work", crate::common::json("1"));
    spec.queue = Some("default".into());
    let commands = vec![
        Command::ScheduleChild(child(id(1), "child")),
        Command::ScheduleChild(on_default),
        Command::ScheduleChild(elsewhere),
        schedule_task(id(4), "work"),
        Command::ScheduleTask { task_id: id(5), spec },
    ];
    server.suspended("parent", commands).await;
    for (number, queue) in [(1, QUEUE), (2, "default"), (3, "elsewhere")] {
        assert_eq!(&*server.execution(id(number)).await.queue, queue);
        let claim = Claim { queue: queue.into(), ..many(workflows("child"), 10) };
        let claimed = server.claim(claim).await;
        let ids: Vec<_> = claimed.workflows.iter().map(|item| item.execution.id).collect();
        assert_eq!(ids, [id(number)]);
    }
    for (number, queue) in [(4, QUEUE), (5, "default")] {
        let claim = Claim { queue: queue.into(), ..many(tasks("work"), 10) };
        let ids: Vec<_> = server.claim(claim).await.tasks.iter().map(|item| item.task.id).collect();
        assert_eq!(ids, [id(number)]);
    }
    // A standalone task without a queue.
    let task_id = server.create_task(TaskSpec::new("work", crate::common::json("1"))).await;
    assert_eq!(&*server.task(task_id).await.queue, "default");
}

async fn capabilities(server: &Server) -> BTreeSet<(WorkClass, String)> {
    let workers = server.store().worker_list(TENANT).await.unwrap();
    assert_eq!(workers.len(), 1, "one worker, one row");
    workers[0].1.iter().map(|row| (row.class, row.kind.to_string())).collect()
}

async fn the_two_halves_of_a_worker_do_not_clear_each_other(place: Place) {
    let servers = place.servers(2).await;
    let (workflow, task) = (WorkClass::Workflow, WorkClass::Task);
    let expected = |all: &[(WorkClass, &str)]| {
        all.iter().map(|(class, kind)| (*class, (*kind).to_owned())).collect::<BTreeSet<_>>()
    };
    let half = |class, kinds: &[&str]| {
        register("w", false, kinds.iter().map(|kind| capability(class, kind, Some("1.0"))).collect())
    };
    servers[0].must(half(workflow, &["order", "invoice"])).await;
    servers[1].must(half(task, &["mail"])).await;
    let both = expected(&[(workflow, "order"), (workflow, "invoice"), (task, "mail")]);
    assert_eq!(capabilities(&servers[0]).await, both);
    // Registered again: there is no duplicate, and nothing is lost.
    servers[0].must(half(workflow, &["order", "invoice"])).await;
    assert_eq!(capabilities(&servers[1]).await, both);
    // A registration with other kinds replaces only its own class.
    servers[1].must(half(workflow, &["order", "report"])).await;
    let replaced = expected(&[(workflow, "order"), (workflow, "report"), (task, "mail")]);
    assert_eq!(capabilities(&servers[0]).await, replaced);
    servers[0].must(half(task, &["resize"])).await;
    let replaced = expected(&[(workflow, "order"), (workflow, "report"), (task, "resize")]);
    assert_eq!(capabilities(&servers[1]).await, replaced);
    // A registration without any kind changes neither class.
    servers[0].must(register("w", false, Vec::new())).await;
    assert_eq!(capabilities(&servers[0]).await, replaced);
}

async fn the_same_kind_without_version_is_one_capability(place: Place) {
    let server = place.server().await;
    for _ in 0..3 {
        server.must(register("w", false, vec![capability(WorkClass::Task, "mail", None)])).await;
    }
    assert_eq!(server.snapshot().await.capabilities.len(), 1);
}

async fn a_workflow_goes_back_to_the_session_that_ran_it_last_while_that_one_waits(place: Place) {
    let server = place.server().await;
    let mut sessions = Vec::new();
    for name in ["a", "b"] {
        match server.must(register(name, true, Vec::new())).await {
            Reply::Registered { worker_id } => sessions.push(worker_id),
            other => panic!("{other:?}"),
        }
    }
    let execution_id = server.start("order").await;
    let activation = server.claim(of_session(workflows("order"), sessions[1])).await.workflows.remove(0);
    server.must(suspend(&activation)).await;
    let stranger = server.poll(of_session(workflows("order"), sessions[0])).await;
    let friend = server.poll(of_session(workflows("order"), sessions[1])).await;
    server.must(signal(execution_id)).await;
    let activation = answered(friend).await.workflows.remove(0);
    assert_eq!(activation.execution.id, execution_id);
    // The preferred session is busy now, so any session may take the work.
    server.must(signal(execution_id)).await;
    server.must(submit(&activation, Vec::new(), Outcome::Suspended)).await;
    assert_eq!(answered(stranger).await.workflows[0].execution.id, execution_id);
}

on_each_store!(
    two_workers_with_other_kinds_never_get_each_others_work,
    parked_workers_with_other_kinds_never_get_each_others_work,
    work_that_asks_for_a_version_goes_only_to_workers_that_have_it,
    a_worker_with_many_versions_gets_work_of_each,
    a_child_without_queue_goes_to_its_parents_and_one_on_default_goes_to_default,
    the_two_halves_of_a_worker_do_not_clear_each_other,
    the_same_kind_without_version_is_one_capability,
    a_workflow_goes_back_to_the_session_that_ran_it_last_while_that_one_waits,
);
on_postgres!(
    two_workers_with_other_kinds_never_get_each_others_work,
    the_two_halves_of_a_worker_do_not_clear_each_other,
    the_same_kind_without_version_is_one_capability,
);
