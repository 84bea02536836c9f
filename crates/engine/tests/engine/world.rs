//! One tenant on the memory tables, with a clock that tests move. After every batch all promises are checked.

use std::sync::Arc;

use flovyn_engine::ids::{ExecutionId, Payload, TaskId, TenantId};
use flovyn_engine::invariants;
use flovyn_engine::reply::{Activation, Claimed, TaskDelivery};
use flovyn_engine::request::*;
use flovyn_engine::snapshot::Snapshot;
use flovyn_engine::state::*;
use flovyn_engine::{Batch, BatchStep, Code, Decided, Limits, Now, Op, Refusal, Reply, Request};
use flovyn_store::memory::MemoryTables;
use uuid::Uuid;

pub(crate) const TENANT: TenantId = Uuid::from_u128(0xA000_0000_0000_7000_8000_0000_0000_0001);
pub(crate) const BEGIN_MS: i64 = 1_800_000_000_000;
pub(crate) const QUEUE: &str = "main";

#[derive(Clone)]
pub(crate) struct World {
    tables: MemoryTables,
    pub(crate) now: Now,
    pub(crate) limits: Arc<Limits>,
    seed: u64,
    /// The client that sends the requests.
    pub(crate) peer: Peer,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(Limits::default())
    }

    pub(crate) fn with(limits: Limits) -> Self {
        let (tables, now) = (MemoryTables::default(), Now::same(BEGIN_MS));
        Self { tables, now, limits: Arc::new(limits), seed: 1, peer: peer(1) }
    }

    pub(crate) fn advance(&mut self, ms: i64) {
        self.now = Now { ms: self.now.ms + ms, lease_ms: self.now.lease_ms + ms };
    }

    /// Decides all requests as one transaction.
    pub(crate) fn batch(&mut self, ops: Vec<Op>) -> Vec<Result<Reply, Refusal>> {
        self.batch_of(TENANT, ops)
    }

    /// One request of a caller whom the audit log names.
    pub(crate) fn ask_by(&mut self, actor: &Arc<Actor>, op: impl Into<Op>) -> Result<Reply, Refusal> {
        let mut answers = self.batch_as(Some(actor), TENANT, vec![op.into()]);
        answers.pop().unwrap()
    }

    fn batch_of(&mut self, tenant_id: TenantId, ops: Vec<Op>) -> Vec<Result<Reply, Refusal>> {
        self.batch_as(None, tenant_id, ops)
    }

    fn batch_as(
        &mut self,
        actor: Option<&Arc<Actor>>,
        tenant_id: TenantId,
        ops: Vec<Op>,
    ) -> Vec<Result<Reply, Refusal>> {
        let answers = self.unchecked(actor, tenant_id, ops);
        self.check();
        answers
    }

    /// A world with other rows, sound or not.
    pub(crate) fn with_rows(&self, snapshot: Snapshot) -> Self {
        Self { tables: MemoryTables::with_rows(snapshot), ..self.clone() }
    }

    /// Sends a request while a promise is broken.
    #[track_caller]
    pub(crate) fn unsound(&mut self, op: impl Into<Op>) -> Reply {
        self.unchecked(None, TENANT, vec![op.into()]).remove(0).unwrap()
    }

    fn unchecked(
        &mut self,
        actor: Option<&Arc<Actor>>,
        tenant_id: TenantId,
        ops: Vec<Op>,
    ) -> Vec<Result<Reply, Refusal>> {
        let requests = ops.into_iter().map(|op| {
            self.seed += 1;
            let peer = Some(Arc::new(self.peer.clone()));
            Arc::new(Request { actor: actor.cloned(), peer, ..Request::new(tenant_id, self.seed, op) })
        });
        let mut batch = Batch::new(requests.collect(), self.limits.clone());
        let mut loaded = None;
        while let BatchStep::Load(wants) = batch.advance(loaded.take()) {
            loaded = Some(self.tables.load(&wants, self.now));
        }
        self.tables.apply(&batch.take_mutations()).unwrap();
        let answer = |decided| match decided {
            Decided::Reply(reply) => Ok(reply),
            Decided::Refused(refusal) => Err(refusal),
            Decided::Deferred => panic!("deferred without a rival"),
        };
        batch.into_decided().into_iter().map(answer).collect()
    }

    pub(crate) fn ask(&mut self, op: impl Into<Op>) -> Result<Reply, Refusal> {
        self.batch(vec![op.into()]).remove(0)
    }

    /// Sends a request of another tenant.
    pub(crate) fn ask_as(&mut self, tenant_id: TenantId, op: impl Into<Op>) -> Result<Reply, Refusal> {
        self.batch_of(tenant_id, vec![op.into()]).remove(0)
    }

    #[track_caller]
    pub(crate) fn must(&mut self, op: impl Into<Op>) -> Reply {
        let op = op.into();
        self.ask(op.clone()).unwrap_or_else(|refusal| panic!("{refusal} for {op:?}"))
    }

    /// The request is refused with this code and leaves every row unchanged. Exception: a refused report of the claim's
    /// holder may end that claim, and changes nothing else.
    #[track_caller]
    pub(crate) fn refused(&mut self, op: impl Into<Op>, code: Code) {
        let (op, before, mut tried) = (op.into(), self.snapshot(), self.clone());
        match tried.ask(op.clone()) {
            Err(refusal) => assert_eq!(refusal.code, code, "{refusal} for {op:?}"),
            Ok(reply) => panic!("{op:?} was accepted with {reply:?}, expected {code:?}"),
        }
        let after = tried.snapshot();
        if code.cure().ends_claim() && is_held(&before, &op) {
            assert!(!is_held(&after, &op), "{op:?} was refused, and its claim stands");
        } else {
            assert!(before == after, "{op:?} was refused and yet changed something");
        }
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.tables.snapshot()
    }

    #[track_caller]
    pub(crate) fn check(&self) {
        let found = invariants::check(&self.snapshot(), self.now);
        assert!(found.is_empty(), "{}", found.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "));
    }

    pub(crate) fn start(&mut self, kind: &str) -> ExecutionId {
        match self.must(StartWorkflow::new(kind, QUEUE, Payload::new())) {
            Reply::Started(started) => started.execution_id,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn create_task(&mut self, task_type: &str) -> TaskId {
        self.create(TaskSpec { queue: Some(QUEUE.into()), ..TaskSpec::new(task_type, Payload::new()) })
    }

    pub(crate) fn create(&mut self, spec: TaskSpec) -> TaskId {
        match self.must(CreateTask::standalone(spec)) {
            Reply::TaskCreated(created) => created.task_id,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn claim(&mut self, claim: Claim) -> Claimed {
        match self.must(claim) {
            Reply::Claimed(claimed) => claimed,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn claim_workflow(&mut self, kind: &str) -> Activation {
        self.claim(claim(WorkClass::Workflow, kind)).workflows.remove(0)
    }

    pub(crate) fn claim_task(&mut self, task_type: &str) -> TaskDelivery {
        self.claim(claim(WorkClass::Task, task_type)).tasks.remove(0)
    }

    /// Runs the first activation of a new execution with these commands, and leaves it suspended.
    pub(crate) fn suspended(&mut self, kind: &str, commands: Vec<Command>) -> ExecutionId {
        let id = self.start(kind);
        let activation = self.claim_workflow(kind);
        self.must(submit(&activation, commands, Outcome::Suspended));
        id
    }

    pub(crate) fn execution(&self, id: ExecutionId) -> Execution {
        self.snapshot().executions.into_iter().find(|row| row.id == id).unwrap()
    }

    pub(crate) fn task(&self, id: TaskId) -> Task {
        self.snapshot().tasks.into_iter().find(|row| row.id == id).unwrap()
    }

    pub(crate) fn events(&self, id: ExecutionId) -> Vec<Event> {
        self.snapshot().events.into_iter().filter(|row| row.execution_id == id).collect()
    }

    pub(crate) fn due(&self, class: DueClass) -> Due {
        self.snapshot().due.into_iter().find(|row| row.class == class).unwrap()
    }

    /// Fires everything that is due, also what becomes due by that.
    pub(crate) fn fire_all(&mut self) {
        for _ in 0..1_000 {
            let now = self.now;
            let come = |row: &Due| match row.clock {
                ClockKind::Product => row.due_ms <= now.ms,
                ClockKind::Lease => row.due_ms <= now.lease_ms,
            };
            let Some(due) = self.snapshot().due.into_iter().find(come) else { return };
            self.must(FireDue { due });
        }
        panic!("what is due never ends: {:?}", self.snapshot().due);
    }
}

/// Whether this is a report of the holder of a claim.
fn is_held(rows: &Snapshot, op: &Op) -> bool {
    let activation = |id, token| {
        let row = rows.executions.iter().find(|row| row.id == id);
        row.is_some_and(|row| row.status == ExecutionStatus::Running && token == Some(row.epoch))
    };
    let result = |id, token| {
        let row = rows.tasks.iter().find(|row| row.id == id);
        row.is_some_and(|row| row.status == TaskStatus::Running && token == Some(row.epoch))
    };
    match op {
        Op::SubmitActivation(op) => activation(op.execution_id, op.token),
        Op::CompleteTask(op) => result(op.task_id, op.token),
        Op::FailTask(op) => result(op.task_id, op.token),
        _ => false,
    }
}

/// A client with the default credential, on its own connection.
pub(crate) fn peer(connection: i64) -> Peer {
    Peer { credential: Some(1), connection: Some(connection), worker: None }
}

/// A worker on the stream that asks for one item.
pub(crate) fn claim(class: WorkClass, kind: &str) -> Claim {
    let claimer =
        Claimer { worker: "stream".into(), session: None, plain: false, cooperative: true, build: None };
    let kinds = vec![ClaimKind { kind: kind.into(), versions: Vec::new(), timeout_ms: None }];
    Claim {
        class,
        claimer,
        queue: QUEUE.into(),
        kinds,
        max: 1,
        only: None,
        provisional: false,
        held_back: false,
    }
}

/// A client of the plain public protocol that asks for one item.
pub(crate) fn plain_claim(class: WorkClass, kind: &str) -> Claim {
    let claimer =
        Claimer { worker: "plain".into(), session: None, plain: true, cooperative: true, build: None };
    Claim { claimer, ..claim(class, kind) }
}

/// The report of the worker that received the activation: with token and base, unless it uses the plain protocol.
pub(crate) fn submit(activation: &Activation, commands: Vec<Command>, outcome: Outcome) -> SubmitActivation {
    let execution = &activation.execution;
    SubmitActivation {
        execution_id: execution.id,
        token: (!execution.plain).then_some(activation.token),
        base_sequence: (!execution.plain).then_some(execution.last_sequence),
        commands,
        outcome,
        unread_signals: 0,
        first_number: None,
        build_id: Some("build-1".into()),
        clean_up: None,
    }
}

pub(crate) fn complete(delivery: &TaskDelivery) -> CompleteTask {
    CompleteTask { task_id: delivery.task.id, token: Some(delivery.token), output: json("1"), next: None }
}

pub(crate) fn json(text: &str) -> Payload {
    Payload::copy_from_slice(text.as_bytes())
}

pub(crate) fn done() -> Outcome {
    Outcome::Completed { output: Payload::new() }
}

pub(crate) fn id(number: u128) -> Uuid {
    Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0000 + number)
}

pub(crate) fn schedule_task(number: u128, task_type: &str) -> Command {
    Command::ScheduleTask { task_id: id(number), spec: TaskSpec::new(task_type, Payload::new()) }
}

pub(crate) fn start_timer(name: &str, duration_ms: i64) -> Command {
    Command::StartTimer { timer_id: name.into(), duration_ms }
}

pub(crate) fn create_promise(name: &str, timeout_ms: Option<i64>) -> Command {
    Command::CreatePromise { name: name.into(), timeout_ms, key: None }
}

pub(crate) fn schedule_child(number: u128, kind: &str) -> Command {
    Command::ScheduleChild(ScheduleChild {
        child_id: id(number),
        name: "child".into(),
        kind: kind.into(),
        input: Payload::new(),
        queue: None,
        priority_seconds: 0,
        workflow_version: None,
        execution_timeout_ms: None,
        cancel_grace_ms: None,
        key: None,
        labels: Vec::new(),
    })
}
