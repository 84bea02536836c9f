//! Requests that are well formed but not possible in the current state: each code is raised, and nothing changes.

use std::collections::BTreeSet;

use flovyn_engine::ids::Payload;
use flovyn_engine::reply::{Activation, TaskDelivery};
use flovyn_engine::request::*;
use flovyn_engine::state::*;
use flovyn_engine::{Code, Op};

use crate::world::{
    QUEUE, TENANT, World, complete, create_promise, done, id, json, schedule_child, schedule_task,
    start_timer, submit,
};

/// Raised by the service, the store or the edge, never by a rule.
const NOT_FROM_RULES: [Code; 19] = [
    Code::DatabaseDamaged,
    Code::KeysDiffer,
    Code::AmbiguousLength,
    Code::TooManyTries,
    Code::RequestTooSlow,
    Code::RateLimitExceeded,
    Code::InvalidPage,
    Code::HistoryTooLarge,
    Code::NotRegistered,
    Code::Unauthenticated,
    Code::PermissionDenied,
    Code::NotOffered,
    Code::CommitConflict,
    Code::Overloaded,
    Code::ShuttingDown,
    Code::StoreUnavailable,
    Code::StoreRefused,
    Code::OutcomeUnknown,
    Code::Internal,
];

/// Raised in the tests of bad input and of quotas.
const SHOWN_ELSEWHERE: [Code; 18] = [
    Code::InvalidValue,
    Code::MonthlyQuotaExceeded,
    Code::ConcurrentQuotaExceeded,
    Code::InvalidPayload,
    Code::InvalidText,
    Code::InvalidName,
    Code::InvalidId,
    Code::InvalidTtl,
    Code::InvalidDuration,
    Code::InvalidRetryPolicy,
    Code::InvalidBatch,
    Code::PayloadTooLarge,
    Code::TooManyLabels,
    Code::HistoryFull,
    Code::TooManySignals,
    Code::TooManyPendingTasks,
    Code::TooManyQueuesPaused,
    Code::TooManyStateKeys,
];

struct Scene {
    world: World,
    /// RUNNING.
    running: Activation,
    /// Its first activation scheduled a task, a timer, a child and a promise with the key `door`.
    waiting: uuid::Uuid,
    completed: uuid::Uuid,
    failed: uuid::Uuid,
    delivery: TaskDelivery,
    promise: uuid::Uuid,
}

impl Scene {
    fn new() -> Self {
        let mut world = World::new();
        world.must(CreateTenant {
            id: Some(TENANT),
            slug: "acme".into(),
            name: "Acme".into(),
            retention_ms: None,
        });
        let door = Some(KeySpec { name: "door".into(), ttl_ms: None });
        let commands = vec![
            schedule_task(1, "own"),
            start_timer("t", 60_000),
            Command::CreatePromise { name: "p".into(), timeout_ms: None, key: door },
            create_promise("closed", None),
            schedule_child(10, "child"),
        ];
        let waiting = world.suspended("waiting", commands);
        let promises = world.snapshot().promises;
        let (promise, closed) = (promises[0].id, promises[1].id);
        let answer = Answer::Resolve(json("1"));
        world.must(AnswerPromise { promise: PromiseRef::Id(closed), answer });
        let activation = world.claim_workflow("waiting");
        world.must(submit(&activation, Vec::new(), Outcome::Suspended));
        let completed = world.start("completed");
        let activation = world.claim_workflow("completed");
        world.must(submit(&activation, Vec::new(), done()));
        let failed = world.start("failed");
        world.must(TerminateWorkflow { execution_id: failed, reason: "stop".into() });
        world.start("running");
        let running = world.claim_workflow("running");
        world.create_task("job");
        let delivery = world.claim_task("job");
        Self { world, running, waiting, completed, failed, delivery, promise }
    }

    fn commands(&self, commands: Vec<Command>) -> Op {
        submit(&self.running, commands, Outcome::Suspended).into()
    }

    fn closed_promise(&self) -> uuid::Uuid {
        let closed = |row: &&Promise| row.status != PromiseStatus::Open;
        self.world.snapshot().promises.iter().find(closed).unwrap().id
    }

    fn cases(&self) -> Vec<(Code, Op)> {
        let (running, task_id) = (self.running.execution.id, self.delivery.task.id);
        let nobody = id(999);
        let resolve = |promise| AnswerPromise { promise, answer: Answer::Resolve(json("1")) };
        let with_base = |base| SubmitActivation {
            base_sequence: Some(base),
            ..submit(&self.running, Vec::new(), Outcome::Suspended)
        };
        let failed_with_commands = SubmitActivation {
            outcome: Outcome::ActivationFailed { code: "PANIC".into(), message: "no".into() },
            ..submit(&self.running, vec![start_timer("x", 1)], Outcome::Suspended)
        };
        let door = Some(KeySpec { name: "door".into(), ttl_ms: None });
        vec![
            (Code::InvalidCommand, self.commands(vec![Command::CancelTimer { timer_id: "none".into() }])),
            (Code::InvalidCommand, failed_with_commands.into()),
            (Code::InvalidSequence, with_base(-1).into()),
            (Code::InvalidSequence, with_base(2).into()),
            (Code::TenantNotFound, Op::from(UpdateTenant { name: "n".into(), retention_ms: None })),
            (
                Code::ExecutionNotFound,
                SignalWorkflow { execution_id: nobody, name: "s".into(), value: json("1") }.into(),
            ),
            (
                Code::ExecutionNotFound,
                CancelWorkflow { execution_id: nobody, reason: "r".into(), cascade: true }.into(),
            ),
            (Code::ExecutionNotFound, TerminateWorkflow { execution_id: nobody, reason: "r".into() }.into()),
            (Code::ExecutionNotFound, RetryWorkflow { execution_id: nobody, key: None }.into()),
            (Code::ExecutionNotFound, DeleteWorkflow { execution_id: nobody }.into()),
            (Code::ExecutionNotFound, ReleaseWorkflowClaim { execution_id: nobody, token: 1 }.into()),
            (Code::ExecutionNotFound, ReleaseHeldBack { execution_id: nobody }.into()),
            (
                Code::ExecutionNotFound,
                self.commands(vec![Command::RequestCancelChild {
                    child_id: id(10),
                    reason: "not mine".into(),
                }]),
            ),
            (
                Code::TaskNotFound,
                CompleteTask { task_id: nobody, token: None, output: json("1"), next: None }.into(),
            ),
            (Code::TaskNotFound, CancelTask { task_id: nobody, cooperative: true }.into()),
            (Code::TaskNotFound, RetryTask { task_id: nobody }.into()),
            (Code::TaskNotFound, DeleteTask { task_id: nobody }.into()),
            (Code::TaskNotFound, ListTaskState { task_id: nobody }.into()),
            (Code::TaskNotFound, self.commands(vec![Command::CancelTask { task_id: id(1) }])),
            (Code::PromiseNotFound, resolve(PromiseRef::Id(nobody)).into()),
            (Code::PromiseNotFound, resolve(PromiseRef::Key("none".into())).into()),
            (
                Code::PromiseNotFound,
                self.commands(vec![Command::ResolvePromise { promise_id: self.promise, value: json("1") }]),
            ),
            (Code::WorkerNotFound, HeartbeatWorker { worker_id: nobody }.into()),
            (Code::WorkerTokenNotFound, RevokeWorkerToken { token_id: nobody }.into()),
            (
                Code::TenantExists,
                CreateTenant { id: None, slug: "acme".into(), name: "Other".into(), retention_ms: None }
                    .into(),
            ),
            (
                Code::TenantExists,
                CreateTenant {
                    id: Some(TENANT),
                    slug: "other".into(),
                    name: "Other".into(),
                    retention_ms: None,
                }
                .into(),
            ),
            (Code::IdCollision, self.commands(vec![schedule_task(1, "own")])),
            (Code::IdCollision, self.commands(vec![schedule_child(10, "child")])),
            (Code::IdCollision, self.commands(vec![start_timer("twice", 1), start_timer("twice", 1)])),
            (
                Code::PromiseKeyConflict,
                self.commands(vec![Command::CreatePromise { name: "p".into(), timeout_ms: None, key: door }]),
            ),
            (Code::StaleClaim, ReleaseWorkflowClaim { execution_id: running, token: 9 }.into()),
            (Code::StaleClaim, ReleaseTaskClaim { task_id, token: 9 }.into()),
            (
                Code::ExecutionFinished,
                CancelWorkflow { execution_id: self.completed, reason: "r".into(), cascade: true }.into(),
            ),
            (
                Code::ExecutionFinished,
                SignalWorkflow { execution_id: self.failed, name: "s".into(), value: json("1") }.into(),
            ),
            (Code::ExecutionNotFinished, DeleteWorkflow { execution_id: running }.into()),
            (Code::ExecutionNotFailed, RetryWorkflow { execution_id: self.completed, key: None }.into()),
            (Code::PromiseClosed, resolve(PromiseRef::Id(self.closed_promise())).into()),
            (Code::TaskNotPending, CancelTask { task_id, cooperative: false }.into()),
            (Code::TaskNotFailed, RetryTask { task_id }.into()),
            (Code::TaskNotFinished, DeleteTask { task_id }.into()),
            (Code::NotBackedOff, ReleaseHeldBack { execution_id: self.waiting }.into()),
            (Code::TaskOfWorkflow, DeleteTask { task_id: id(1) }.into()),
            (Code::TaskOfWorkflow, RetryTask { task_id: id(1) }.into()),
        ]
    }
}

#[test]
fn every_code_that_a_request_can_raise_is_raised_and_leaves_no_trace() {
    let mut scene = Scene::new();
    let mut raised = BTreeSet::from([Code::KeyConflict, Code::PartialRepeat, Code::EndDeferred]);
    for (code, op) in scene.cases() {
        raised.insert(code);
        if code == Code::TenantNotFound {
            // A tenant that was never created.
            World::new().refused(op, code);
        } else {
            scene.world.refused(op, code);
        }
    }
    for code in SHOWN_ELSEWHERE.into_iter().chain(NOT_FROM_RULES) {
        assert!(raised.insert(code), "{code:?} is listed and raised here");
    }
    let missing: Vec<_> = Code::ALL.iter().filter(|code| !raised.contains(code)).collect();
    assert!(missing.is_empty(), "never raised: {missing:?}");
}

#[test]
fn a_key_of_other_work_is_a_conflict() {
    let mut world = World::new();
    let key = || Some(KeySpec { name: "key".into(), ttl_ms: None });
    let start = |kind: &str| StartWorkflow { key: key(), ..StartWorkflow::new(kind, QUEUE, Payload::new()) };
    world.must(start("order"));
    world.refused(start("invoice"), Code::KeyConflict);
    let task = TaskSpec { key: key(), ..TaskSpec::new("mail", Payload::new()) };
    world.refused(CreateTask::standalone(task.clone()), Code::KeyConflict);
    world.start("parent");
    let activation = world.claim_workflow("parent");
    let command = Command::ScheduleTask { task_id: id(1), spec: task };
    world.refused(submit(&activation, vec![command], Outcome::Suspended), Code::KeyConflict);
}

#[test]
fn a_result_for_a_workflow_that_has_finished_is_refused() {
    let mut world = World::new();
    let execution_id = world.suspended("parent", vec![schedule_task(1, "own")]);
    let delivery = world.claim_task("own");
    world.must(TerminateWorkflow { execution_id, reason: "stop".into() });
    world.refused(complete(&delivery), Code::ExecutionFinished);
    world.fire_all();
    assert_eq!(world.task(id(1)).status, TaskStatus::Cancelled);
    world.refused(complete(&delivery), Code::StaleClaim);
}

#[test]
fn one_bad_command_takes_the_whole_batch_with_it_and_is_named() {
    let mut scene = Scene::new();
    let op = scene.commands(vec![
        schedule_task(5, "new"),
        start_timer("new", 1),
        Command::CancelTimer { timer_id: "none".into() },
        schedule_child(15, "child"),
    ]);
    let before = scene.world.snapshot();
    let refusal = scene.world.ask(op).unwrap_err();
    assert!(refusal.message.contains(": command 2: "), "{refusal}");
    // Only the claim has ended.
    let after = scene.world.snapshot();
    assert!((before.events, before.tasks, before.timers) == (after.events, after.tasks, after.timers));
}

#[test]
fn one_bad_item_takes_the_whole_bulk_with_it_and_is_named() {
    let mut world = World::new();
    let good = StartWorkflow::new("order", QUEUE, Payload::new());
    let bad = StartWorkflow::new("", QUEUE, Payload::new());
    let refusal = world.ask(StartWorkflows { items: vec![good.clone(), bad, good] }).unwrap_err();
    assert_eq!((refusal.code, refusal.message.starts_with("item 1: ")), (Code::InvalidName, true));
    assert!(world.snapshot().executions.is_empty());
}

#[test]
fn a_refused_request_does_not_disturb_its_neighbours_in_the_batch() {
    let mut world = World::new();
    let start = |kind: &str| Op::from(StartWorkflow::new(kind, QUEUE, Payload::new()));
    let answers = world.batch(vec![start("a"), start(""), start("nul\0"), start("b")]);
    let good: Vec<bool> = answers.iter().map(Result::is_ok).collect();
    assert_eq!(good, [true, false, false, true]);
    let kinds: BTreeSet<_> = world.snapshot().executions.iter().map(|row| row.kind.to_string()).collect();
    assert_eq!(kinds, BTreeSet::from(["a".to_owned(), "b".to_owned()]));
}
