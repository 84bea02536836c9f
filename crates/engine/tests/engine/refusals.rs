//! What happens after a refusal: each row of the page about refusals is provoked and compared with the outcome.

use std::collections::BTreeSet;

use flovyn_engine::ids::Payload;
use flovyn_engine::request::*;
use flovyn_engine::snapshot::Snapshot;
use flovyn_engine::state::*;
use flovyn_engine::why::{OpenItems, Surroundings, Waiting};
use flovyn_engine::{Class, Code, Cure, Limits, Op, Refusal, Reply, why};

use crate::world::{
    QUEUE, World, claim, complete, create_promise, done, id, json, plain_claim, schedule_child,
    schedule_task, start_timer, submit,
};

const PAGE: &str = include_str!("../../../../docs/reference/refusals.md");

const ACTIVATION: &str = "activation";
const RESULT: &str = "task result";
const HEARTBEAT: &str = "heartbeat";

fn limits() -> Limits {
    Limits {
        payload_bytes: 100,
        text_bytes: 200,
        commands: 5,
        state_keys: 1,
        pending_tasks: 2,
        history_events: 20,
        ..Limits::default()
    }
}

/// A row of the page.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    code: Code,
    report: String,
    moves_on: String,
}

fn rows() -> Vec<Row> {
    let table = PAGE.split("## All codes").nth(1).unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| [FLV")).map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [code, report, _, _, moves_on] = cells[..] else { panic!("{line}") };
        let code = Code::parse(&code[1..8]).unwrap();
        Row { code, report: report.to_owned(), moves_on: moves_on.to_owned() }
    });
    rows.collect()
}

/// Codes that, according to the page, never refuse a report.
fn others() -> BTreeSet<Code> {
    let list = PAGE.split("other codes:").nth(1).unwrap();
    list.split('[').skip(1).map(|part| Code::parse(&part[..7]).unwrap()).collect()
}

/// A report of the claim's holder that is refused.
struct Provoked {
    world: World,
    code: Code,
    report: &'static str,
    op: Op,
    about: uuid::Uuid,
}

fn text(bytes: usize) -> Payload {
    json(&format!("\"{}\"", "x".repeat(bytes - 2)))
}

fn set(name: &str, value: Payload) -> Command {
    Command::SetState { name: name.into(), value }
}

fn scheduled(number: u128, change: impl FnOnce(&mut TaskSpec)) -> Command {
    let mut spec = TaskSpec::new("mail", Payload::new());
    change(&mut spec);
    Command::ScheduleTask { task_id: id(number), spec }
}

fn key(name: &str, ttl_ms: Option<i64>) -> Option<KeySpec> {
    Some(KeySpec { name: name.into(), ttl_ms })
}

/// A running execution, and a promise of another execution that holds a key.
fn running() -> (World, flovyn_engine::reply::Activation) {
    let mut world = World::with(limits());
    let door = Command::CreatePromise { name: "p".into(), timeout_ms: None, key: key("door", None) };
    world.suspended("holder", vec![door]);
    let mut start = StartWorkflow::new("keyed", QUEUE, Payload::new());
    start.key = key("taken", None);
    world.must(start);
    world.start("order");
    let activation = world.claim_workflow("order");
    (world, activation)
}

fn activation(code: Code, commands: Vec<Command>, outcome: Outcome) -> Provoked {
    let (world, activation) = running();
    let op = submit(&activation, commands, outcome).into();
    Provoked { world, code, report: ACTIVATION, op, about: activation.execution.id }
}

fn command(code: Code, command: Command) -> Provoked {
    // The command before it is not carried out either.
    activation(code, vec![start_timer("before", 1), command], Outcome::Suspended)
}

fn unread(code: Code) -> Provoked {
    let (world, activation) = running();
    let refusal = Refusal::new(code, "it cannot be read");
    let execution_id = activation.execution.id;
    let token = Some(activation.token);
    let op = RefuseActivation { execution_id, token, build_id: None, refusal }.into();
    Provoked { world, code, report: ACTIVATION, op, about: execution_id }
}

fn task(code: Code, report: &'static str, make: impl FnOnce(uuid::Uuid, Option<i64>) -> Op) -> Provoked {
    let mut world = World::with(limits());
    world.suspended("order", vec![schedule_task(1, "mail")]);
    let about = world.claim(claim(WorkClass::Task, "mail")).tasks.remove(0).task.id;
    let op = make(about, Some(1));
    Provoked { world, code, report, op, about }
}

fn result(code: Code, make: impl FnOnce(uuid::Uuid, Option<i64>) -> Op) -> Provoked {
    task(code, RESULT, make)
}

fn completion(code: Code, output: Payload) -> Provoked {
    result(code, |task_id, token| CompleteTask { task_id, token, output, next: None }.into())
}

fn failure(code: Code, error: &str, next_delay_ms: Option<i64>) -> Provoked {
    let error = error.into();
    result(code, |task_id, token| {
        FailTask { task_id, token, error, failure: Default::default(), non_retryable: false, next_delay_ms }
            .into()
    })
}

fn named_failure(code: Code, kind: &str) -> Provoked {
    let (failure, next_delay_ms) = (Failure::of_kind(kind), None);
    result(code, |task_id, token| {
        FailTask { task_id, token, error: "no".into(), failure, non_retryable: false, next_delay_ms }.into()
    })
}

fn deleted() -> Provoked {
    let (mut world, activation) = running();
    let about = activation.execution.id;
    world.must(TerminateWorkflow { execution_id: about, reason: "r".into() });
    world.must(DeleteWorkflow { execution_id: about });
    let op = submit(&activation, Vec::new(), Outcome::Suspended).into();
    Provoked { world, code: Code::ExecutionNotFound, report: ACTIVATION, op, about }
}

fn unread_result(code: Code) -> Provoked {
    let refusal = Refusal::new(code, "it cannot be stored");
    result(code, |task_id, token| RefuseTaskResult { task_id, token, refusal }.into())
}

fn heartbeat(code: Code, details: Payload) -> Provoked {
    task(code, HEARTBEAT, |task_id, token| HeartbeatTask { task_id, token, details: Some(details) }.into())
}

fn provoked() -> Vec<Provoked> {
    let keyed = |name| scheduled(1, |spec| spec.key = key(name, None));
    let promise = |key| Command::CreatePromise { name: "p".into(), timeout_ms: None, key };
    let operations = |count| vec![Command::RecordOperation { name: "o".into(), result: json("1") }; count];
    let failed = Outcome::Failed { error: "a\0b".into(), failure: Default::default(), stack_trace: None };
    let failed_badly = Outcome::ActivationFailed { code: "".into(), message: "m".into() };
    let mut all = vec![
        command(Code::InvalidPayload, set("a", json("{"))),
        activation(Code::InvalidText, Vec::new(), failed),
        command(Code::InvalidName, set("", json("1"))),
        activation(Code::InvalidName, Vec::new(), failed_badly),
        command(Code::InvalidId, scheduled(0, |_| ()).with_nil_id()),
        command(Code::InvalidTtl, promise(key("k", Some(1)))),
        command(Code::InvalidDuration, start_timer("t", -1)),
        command(Code::InvalidRetryPolicy, scheduled(1, |spec| spec.max_retries = Some(1_001))),
        activation(Code::InvalidBatch, operations(6), Outcome::Suspended),
        command(Code::InvalidCommand, Command::CancelTimer { timer_id: "none".into() }),
        command(Code::PayloadTooLarge, set("a", text(101))),
        activation(Code::PayloadTooLarge, Vec::new(), Outcome::Completed { output: text(101) }),
        activation(
            Code::TooManyPendingTasks,
            vec![schedule_task(1, "mail"), schedule_task(2, "mail"), schedule_task(3, "mail")],
            Outcome::Suspended,
        ),
        activation(
            Code::TooManyStateKeys,
            vec![set("a", json("1")), set("b", json("1"))],
            Outcome::Suspended,
        ),
        command(Code::ExecutionNotFound, Command::RequestCancelChild { child_id: id(9), reason: "r".into() }),
        command(Code::TaskNotFound, Command::CancelTask { task_id: id(9) }),
        command(Code::PromiseNotFound, Command::ResolvePromise { promise_id: id(9), value: json("1") }),
        command(Code::TooManyLabels, schedule_child(1, "child").with_labels(21)),
        command(Code::IdCollision, start_timer("before", 1)),
        command(Code::KeyConflict, keyed("taken")),
        command(Code::PromiseKeyConflict, promise(key("door", None))),
        unread(Code::InvalidValue),
        unread(Code::StoreRefused),
        unread(Code::Internal),
        completion(Code::InvalidPayload, json("{")),
        completion(Code::PayloadTooLarge, text(101)),
        failure(Code::InvalidText, "a\0b", None),
        named_failure(Code::InvalidName, &"x".repeat(256)),
        failure(Code::InvalidDuration, "no", Some(-1)),
        unread_result(Code::StoreRefused),
        unread_result(Code::Internal),
        heartbeat(Code::InvalidPayload, json("{")),
        heartbeat(Code::PayloadTooLarge, text(101)),
    ];
    all.push(base_of_another_history());
    all.push(full_history());
    all.push(unseen_signal());
    all.push(part_of_a_repeat());
    all.extend(not_held());
    all
}

trait Broken {
    fn with_nil_id(self) -> Self;
    fn with_labels(self, count: usize) -> Self;
}

impl Broken for Command {
    fn with_labels(self, count: usize) -> Self {
        let labels = (0..count).map(|number| (number.to_string().into(), "1".into())).collect();
        match self {
            Command::ScheduleChild(child) => Command::ScheduleChild(ScheduleChild { labels, ..child }),
            other => other,
        }
    }

    fn with_nil_id(self) -> Self {
        match self {
            Command::ScheduleTask { spec, .. } => Command::ScheduleTask { task_id: uuid::Uuid::nil(), spec },
            other => other,
        }
    }
}

fn base_of_another_history() -> Provoked {
    let (world, activation) = running();
    let (about, report) = (activation.execution.id, submit(&activation, Vec::new(), Outcome::Suspended));
    let op = SubmitActivation { base_sequence: Some(99), ..report }.into();
    Provoked { world, code: Code::InvalidSequence, report: ACTIVATION, op, about }
}

/// The history has 17 of 20 events. Room for a cancel request, a deferral and the end is reserved, so nothing else
/// fits.
fn full_history() -> Provoked {
    let operations = |count| vec![Command::RecordOperation { name: "o".into(), result: json("1") }; count];
    let (mut world, mut activation) = running();
    let about = activation.execution.id;
    for count in [5, 5, 3] {
        world.must(submit(&activation, operations(count), Outcome::Suspended));
        world.must(SignalWorkflow { execution_id: about, name: "go".into(), value: json("1") });
        activation = world.claim_workflow("order");
    }
    assert_eq!(world.execution(about).last_sequence, 17);
    let op = submit(&activation, operations(1), Outcome::Suspended).into();
    Provoked { world, code: Code::HistoryFull, report: ACTIVATION, op, about }
}

fn unseen_signal() -> Provoked {
    let (mut world, activation) = running();
    let about = activation.execution.id;
    world.must(SignalWorkflow { execution_id: about, name: "go".into(), value: json("1") });
    let op = submit(&activation, Vec::new(), done()).into();
    Provoked { world, code: Code::EndDeferred, report: ACTIVATION, op, about }
}

fn part_of_a_repeat() -> Provoked {
    let mut world = World::with(limits());
    let about = world.start("order");
    let first = world.claim(plain_claim(WorkClass::Workflow, "order")).workflows.remove(0);
    world.must(submit(&first, vec![start_timer("a", 1)], Outcome::Suspended));
    world.must(SignalWorkflow { execution_id: about, name: "go".into(), value: json("1") });
    let second = world.claim(plain_claim(WorkClass::Workflow, "order")).workflows.remove(0);
    let commands = vec![start_timer("a", 1), start_timer("b", 1)];
    let op = submit(&second, commands, Outcome::Suspended).into();
    Provoked { world, code: Code::PartialRepeat, report: ACTIVATION, op, about }
}

fn not_held() -> Vec<Provoked> {
    let stale = {
        let (world, activation) = running();
        let report = submit(&activation, vec![set("a", text(101))], Outcome::Suspended);
        let op = SubmitActivation { token: Some(99), commands: Vec::new(), ..report }.into();
        Provoked { world, code: Code::StaleClaim, report: ACTIVATION, op, about: activation.execution.id }
    };
    let late = |report, make: fn(uuid::Uuid, Option<i64>) -> Op| {
        task(Code::StaleClaim, report, |task_id, _| make(task_id, Some(99)))
    };
    let gone = |report, make: fn(uuid::Uuid, Option<i64>) -> Op| {
        task(Code::TaskNotFound, report, |_, token| make(id(99), token))
    };
    let complete: fn(uuid::Uuid, Option<i64>) -> Op =
        |task_id, token| CompleteTask { task_id, token, output: json("1"), next: None }.into();
    let beat: fn(uuid::Uuid, Option<i64>) -> Op =
        |task_id, token| HeartbeatTask { task_id, token, details: None }.into();
    let mut orphan = task(Code::ExecutionFinished, RESULT, complete);
    let owner = orphan.world.task(orphan.about).execution_id.unwrap();
    orphan.world.must(TerminateWorkflow { execution_id: owner, reason: "r".into() });
    vec![
        stale,
        deleted(),
        late(RESULT, complete),
        late(HEARTBEAT, beat),
        gone(RESULT, complete),
        gone(HEARTBEAT, beat),
        orphan,
    ]
}

fn execution_of(rows: &Snapshot, id: uuid::Uuid) -> &Execution {
    rows.executions.iter().find(|row| row.id == id).unwrap()
}

/// The outcome, in the words of the page.
fn moved_on(before: &Snapshot, after: &Snapshot, provoked: &Provoked) -> String {
    let by_name = |name: &str| name.to_owned();
    if before == after {
        let runs = |rows: &Snapshot| rows.tasks.iter().any(|row| row.status == TaskStatus::Running);
        let heartbeat = provoked.report == HEARTBEAT && provoked.code.cure() == Cure::Nothing;
        let found = after.tasks.iter().any(|row| row.id == provoked.about) && runs(after);
        let about_it = matches!(&provoked.op, Op::HeartbeatTask(op) if op.task_id == provoked.about);
        return by_name(if heartbeat && found && about_it { "the task goes on" } else { "nothing changes" });
    }
    if provoked.report == RESULT {
        let task = after.tasks.iter().find(|row| row.id == provoked.about).unwrap();
        assert_eq!(task.status, TaskStatus::Failed);
        let error = task.error.clone().unwrap();
        assert!(error.starts_with(&format!("{}: ", provoked.code)), "{error}");
        // The task's workflow has its event, and is enqueued.
        assert_eq!(execution_of(after, task.execution_id.unwrap()).status, ExecutionStatus::Pending);
        return by_name("the task fails");
    }
    let row = execution_of(after, provoked.about);
    assert_eq!(row.status, ExecutionStatus::Pending, "{:?}", provoked.code);
    if row.activation_failures == 0 {
        assert!(row.not_before_ms.is_none() && row.is_in_ready());
        return by_name("queued again");
    }
    assert_eq!(row.failure_code.as_deref(), Some(&*provoked.code.to_string()));
    assert!(row.failure_message.is_some() && row.not_before_ms.is_some());
    assert_eq!(before.events, after.events, "nothing of it was carried out");
    by_name(if row.equal_refusals == 1 { "held back, then failed" } else { "held back" })
}

/// Rows that the engine cannot reproduce: the transport or the service finds the error, and no rule decides.
fn outside(row: &Row) -> bool {
    let at_the_door =
        [Code::NotRegistered, Code::TooManyTries, Code::Unauthenticated, Code::PermissionDenied];
    let names_nothing =
        [(Code::InvalidId, RESULT), (Code::InvalidId, HEARTBEAT), (Code::InvalidCommand, RESULT)];
    let names_a_fault = [Code::StoreRefused, Code::Internal];
    let repeatable = matches!(row.code.class(), Class::Unavailable | Class::Aborted);
    match row.moves_on.as_str() {
        // The database refuses the details, or a rule panics.
        "the task goes on" => row.report == HEARTBEAT && names_a_fault.contains(&row.code),
        "sent again" => row.code.cure() == Cure::Resend && repeatable,
        "nothing changes" => {
            at_the_door.contains(&row.code) && row.code.cure() == Cure::NotHeld
                || names_nothing.contains(&(row.code, row.report.as_str()))
        }
        _ => false,
    }
}

#[test]
fn the_page_of_refusals_says_what_moves_on() {
    let rows = rows();
    let mut provoked_rows = BTreeSet::new();
    for mut one in provoked() {
        let (report, before) = (one.report, one.world.snapshot());
        let refusal = one.world.ask(one.op.clone()).unwrap_err();
        assert_eq!(refusal.code, one.code, "{refusal} for {:?}", one.op);
        let moves_on = moved_on(&before, &one.world.snapshot(), &one);
        let row = Row { code: one.code, report: report.to_owned(), moves_on };
        assert!(rows.contains(&row), "the page does not have {row:?}: {refusal}");
        provoked_rows.insert(row);
    }
    for row in &rows {
        assert!(provoked_rows.contains(row) || outside(row), "never seen: {row:?}");
    }
    let others = others();
    for code in Code::ALL {
        let named: BTreeSet<&str> =
            rows.iter().filter(|row| row.code == *code).map(|row| row.report.as_str()).collect();
        let may_refuse: BTreeSet<&str> = code.refuses().iter().map(|report| report.name()).collect();
        assert_eq!(named, may_refuse, "the rows of {code} on the page");
        assert_eq!(others.contains(code), may_refuse.is_empty(), "{code} in the list at the end of the page");
    }
}

/// An execution whose first activation is refused with this code at every attempt.
struct Refused {
    world: World,
    execution_id: uuid::Uuid,
}

impl Refused {
    fn new(limits: Limits) -> Self {
        let mut world = World::with(limits);
        let execution_id = world.start("order");
        Self { world, execution_id }
    }

    fn row(&self) -> Execution {
        self.world.execution(self.execution_id)
    }

    /// Waits until the delay is over and tries once more.
    fn again(&mut self, commands: Vec<Command>, outcome: Outcome) -> Result<Reply, Refusal> {
        let wait_ms = self.row().not_before_ms.map_or(0, |at| at - self.world.now.ms);
        self.world.advance(wait_ms);
        self.world.fire_all();
        let activation = self.world.claim_workflow("order");
        self.world.ask(submit(&activation, commands, outcome))
    }

    fn too_large(&mut self) -> Refusal {
        self.again(vec![set("a", text(101))], Outcome::Suspended).unwrap_err()
    }

    fn panics(&mut self) {
        let outcome = Outcome::ActivationFailed { code: "DETERMINISM_VIOLATION".into(), message: "m".into() };
        self.again(Vec::new(), outcome).unwrap();
    }

    fn waiting(&self) -> Waiting {
        let around = Surroundings {
            queue_paused: false,
            workers: &[],
            now: self.world.now,
            limits: &self.world.limits,
        };
        why::execution(&self.row(), OpenItems::default(), around).remove(0)
    }
}

#[test]
fn equal_refusals_in_a_row_fail_the_execution() {
    let mut refused = Refused::new(limits());
    for (count, delay_ms) in [(1, 1_000), (2, 2_000), (3, 4_000), (4, 8_000)] {
        let refusal = refused.too_large();
        let told = format!("refusal {count} of 5, retry in {delay_ms} ms: ");
        assert!(refusal.message.starts_with(&told), "{refusal}");
        let Waiting::ActivationBackoff { code, message, refusals, until_ms, .. } = refused.waiting() else {
            panic!("{:?}", refused.waiting());
        };
        assert_eq!((&*code, refusals), ("FLV0020", Some((count, 5))));
        assert_eq!(&*message, "command 0: state value has 101 bytes, the limit is 100");
        assert_eq!(until_ms, refused.world.now.ms + delay_ms);
        assert_eq!(refused.row().failure_build.as_deref(), Some("build-1"));
    }
    let refusal = refused.too_large();
    assert!(refusal.message.starts_with("refusal 5 of 5, the execution has failed: "), "{refusal}");
    assert_eq!(refused.row().status, ExecutionStatus::Failed);
    let events = refused.world.events(refused.execution_id);
    let end = events.last().unwrap();
    assert_eq!((end.kind, end.origin), (EventKind::WorkflowFailed, Origin::External));
    assert_eq!(end.name.as_deref(), Some("FLV0020"));
    let error = "FLV0020: command 0: state value has 101 bytes, the limit is 100";
    assert_eq!(end.text.as_deref(), Some(error));
}

#[test]
fn a_worker_may_refuse_in_the_place_of_the_server() {
    let mut refused = Refused::new(limits());
    let outcome = |code: &str| Outcome::ActivationFailed { code: code.into(), message: "too large".into() };
    for _ in 0..4 {
        refused.again(Vec::new(), outcome("FLV0020")).unwrap();
    }
    let status = refused.again(Vec::new(), outcome("FLV0020")).unwrap();
    assert_eq!(status, Reply::Submitted { status: ExecutionStatus::Failed, repeated: false });
}

#[test]
fn other_failures_and_successes_begin_the_count_anew() {
    let mut refused = Refused::new(limits());
    let counted = |refused: &Refused| (refused.row().equal_refusals, refused.row().activation_failures);
    refused.too_large();
    refused.too_large();
    assert_eq!(counted(&refused), (2, 2));
    refused.again(vec![set("", json("1"))], Outcome::Suspended).unwrap_err();
    assert_eq!(counted(&refused), (1, 3), "another code");
    refused.panics();
    assert_eq!(counted(&refused), (0, 4), "no refusal");
    for count in 1..=4 {
        refused.too_large();
        assert_eq!(counted(&refused), (count, 4 + count));
    }
    refused.again(vec![start_timer("t", 0)], Outcome::Suspended).unwrap();
    assert_eq!(counted(&refused), (0, 0));
    assert_eq!(refused.row().failure_code, None);
    refused.world.fire_all();
    refused.too_large();
    assert_eq!(counted(&refused), (1, 1));
}

#[test]
fn violations_are_tried_for_as_long_as_it_takes() {
    let mut refused = Refused::new(limits());
    for _ in 0..50 {
        refused.panics();
    }
    assert_eq!(refused.row().status, ExecutionStatus::Pending);
    assert!(matches!(refused.waiting(), Waiting::ActivationBackoff { failures: 50, refusals: None, .. }));
}

#[test]
fn what_time_may_cure_is_tried_until_it_is_cured() {
    let mut refused = Refused::new(Limits { pending_tasks: 1, ..limits() });
    refused.again(vec![schedule_task(1, "mail"), start_timer("t", 0)], Outcome::Suspended).unwrap();
    let more = || vec![schedule_task(2, "mail")];
    for count in 1..=20 {
        refused.world.fire_all();
        let refusal = refused.again(more(), Outcome::Suspended).unwrap_err();
        assert_eq!(refusal.code, Code::TooManyPendingTasks);
        assert_eq!((refused.row().activation_failures, refused.row().equal_refusals), (count, 0));
    }
    let delivery = refused.world.claim_task("mail");
    refused.world.must(complete(&delivery));
    refused.again(more(), Outcome::Suspended).unwrap();
    assert_eq!(refused.row().status, ExecutionStatus::Waiting);
}

#[test]
fn an_end_by_refusals_is_told_to_the_parent_and_frees_the_key() {
    let mut world = World::with(limits());
    let child = schedule_child(10, "order");
    let parent = world.suspended("parent", vec![child, schedule_task(1, "mail")]);
    let mut refused = Refused { world, execution_id: id(10) };
    let signal = SignalWorkflow { execution_id: id(10), name: "go".into(), value: json("1") };
    // Unseen signals do not delay this end.
    refused.world.must(signal.clone());
    for _ in 0..4 {
        refused.too_large();
        refused.world.must(signal.clone());
    }
    refused.too_large();
    assert_eq!(refused.row().status, ExecutionStatus::Failed);
    let events = refused.world.events(parent);
    assert_eq!(events.last().map(|event| event.kind), Some(EventKind::ChildFailed));
    assert_eq!(refused.world.execution(parent).status, ExecutionStatus::Pending);
    let end = refused.world.events(id(10)).pop().unwrap();
    assert_eq!((end.kind, end.number), (EventKind::WorkflowFailed, Some(5)), "unread signals");
    assert!(matches!(refused.world.ask(signal), Err(refusal) if refusal.code == Code::ExecutionFinished));
}

/// A history that is full except for the reserved room.
fn full(cooperative: bool) -> (World, uuid::Uuid) {
    let Provoked { mut world, op, about, .. } = full_history();
    assert_eq!(world.ask(op).unwrap_err().code, Code::HistoryFull);
    assert!(world.execution(about).cooperative || !cooperative);
    (world, about)
}

#[test]
fn a_full_history_ends_by_a_cancel_request() {
    let (mut world, about) = full(true);
    world.must(CancelWorkflow { execution_id: about, reason: "enough".into(), cascade: true });
    assert_eq!(world.execution(about).cancel_requested_ms, Some(world.now.ms));
    world.advance(1_000);
    world.fire_all();
    let activation = world.claim_workflow("order");
    // It cleans up as far as there is room, and ends.
    let operation = Command::RecordOperation { name: "o".into(), result: json("1") };
    world.must(submit(&activation, vec![operation], Outcome::Cancelled { reason: "enough".into() }));
    assert_eq!(world.execution(about).status, ExecutionStatus::Cancelled);
    assert_eq!(world.execution(about).last_sequence, 20, "to the last event");
}

#[test]
fn a_full_history_ends_by_termination_by_its_own_word_and_by_refusals() {
    let (mut world, about) = full(true);
    world.must(TerminateWorkflow { execution_id: about, reason: "enough".into() });
    assert_eq!(world.execution(about).status, ExecutionStatus::Cancelled);

    let (mut world, about) = full(true);
    world.advance(1_000);
    world.fire_all();
    let activation = world.claim_workflow("order");
    world.must(submit(&activation, Vec::new(), done()));
    assert_eq!(world.execution(about).status, ExecutionStatus::Completed);

    let (world, execution_id) = full(true);
    let mut refused = Refused { world, execution_id };
    let operations = || vec![Command::RecordOperation { name: "o".into(), result: json("1") }; 5];
    for _ in 0..4 {
        assert_eq!(refused.again(operations(), Outcome::Suspended).unwrap_err().code, Code::HistoryFull);
    }
    assert_eq!(refused.row().status, ExecutionStatus::Failed);
}

#[test]
fn a_lowered_limit_harms_nobody_who_only_waits_and_ends() {
    let mut refused = Refused::new(limits());
    let operations = vec![Command::RecordOperation { name: "o".into(), result: json("1") }; 4];
    let commands = operations.into_iter().chain([create_promise("p", None)]).collect();
    refused.again(commands, Outcome::Suspended).unwrap();
    refused.world.limits = std::sync::Arc::new(Limits { history_events: 3, ..limits() });
    let promise = refused.world.snapshot().promises[0].id;
    let answer = Answer::Resolve(json("1"));
    refused.world.must(AnswerPromise { promise: PromiseRef::Id(promise), answer });
    refused.again(Vec::new(), Outcome::Suspended).unwrap();
    assert_eq!(refused.row().status, ExecutionStatus::Waiting);
    refused.world.must(CancelWorkflow {
        execution_id: refused.execution_id,
        reason: "r".into(),
        cascade: true,
    });
    refused.again(Vec::new(), Outcome::Cancelled { reason: "r".into() }).unwrap();
    assert_eq!(refused.row().status, ExecutionStatus::Cancelled);
}

#[test]
fn a_plain_clients_refusals_move_on_too() {
    let mut world = World::with(limits());
    let about = world.start("order");
    let activation = world.claim(plain_claim(WorkClass::Workflow, "order")).workflows.remove(0);
    let refusal = world.ask(submit(&activation, vec![set("a", text(101))], Outcome::Suspended)).unwrap_err();
    assert_eq!(refusal.code, Code::PayloadTooLarge);
    assert_eq!(world.execution(about).equal_refusals, 1);
    // Sent again, because its reply was lost: the client does not hold the claim any more.
    let again = submit(&activation, vec![set("a", text(101))], Outcome::Suspended);
    world.refused(again, Code::StaleClaim);
    let task_id = world.create_task("mail");
    world.claim(plain_claim(WorkClass::Task, "mail"));
    let complete = CompleteTask { task_id, token: None, output: text(101), next: None };
    assert_eq!(world.ask(complete).unwrap_err().code, Code::PayloadTooLarge);
    assert_eq!(world.task(task_id).status, TaskStatus::Failed);
}

#[test]
fn who_does_not_hold_the_claim_fails_nothing() {
    let mut world = World::with(limits());
    world.start("order");
    let activation = world.claim_workflow("order");
    let mut report = submit(&activation, vec![set("a", text(101))], Outcome::Suspended);
    report.token = Some(activation.token + 1);
    world.refused(report.clone(), Code::StaleClaim);
    // The content is checked before the claim.
    report.commands = vec![set("", json("1"))];
    world.refused(report, Code::InvalidName);
    let task_id = world.create_task("mail");
    let delivery = world.claim_task("mail");
    let stale = CompleteTask { task_id, token: Some(delivery.token + 1), output: text(101), next: None };
    world.refused(stale, Code::PayloadTooLarge);
    world.must(complete(&delivery));
}

#[test]
fn a_task_that_was_asked_to_stop_is_cancelled_by_a_refusal() {
    let mut world = World::with(limits());
    let task_id = world.create_task("mail");
    let delivery = world.claim_task("mail");
    world.must(CancelTask { task_id, cooperative: true });
    let refusal = world.ask(CompleteTask { output: text(101), ..complete(&delivery) }).unwrap_err();
    assert!(refusal.message.starts_with("the task is cancelled: "), "{refusal}");
    assert_eq!(world.task(task_id).status, TaskStatus::Cancelled);
}

#[test]
fn a_failure_message_that_is_too_long_is_cut() {
    let long = || flovyn_engine::ids::Text::from("é".repeat(500));
    let cut = |text: &str| text.len() <= 200 && text.starts_with("éé") && text.ends_with('…');
    let mut refused = Refused::new(limits());
    let panics =
        || Outcome::ActivationFailed { code: "PANIC".into(), message: format!("\0{}", long()).into() };
    for _ in 0..10 {
        refused.again(Vec::new(), panics()).unwrap();
        let row = refused.row();
        let message = row.failure_message.unwrap();
        assert!(message.starts_with('\u{fffd}') && cut(message.trim_start_matches('\u{fffd}')), "{message}");
        assert_eq!((row.failure_code.as_deref(), row.equal_refusals), (Some("PANIC"), 0));
    }
    let failure = Failure::of_kind("DECLINED");
    let failed = Outcome::Failed { error: long(), failure: failure.clone(), stack_trace: Some(long()) };
    refused.again(Vec::new(), failed).unwrap();
    let end = refused.world.events(refused.execution_id).pop().unwrap();
    assert!(cut(&end.text.unwrap()));
    assert_eq!((end.kind, end.name.as_deref()), (EventKind::WorkflowFailed, Some("DECLINED")));
    // A task keeps its kind, and the attempts that it has left.
    let mut world = World::with(limits());
    let task_id = world.create_task("mail");
    let token = Some(world.claim_task("mail").token);
    let (error, non_retryable, next_delay_ms) = (long(), false, None);
    world.must(FailTask { task_id, token, error, failure, non_retryable, next_delay_ms });
    let task = world.task(task_id);
    assert_eq!(task.status, TaskStatus::Pending);
    assert!(cut(&task.error.unwrap()));
}

#[test]
fn a_release_begins_the_count_anew() {
    let mut refused = Refused::new(limits());
    for _ in 0..4 {
        refused.too_large();
    }
    refused.world.must(ReleaseHeldBack { execution_id: refused.execution_id });
    refused.too_large();
    assert_eq!((refused.row().equal_refusals, refused.row().status), (1, ExecutionStatus::Pending));
}

#[test]
fn of_an_error_with_a_nul_the_beginning_is_kept() {
    let mut world = World::with(limits());
    let task_id = world.create_task("mail");
    let delivery = world.claim_task("mail");
    let error = format!("no route to\0host {}", "x".repeat(500));
    let fail = FailTask {
        task_id,
        token: Some(delivery.token),
        error: error.into(),
        failure: Default::default(),
        non_retryable: false,
        next_delay_ms: None,
    };
    world.ask(fail).unwrap_err();
    let task = world.task(task_id);
    assert_eq!(task.status, TaskStatus::Failed, "an attempt is left, and of no use");
    let error = task.error.unwrap();
    assert!(
        error.starts_with("FLV0002: error contains U+0000; it begins with: no route to\\u{0}host"),
        "{error}"
    );
    assert!(error.len() < 400, "{error}");
}
