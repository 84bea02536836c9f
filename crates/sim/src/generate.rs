//! Random requests. They use the state of the world, so that most of them reach something, but are often invalid.

use std::sync::Arc;

use bytes::Bytes;
use flovyn_engine::ids::{Payload, TenantId, Text};
use flovyn_engine::invariants::Subject;
use flovyn_engine::request::*;
use flovyn_engine::snapshot::Snapshot;
use flovyn_engine::state::*;
use flovyn_engine::{Code, Op, Refusal, Request};
use uuid::Uuid;

use crate::commands;
use crate::rng::Rng;

pub const TENANTS: [u128; 2] =
    [0xA000_0000_0000_7000_8000_0000_0000_0001, 0xB000_0000_0000_7000_8000_0000_0000_0002];
const QUEUES: [&str; 2] = ["default", "bulk"];
pub(crate) const KINDS: [&str; 3] = ["order", "invoice", "report"];
pub(crate) const TYPES: [&str; 3] = ["charge", "mail", "resize"];
const VERSIONS: [&str; 2] = ["1.0.0", "2.0.0"];

/// The limit of payloads in these runs.
pub(crate) const PAYLOAD_BYTES: usize = 100;

/// A failure: usually without type and details, sometimes with values that are refused.
fn failure(rng: &mut Rng) -> Failure {
    let kind = rng.of([None, None, None, Some("DECLINED"), Some("TIMEOUT")]);
    let details = rng.chance(30).then(|| json(rng));
    Failure { kind: kind.map(Text::from), details }
}

pub(crate) fn json(rng: &mut Rng) -> Payload {
    match rng.below(12) {
        0 => Bytes::new(),
        1 => Bytes::from_static(b"{not json"),
        2 => Bytes::from_static(b"{\"text\":\"\\u0000 \\ud83d\\ude00\"}"),
        3 => Bytes::from(vec![b'1'; PAYLOAD_BYTES + 1]),
        n => Bytes::from(format!("{{\"n\":{n}}}")),
    }
}

pub(crate) fn name(rng: &mut Rng, prefix: &str, choices: usize) -> Text {
    match rng.below(60) {
        0 => Text::from(""),
        1 => Text::from("nul\0inside"),
        _ => Text::from(format!("{prefix}-{}", rng.below(choices))),
    }
}

pub(crate) fn key(rng: &mut Rng, percent: usize) -> Option<KeySpec> {
    rng.chance(percent).then(|| KeySpec {
        name: name(rng, "key", 8),
        ttl_ms: rng.of([None, None, Some(1_000), Some(60_000), Some(1)]),
    })
}

/// Generates the requests of one seed.
#[derive(Debug)]
pub struct Generator {
    pub rng: Rng,
    /// The current time of the run, for requests that contain a time.
    pub now_ms: i64,
}

impl Generator {
    pub fn new(seed: u64, now_ms: i64) -> Self {
        Self { rng: Rng::new(seed), now_ms }
    }

    pub(crate) fn uuid(&mut self) -> Uuid {
        uuid::Builder::from_unix_timestamp_millis(self.now_ms.unsigned_abs(), &{
            let mut bytes = [0; 10];
            for byte in &mut bytes {
                *byte = self.rng.draw() as u8;
            }
            bytes
        })
        .into_uuid()
    }

    /// The next request, given the state of the world.
    pub fn request(&mut self, world: &Snapshot) -> Arc<Request> {
        // Usually the first tenant, so that ids usually belong to it; sometimes another tenant.
        let tenant_id = Uuid::from_u128(TENANTS[usize::from(self.rng.chance(15))]);
        let op = self.op(world, tenant_id);
        // Some requests have a caller for the audit log.
        let actor = self.rng.chance(30).then(|| Arc::new(Actor::new("somebody", CredentialKind::Jwt)));
        let peer = self.peer(world, &op).map(Arc::new);
        Arc::new(Request { actor, peer, ..Request::new(tenant_id, self.rng.draw(), op) })
    }

    /// The client behind a request. For a report, it is usually the client that holds the claim.
    fn peer(&mut self, world: &Snapshot, op: &Op) -> Option<Peer> {
        let about = match op {
            Op::SubmitActivation(op) => Some(op.execution_id),
            Op::CompleteTask(CompleteTask { task_id, .. })
            | Op::FailTask(FailTask { task_id, .. })
            | Op::HeartbeatTask(HeartbeatTask { task_id, .. })
            | Op::SetTaskState(SetTaskState { task_id, .. }) => Some(*task_id),
            _ => None,
        };
        let execution = world.executions.iter().find(|row| Some(row.id) == about);
        let task = world.tasks.iter().find(|row| Some(row.id) == about);
        let of_task = task.map(|row| (row.claim_credential, row.claim_connection));
        let holder = execution.map(|row| (row.claim_credential, row.claim_connection)).or(of_task);
        let rng = &mut self.rng;
        if let Some((credential, connection)) = holder.filter(|_| rng.chance(70)) {
            return Some(Peer { credential, connection, worker: None });
        }
        rng.chance(80).then(|| Peer {
            credential: rng.of([Some(1), Some(1), Some(1), Some(2), None]),
            connection: rng.of([Some(1), Some(2), Some(3), None]),
            worker: rng.chance(10).then(|| rng.of(["w1", "w2"]).into()),
        })
    }

    fn op(&mut self, world: &Snapshot, tenant: TenantId) -> Op {
        match self.rng.below(100) {
            0..10 => self.start().into(),
            10..12 => {
                StartWorkflows { items: (0..1 + self.rng.below(3)).map(|_| self.start()).collect() }.into()
            }
            12..24 => self.claim(WorkClass::Workflow).into(),
            24..34 => self.claim(WorkClass::Task).into(),
            34..52 => self.submit(world, tenant),
            52..66 => self.task_report(world, tenant),
            66..78 => self.fire(world),
            78..80 => self.look(world),
            80..90 => self.outside(world, tenant),
            90..95 => self.task_admin(world, tenant),
            95 => self.mend(world).into(),
            _ => self.admin(world, tenant),
        }
    }

    fn start(&mut self) -> StartWorkflow {
        let rng = &mut self.rng;
        let mut start = StartWorkflow::new(rng.of(KINDS), rng.of(QUEUES), json(rng));
        start.priority_seconds = rng.of([0, 0, 0, -5, 10]);
        start.workflow_version = rng.chance(20).then(|| Text::from(rng.of(VERSIONS)));
        start.key = key(rng, 30);
        if rng.chance(20) {
            start.labels = vec![("env".into(), name(rng, "value", 3))];
        }
        start.scheduled_ms = rng.chance(15).then(|| self.now_ms + rng.below(5_000) as i64);
        start.cancel_grace_ms = rng.chance(15).then(|| rng.below(5_000) as i64);
        start.execution_timeout_ms = rng.chance(15).then(|| 1 + rng.below(60_000) as i64);
        start
    }

    fn claim(&mut self, class: WorkClass) -> Claim {
        let rng = &mut self.rng;
        let names = if class == WorkClass::Task { TYPES } else { KINDS };
        let mut kinds = Vec::new();
        for kind in names {
            if rng.chance(75) {
                let versions = if rng.chance(50) { vec![rng.of(VERSIONS).into()] } else { Vec::new() };
                kinds.push(ClaimKind { kind: kind.into(), versions, timeout_ms: None });
            }
        }
        let worker = rng.of(["w1", "w2", "w3"]);
        Claim {
            class,
            claimer: Claimer {
                worker: worker.into(),
                session: None,
                plain: rng.chance(30),
                cooperative: rng.chance(60),
                build: rng.of([None, Some("b1"), Some("b2"), Some("b3")]).map(Text::from),
            },
            queue: rng.of(QUEUES).into(),
            kinds,
            max: 1 + rng.below(4),
            only: None,
            provisional: false,
            held_back: rng.chance(50),
        }
    }

    fn submit(&mut self, world: &Snapshot, tenant: TenantId) -> Op {
        let running: Vec<&Execution> =
            world.executions.iter().filter(|row| row.status == ExecutionStatus::Running).collect();
        // Usually a current claim; sometimes any row.
        let row = if self.rng.chance(90) { self.rng.pick(&running).copied() } else { None };
        let Some(row) = row.or_else(|| self.rng.pick(&world.executions)) else { return self.start().into() };
        let row = row.clone();
        let step = self.step(world, &row, tenant);
        if self.rng.chance(3) {
            // A transport sends this when it cannot read a report.
            let refusal = Refusal::new(Code::InvalidId, "it is no UUID");
            let SubmitActivation { execution_id, token, build_id, .. } = step;
            return RefuseActivation { execution_id, token, build_id, refusal }.into();
        }
        step.into()
    }

    /// A possible result of an activation of this execution.
    fn step(&mut self, world: &Snapshot, row: &Execution, tenant: TenantId) -> SubmitActivation {
        let token = match self.rng.below(20) {
            0 => Some(row.epoch - 1),
            1 => Some(row.accepted_epoch),
            _ if row.plain => None,
            _ => Some(row.epoch),
        };
        let base = match self.rng.below(10) {
            0 => row.base_sequence,
            1 => row.last_sequence + 1,
            _ => row.last_sequence,
        };
        let commands = (0..self.rng.below(5)).map(|_| commands::command(self, world, row, tenant)).collect();
        let outcome = match self.rng.below(20) {
            0..12 => Outcome::Suspended,
            12..15 => Outcome::Completed { output: json(&mut self.rng) },
            15..17 => self.failed(),
            17 => Outcome::Cancelled { reason: "asked to".into() },
            _ => Outcome::ActivationFailed { code: "DETERMINISM".into(), message: "changed".into() },
        };
        let failed = matches!(outcome, Outcome::ActivationFailed { .. });
        SubmitActivation {
            execution_id: row.id,
            token,
            base_sequence: token.map(|_| base),
            commands: if failed { Vec::new() } else { commands },
            outcome,
            unread_signals: 0,
            first_number: None,
            build_id: Some(self.rng.of(["b1", "b2"]).into()),
            clean_up: row.cancel_requested_ms.filter(|_| self.rng.chance(80)).map(|_| CleanUp {
                waits: self.rng.chance(60),
                grace_ms: self.rng.chance(20).then(|| self.rng.below(5_000) as i64),
            }),
        }
    }

    fn failed(&mut self) -> Outcome {
        let stack_trace = self.rng.chance(30).then(|| "in line 1".into());
        Outcome::Failed { error: "it broke".into(), failure: failure(&mut self.rng), stack_trace }
    }

    fn task(&mut self, world: &Snapshot) -> Option<Task> {
        let running: Vec<&Task> =
            world.tasks.iter().filter(|row| row.status == TaskStatus::Running).collect();
        let row = if self.rng.chance(85) { self.rng.pick(&running).copied() } else { None };
        row.or_else(|| self.rng.pick(&world.tasks)).cloned()
    }

    fn task_report(&mut self, world: &Snapshot, _tenant: TenantId) -> Op {
        let Some(row) = self.task(world) else { return self.create_task(world).into() };
        let task_id = row.id;
        let token = match self.rng.below(12) {
            0 => Some(row.epoch - 1),
            1 => Some(row.accepted_epoch),
            _ if row.plain => None,
            _ => Some(row.epoch),
        };
        let next = if self.rng.chance(40) { self.continuation(world, &row) } else { None };
        let rng = &mut self.rng;
        match rng.below(28) {
            24 => {
                let refusal = Refusal::new(Code::StoreRefused, "it cannot be stored");
                RefuseTaskResult { task_id, token, refusal }.into()
            }
            0..9 => CompleteTask { task_id, token, output: json(rng), next }.into(),
            9..13 => FailTask {
                task_id,
                token,
                error: rng.of(["no luck", "no luck", "no\0luck"]).into(),
                failure: failure(rng),
                non_retryable: rng.chance(20),
                next_delay_ms: rng.of([None, None, Some(0), Some(500)]),
            }
            .into(),
            13..15 => HeartbeatTask { task_id, token, details: Some(json(rng)) }.into(),
            15 | 25 if rng.chance(50) => ExtendTask { task_id, token: token.unwrap_or_default() }.into(),
            15 | 25 => {
                ReportProgress { task_id, token, progress: rng.of([0.5, 1.0, 2.0]), details: None }.into()
            }
            16 => {
                AppendLogLine { task_id, token, level: LogLevel::Info, message: name(rng, "line", 9) }.into()
            }
            17 => SetTaskState { task_id, token, name: name(rng, "s", 3), value: json(rng) }.into(),
            18 => GetTaskState { task_id, name: name(rng, "s", 3) }.into(),
            19 => ListTaskState { task_id }.into(),
            20 | 22 => ClearTaskState { task_id, token, name: name(rng, "s", 3) }.into(),
            // Rarely accepted, because the claim must be the current one.
            21 | 23 => ClearAllTaskState { task_id, token }.into(),
            _ => ReleaseTaskClaim { task_id, token: token.unwrap_or(row.epoch) }.into(),
        }
    }

    /// The step of a task's workflow that follows the task's success; sometimes a step that does not follow.
    fn continuation(&mut self, world: &Snapshot, task: &Task) -> Option<Box<Continuation>> {
        let row = world.executions.iter().find(|row| Some(row.id) == task.execution_id)?.clone();
        let mut step = self.step(world, &row, task.tenant_id);
        step.token = Some(row.epoch + self.rng.of([0, 1, 1, 1, 1, 2]));
        step.base_sequence = Some(row.last_sequence + self.rng.of([0, 1, 1, 1, 1, 2]));
        let claimer = self.claim(WorkClass::Workflow).claimer;
        Some(Box::new(Continuation { claimer: Claimer { session: row.session, ..claimer }, step }))
    }

    pub(crate) fn spec(&mut self) -> TaskSpec {
        let rng = &mut self.rng;
        let mut spec = TaskSpec::new(rng.of(TYPES), json(rng));
        spec.queue = rng.chance(30).then(|| rng.of(QUEUES).into());
        spec.max_retries = rng.of([None, Some(0), Some(1), Some(2), Some(5), Some(-1)]);
        spec.schedule_to_start_ms = rng.chance(10).then_some(2_000);
        spec.start_to_close_ms = rng.chance(20).then_some(1_500);
        spec.total_ms = rng.chance(10).then_some(8_000);
        spec.heartbeat_ms = rng.chance(10).then_some(700);
        spec.key = key(rng, 15);
        spec
    }

    fn create_task(&mut self, world: &Snapshot) -> CreateTask {
        let mut create = CreateTask::standalone(self.spec());
        create.scheduled_ms = self.rng.chance(20).then(|| self.now_ms + self.rng.below(4_000) as i64);
        if self.rng.chance(15) {
            create.execution_id = self.rng.pick(&world.executions).map(|row| row.id);
        }
        create
    }

    fn task_admin(&mut self, world: &Snapshot, _tenant: TenantId) -> Op {
        let any = self.rng.pick(&world.tasks).map(|row| row.id);
        let failed: Vec<&Task> = world.tasks.iter().filter(|row| row.status == TaskStatus::Failed).collect();
        match (self.rng.below(8), any) {
            (0..2, _) | (_, None) => self.create_task(world).into(),
            (2, _) => {
                CreateTasks { items: (0..self.rng.below(4)).map(|_| self.create_task(world)).collect() }
                    .into()
            }
            (3..5, Some(task_id)) => CancelTask { task_id, cooperative: self.rng.chance(50) }.into(),
            (5, Some(task_id)) => DeleteTask { task_id }.into(),
            (_, Some(task_id)) => {
                let task_id = self.rng.pick(&failed).map_or(task_id, |row| row.id);
                RetryTask { task_id }.into()
            }
        }
    }

    fn fire(&mut self, world: &Snapshot) -> Op {
        let come: Vec<&Due> = world.due.iter().filter(|row| row.due_ms <= self.now_ms).collect();
        // Sometimes a row that is not due yet: it must do nothing.
        let due = if self.rng.chance(85) { self.rng.pick(&come).copied() } else { None };
        match due.or_else(|| self.rng.pick(&world.due)) {
            Some(due) => FireDue { due: due.clone() }.into(),
            None => CleanIdempotencyKeys { until_ms: self.now_ms, max: 100 }.into(),
        }
    }

    fn look(&mut self, world: &Snapshot) -> Op {
        let executions = world.executions.iter().map(|row| Open::Execution(row.id));
        let all: Vec<Open> = executions.chain(world.tasks.iter().map(|row| Open::Task(row.id))).collect();
        let subject = self.rng.pick(&all).copied().unwrap_or(Open::Task(Uuid::nil()));
        CheckOrphans { subject }.into()
    }

    /// A random subject to repair. If it is sound, nothing may change.
    fn mend(&mut self, world: &Snapshot) -> Mend {
        let rng = &mut self.rng;
        let subject = match rng.below(6) {
            0 => rng.pick(&world.tasks).map(|row| Subject::Task(row.id)),
            1 => rng
                .pick(&world.timers)
                .map(|row| Subject::Timer { execution_id: row.execution_id, name: row.name.clone() }),
            2 => rng.pick(&world.promises).map(|row| Subject::Promise(row.id)),
            3 => rng.pick(&world.ready).map(|row| Subject::Ready(row.clone())),
            4 => rng.pick(&world.due).map(|row| Subject::Due(row.clone())),
            _ => rng.pick(&world.executions).map(|row| Subject::Execution(row.id)),
        };
        Mend { subject: subject.unwrap_or(Subject::Quota) }
    }

    fn outside(&mut self, world: &Snapshot, _tenant: TenantId) -> Op {
        let choice = self.rng.below(20);
        let fits = |row: &&Execution| match choice {
            16 => row.status == ExecutionStatus::Running,
            17 => row.failure_code.is_some(),
            18 | 19 => row.status.is_terminal(),
            _ => !row.status.is_terminal(),
        };
        let fitting: Vec<&Execution> = world.executions.iter().filter(fits).collect();
        // Usually where it makes sense; sometimes anywhere.
        let row = if self.rng.chance(80) { self.rng.pick(&fitting).copied() } else { None };
        let Some(row) = row.or_else(|| self.rng.pick(&world.executions)).cloned() else {
            return self.start().into();
        };
        let execution_id = row.id;
        let open: Vec<&Promise> =
            world.promises.iter().filter(|row| row.status == PromiseStatus::Open).collect();
        let promise = if self.rng.chance(80) { self.rng.pick(&open).copied() } else { None };
        let promise = promise.or_else(|| self.rng.pick(&world.promises)).map(|row| row.id);
        let rng = &mut self.rng;
        match choice {
            0..3 => SignalWorkflow { execution_id, name: name(rng, "signal", 3), value: json(rng) }.into(),
            3..5 => {
                let key = name(rng, "key", 8);
                let reason = "by its key".into();
                let action = match rng.below(6) {
                    0..4 => KeyedAction::Signal { name: name(rng, "signal", 3), value: json(rng) },
                    4 => KeyedAction::Cancel { reason, cascade: rng.chance(70) },
                    _ => KeyedAction::Terminate { reason },
                };
                ActByKey { key, action }.into()
            }
            5..8 => {
                let mut start = self.start();
                start.key = key(&mut self.rng, 95);
                SignalWithStart { start, name: "go".into(), value: json(&mut self.rng) }.into()
            }
            8..10 => {
                CancelWorkflow { execution_id, reason: "no longer wanted".into(), cascade: rng.chance(70) }
                    .into()
            }
            10 => TerminateWorkflow { execution_id, reason: "stop".into() }.into(),
            11..16 => {
                let by_key = PromiseRef::Key(name(rng, "key", 8));
                let promise = promise.filter(|_| rng.chance(80)).map_or(by_key, PromiseRef::Id);
                let answer = if rng.chance(70) {
                    Answer::Resolve(json(rng))
                } else {
                    Answer::Reject("rejected".into())
                };
                AnswerPromise { promise, answer }.into()
            }
            16 => ReleaseWorkflowClaim { execution_id, token: row.epoch - i64::from(rng.chance(20)) }.into(),
            17 => ReleaseHeldBack { execution_id }.into(),
            18 => RetryWorkflow { execution_id, key: None }.into(),
            _ => DeleteWorkflow { execution_id }.into(),
        }
    }

    fn admin(&mut self, world: &Snapshot, tenant: TenantId) -> Op {
        let token = self.rng.pick(&world.worker_tokens).map_or(tenant, |row| row.id);
        let worker = self.rng.pick(&world.workers).map_or(tenant, |row| row.id);
        let rng = &mut self.rng;
        match rng.below(16) {
            // Large enough that a run can continue, small enough that it reaches the limit.
            11 => SetQuota {
                monthly_workflow_runs: rng.of([None, None, Some(50), Some(-1)]),
                concurrent_workflows: rng.of([None, None, Some(15), Some(30)]),
                requests_per_second: rng.of([None, Some(1), Some(50)]),
                burst: rng.of([None, None, Some(3)]),
            }
            .into(),
            12 | 13 => TakeRequests { most: rng.of([0, 1, 7, 1_000]) }.into(),
            14 => CleanAudit { before_ms: self.now_ms - rng.of([0, 1_000, 60_000]), max: 10 }.into(),
            10 => ForgetWorkers { before_ms: self.now_ms - 100_000, max: 10 }.into(),
            0 => CreateTenant {
                id: None,
                slug: name(rng, "tenant", 4),
                name: "A tenant".into(),
                retention_ms: None,
            }
            .into(),
            1 => UpdateTenant { name: "Renamed".into(), retention_ms: Some(60_000) }.into(),
            2 => CreateWorkerToken {
                name: "token".into(),
                hash: Bytes::from((0..32).map(|_| rng.draw() as u8).collect::<Vec<_>>()),
                expires_ms: None,
            }
            .into(),
            3 | 15 => RevokeWorkerToken { token_id: token }.into(),
            4 | 5 => RegisterWorker {
                id: None,
                name: name(rng, "worker", 3),
                build_id: "b1".into(),
                host: "localhost".into(),
                process_id: "1".into(),
                queue: Some(rng.of(QUEUES).into()),
                capabilities: vec![Capability {
                    class: rng.of([WorkClass::Workflow, WorkClass::Task]),
                    kind: rng.of(KINDS).into(),
                    version: Some(rng.of(VERSIONS).into()),
                    timeout_ms: None,
                    input_schema: rng.chance(50).then(|| Payload::from_static(b"{}")),
                    output_schema: None,
                }],
                session: rng.chance(50),
            }
            .into(),
            6 if rng.chance(50) => SeeWorker { worker_id: worker }.into(),
            6 => HeartbeatWorker { worker_id: worker }.into(),
            7 => PauseQueue { queue: rng.of(QUEUES).into() }.into(),
            _ => ResumeQueue { queue: rng.of(QUEUES).into() }.into(),
        }
    }
}
