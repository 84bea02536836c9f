//! Workers: they claim, think and report, and sometimes die or freeze while they hold claims.

use std::sync::Arc;

use flovyn_engine::event::TaskPayloads;
use flovyn_engine::ids::{Payload, TenantId, WorkerId};
use flovyn_engine::reply::{Activation, TaskDelivery};
use flovyn_engine::request::*;
use flovyn_engine::state::*;
use flovyn_engine::{Code, Limits, Op, Reply};
use flovyn_service::Caller;
use flovyn_store::LoggedEvent;
use serde_json::json;
use uuid::Uuid;

use super::chaos::Fault;
use super::program::{self, KIND, QUEUE, TASK};
use super::record;
use super::server::{Answer, By, Cluster, Machine, limits, may_try_again};

/// How often a worker sends a report that is not answered.
const TRIES: usize = 6;
const PAGE: usize = 100;
/// Each worker has one of these builds. An execution that one build has failed on is left to the other build.
pub(super) const BUILDS: [&str; 2] = ["old", "new"];

#[derive(Clone)]
pub(super) struct Worker {
    pub(super) cluster: Arc<Cluster>,
    pub(super) tenant: TenantId,
    pub(super) name: String,
    pub(super) build: &'static str,
    /// For a worker without tokens: its connection. A new life has a new connection.
    pub(super) connection: Option<i64>,
}

/// The kind of client that a worker is for the servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It registers a session, whose heartbeats renew its claims.
    Session,
    WithoutSession,
    /// A client of the public protocol. It registers, and may send heartbeats.
    WithoutTokens,
}

/// A workflow in a worker's memory.
struct Known {
    worker: String,
    build: &'static str,
    execution: Execution,
    history: Vec<LoggedEvent>,
}

impl Known {
    /// The next step after this task's success, if no other event arrives.
    fn next(mut self, task: &Task, output: &Payload) -> Option<Box<Continuation>> {
        let last = self.history.last()?.event.clone();
        let sequence = last.sequence + 1;
        let event = Event {
            sequence,
            kind: EventKind::TaskCompleted,
            origin: Origin::External,
            subject: Some(task.id),
            ..last
        };
        let payloads = TaskPayloads { output: Some(output.clone()), ..TaskPayloads::default() };
        self.history.push(LoggedEvent { event, task: Some(payloads) });
        let decision = program::decide(self.execution.id, &self.history);
        let step = SubmitActivation {
            execution_id: self.execution.id,
            token: Some(self.execution.epoch + 1),
            base_sequence: Some(sequence),
            commands: decision.commands,
            outcome: decision.outcome,
            unread_signals: 0,
            first_number: None,
            build_id: Some(self.build.into()),
            clean_up: None,
        };
        let claimer = Claimer {
            worker: self.worker.into(),
            session: self.execution.session,
            plain: false,
            cooperative: true,
            build: Some(self.build.into()),
        };
        Some(Box::new(Continuation { claimer, step }))
    }
}

/// A worker has died, or lost its connection and starts again. Its claims end when its session's lease expires.
struct Died;

impl Worker {
    /// Runs for the whole simulation: after each death, a new process replaces the worker.
    pub(super) async fn run(mut self, class: WorkClass, kind: Kind) {
        loop {
            self.connection =
                (kind == Kind::WithoutTokens).then(|| self.cluster.world.lock().rng.draw() as i64);
            let session = match kind {
                Kind::Session => self.register(class, true).await,
                Kind::WithoutSession => None,
                Kind::WithoutTokens => self.register(class, false).await,
            };
            // Some clients of the public protocol never send a heartbeat.
            let beats = kind == Kind::Session || self.cluster.world.below(2) == 0;
            let heart = session.filter(|_| beats).map(|session| tokio::spawn(self.clone().beat(session)));
            let mut connections = Vec::new();
            while let Ok(()) = self.turn(class, session, &mut connections).await {
                // A dead server may have made claims that never reached the worker. They are released when the worker
                // reconnects.
                if connections.iter().any(|server| server.is_dead()) {
                    break;
                }
            }
            if let Some(heart) = heart {
                heart.abort();
            }
            let world = &self.cluster.world;
            world.sleep(200 + world.below(2_000)).await;
        }
    }

    /// The sender as the servers see it. `elsewhere`: on a connection that made no claim.
    fn by(&self, elsewhere: bool) -> By {
        let connection = self.connection.filter(|_| !elsewhere);
        let peer = self.connection.map(|_| Arc::new(Peer { credential: Some(1), connection, worker: None }));
        By { caller: Caller { peer, ..self.tenant.into() }, without_tokens: self.connection.is_some() }
    }

    async fn register(&self, class: WorkClass, session: bool) -> Option<WorkerId> {
        let kind = if class == WorkClass::Task { TASK } else { KIND };
        let register = RegisterWorker {
            // Every life has its own session.
            id: Some(Uuid::from_u64_pair(self.cluster.world.lock().rng.draw(), 0x8000_0000_0000_0001)),
            name: self.name.clone().into(),
            build_id: self.build.into(),
            host: "simulated".into(),
            process_id: "1".into(),
            queue: Some(QUEUE.into()),
            capabilities: vec![Capability {
                class,
                kind: kind.into(),
                version: None,
                timeout_ms: None,
                input_schema: None,
                output_schema: None,
            }],
            session,
        };
        match self.cluster.call(self.tenant, register.into(), false).await {
            Answer::Reply(Reply::Registered { worker_id }) => Some(worker_id),
            // It works without a session until its next life.
            _ => None,
        }
    }

    async fn beat(self, worker_id: WorkerId) {
        loop {
            self.cluster.world.sleep(1_200).await;
            self.cluster.call(self.tenant, HeartbeatWorker { worker_id }.into(), false).await;
        }
    }

    async fn turn(
        &self,
        class: WorkClass,
        session: Option<WorkerId>,
        connections: &mut Vec<Arc<Machine>>,
    ) -> Result<(), Died> {
        let world = &self.cluster.world;
        let kind = if class == WorkClass::Task { TASK } else { KIND };
        let claim = Claim {
            class,
            claimer: Claimer {
                worker: self.name.clone().into(),
                session,
                plain: self.connection.is_some(),
                cooperative: self.connection.is_none(),
                build: Some(self.build.into()),
            },
            queue: QUEUE.into(),
            kinds: vec![ClaimKind { kind: kind.into(), versions: Vec::new(), timeout_ms: None }],
            max: 1 + world.below(3),
            only: None,
            provisional: self.connection.is_none() && world.below(2) == 0,
            // The other workers receive held-back executions from the dispatcher only.
            held_back: self.build == BUILDS[1],
        };
        if let Some(worker_id) = session.filter(|_| self.connection.is_some() && world.below(3) == 0) {
            self.cluster.call(self.tenant, SeeWorker { worker_id }.into(), false).await;
        }
        let claimed = self.cluster.poll(self.by(false).caller, claim, connections).await.ok_or(Died)?;
        if claimed.is_empty() {
            world.sleep(20 + world.below(50)).await;
        }
        for item in claimed.workflows {
            self.activate(item).await?;
        }
        for item in claimed.tasks {
            self.perform(item).await?;
        }
        Ok(())
    }

    /// Lets time pass. The worker may die or freeze meanwhile.
    async fn think(&self, class: WorkClass, ms: usize) -> Result<(), Died> {
        let world = &self.cluster.world;
        // Without tokens, it matters what other workers do meanwhile. These workers are slower, freeze more often, and
        // wake up just after another worker has received their work.
        let lease_ms = match class {
            WorkClass::Task => limits().task_lease_ms,
            _ => limits().workflow_lease_ms,
        };
        let lease_ms = usize::try_from(lease_ms).unwrap_or_default();
        let (slower, times, shortest, longest) = match self.connection {
            None => (1, 1, 1_000, 10_000),
            Some(_) => (2, 2, lease_ms, lease_ms + 1_200),
        };
        for _ in 0..times {
            world.sleep(world.below(ms * slower / times)).await;
            if world.strikes(Fault::CrashWorker, || self.name.clone()) {
                return Err(Died);
            }
            if world.strikes(Fault::PauseWorker, || self.name.clone()) {
                world.sleep(shortest + world.below(longest - shortest)).await;
            }
        }
        Ok(())
    }

    async fn activate(&self, item: Activation) -> Result<(), Died> {
        let world = &self.cluster.world;
        let id = item.execution.id;
        record::handed(world, (self.tenant, id), item.token);
        world.say(|| format!("{} got {} claim {}", self.name, super::short(id), item.token));
        record::of_build(world, &item.execution, self.build);
        if item.provisional {
            return self.activate_provisionally(item).await;
        }
        let history = self.history(&item).await.ok_or(Died)?;
        self.think(WorkClass::Workflow, 60).await?;
        self.submit(&item, history).await
    }

    /// Runs an activation whose start is not in the log yet: the worker has only what came with the claim.
    async fn activate_provisionally(&self, item: Activation) -> Result<(), Died> {
        let world = &self.cluster.world;
        world.lock().figures.provisional += 1;
        self.think(WorkClass::Workflow, 8).await?;
        let (execution_id, token) = (item.execution.id, item.token);
        if world.below(5) == 0 {
            return self.report_on(ReleaseWorkflowClaim { execution_id, token }.into(), true).await;
        }
        let told = item.new_events.clone().unwrap_or_default();
        let history = told.into_iter().map(|(event, task)| LoggedEvent { event, task }).collect();
        self.submit(&item, history).await?;
        let history = self.history(&item).await.ok_or(Died)?;
        if !history.is_empty() {
            self.compare(&item, &history);
        }
        Ok(())
    }

    async fn submit(&self, item: &Activation, history: Vec<LoggedEvent>) -> Result<(), Died> {
        let (world, id) = (&self.cluster.world, item.execution.id);
        let decision = program::decide(id, &history);
        // Not twice in a row: too many equal refusals would end the execution.
        let may_be_refused = item.execution.activation_failures == 0;
        let (commands, outcome) = match world.below(40) {
            0 => {
                let (code, message) = ("SIMULATED".into(), "it could not be replayed".into());
                (Vec::new(), Outcome::ActivationFailed { code, message })
            }
            1 if may_be_refused => {
                let value = Payload::from(vec![b'1'; Limits::default().payload_bytes + 1]);
                (vec![Command::SetState { name: "large".into(), value }], Outcome::Suspended)
            }
            _ => (decision.commands, decision.outcome),
        };
        let submit = SubmitActivation {
            execution_id: id,
            token: Some(item.token),
            base_sequence: history.last().map(|logged| logged.event.sequence),
            commands,
            outcome,
            // Counted like a client of the public protocol that continues from the history.
            unread_signals: 0,
            first_number: self.connection.map(|_| history.len() as i64 + 1),
            build_id: Some(self.build.into()),
            clean_up: None,
        };
        self.report_on(submit.into(), item.provisional).await
    }

    /// Reads the whole log and checks that it ends with the events that came with the claim.
    async fn history(&self, item: &Activation) -> Option<Vec<LoggedEvent>> {
        let (tenant, id) = (self.tenant, item.execution.id);
        let mut history: Vec<LoggedEvent> = Vec::new();
        for _ in 0..TRIES {
            let after = history.last().map_or(0, |logged| logged.event.sequence);
            let read = self
                .cluster
                .exchange(async move |service| service.store().event_page(tenant, id, after, PAGE).await)
                .await;
            let Some(Ok(page)) = read else { continue };
            let complete = page.len() < PAGE;
            history.extend(page);
            if complete {
                if !item.provisional {
                    self.compare(item, &history);
                }
                return Some(history);
            }
        }
        None
    }

    fn compare(&self, item: &Activation, history: &[LoggedEvent]) {
        let Some(told) = &item.new_events else { return };
        let (base, last) = (item.execution.base_sequence, item.execution.last_sequence);
        let unseen = history
            .iter()
            .map(|logged| &logged.event)
            .filter(|event| event.sequence > base && event.sequence <= last);
        if !told.iter().map(|(event, _)| event).eq(unseen) {
            let message = format!(
                "claim {} of {} came with other events than the log has",
                item.token, item.execution.id
            );
            self.cluster.world.violated("P5 delivery", message);
        }
    }

    async fn perform(&self, item: TaskDelivery) -> Result<(), Died> {
        let world = &self.cluster.world;
        let task_id = item.task.id;
        record::handed(world, (self.tenant, task_id), item.token);
        world.say(|| format!("{} got task {} claim {}", self.name, super::short(task_id), item.token));
        // The worker's memory of the workflow may be outdated by the time of the report.
        let known = self.known(&item).await;
        self.think(WorkClass::Task, 300).await?;
        if item.extensible && self.connection.is_some() && world.below(3) == 0 {
            // The server has received a poll of the worker meanwhile.
            let extend = ExtendTask { task_id, token: item.token };
            self.cluster.call(self.tenant, extend.into(), false).await;
        }
        let input = program::read(Some(&item.task.input));
        let failures = input["failures"].as_i64().unwrap_or_default();
        let token = Some(item.token);
        let op: Op = match item.task.execution_count <= failures {
            true => FailTask {
                task_id,
                token,
                error: "not yet".into(),
                failure: Failure::of_kind("NOT_YET"),
                non_retryable: false,
                next_delay_ms: None,
            }
            .into(),
            false => {
                let doubled = program::doubled(input["n"].as_u64().unwrap_or_default());
                let output = program::bytes(&json!({ "doubled": doubled, "claim": item.token }));
                let next = known.and_then(|known| known.next(&item.task, &output));
                CompleteTask { task_id, token, output, next }.into()
            }
        };
        self.report(op).await
    }

    /// The task's workflow, if the worker's session ran it last and so may have it in memory.
    async fn known(&self, item: &TaskDelivery) -> Option<Known> {
        let (tenant, id) = (self.tenant, item.task.execution_id?);
        if self.connection.is_some() || self.cluster.world.below(2) == 0 {
            return None;
        }
        let read =
            self.cluster.exchange(async move |service| service.store().execution_get(tenant, id).await).await;
        let execution = read?.ok()??;
        let activation =
            Activation { token: execution.epoch, execution, new_events: None, provisional: false };
        let history = self.history(&activation).await?;
        Some(Known { worker: self.name.clone(), build: self.build, execution: activation.execution, history })
    }

    /// Reports until there is an answer, up to a number of tries.
    async fn report(&self, op: Op) -> Result<(), Died> {
        self.report_on(op, false).await
    }

    async fn report_on(&self, op: Op, provisional: bool) -> Result<(), Died> {
        let world = &self.cluster.world;
        let mut unwritten = false;
        for _ in 0..TRIES {
            // Sometimes a report arrives on another connection than the claim's.
            let elsewhere = world.below(8) == 0;
            match self.cluster.call(self.by(elsewhere), op.clone(), true).await {
                Answer::Reply(_) => return Ok(()),
                Answer::Refused(refusal) if may_try_again(refusal.code) => {}
                // The start is not written yet, or never was.
                Answer::Refused(refusal) if provisional && refusal.code == Code::ExecutionNotFound => {
                    unwritten = true;
                }
                Answer::Refused(refusal) => {
                    match refusal.code {
                        Code::StaleClaim | Code::ExecutionFinished => world.lock().figures.stale += 1,
                        // A signal arrived first: the execution is handed out again.
                        Code::EndDeferred => world.lock().figures.deferred_ends += 1,
                        Code::PayloadTooLarge => self.has_ended_claim(&op).await,
                        _ => world.violated("unexpected refusal", format!("{}: {refusal}", op.name())),
                    }
                    return Ok(());
                }
                Answer::None => {}
            }
            world.sleep(50 + world.below(200)).await;
        }
        if unwritten { Ok(()) } else { Err(Died) }
    }

    /// P12: a refusal that a retry cannot cure ends the claim, even if the worker lives on.
    async fn has_ended_claim(&self, op: &Op) {
        let Op::SubmitActivation(op) = op else { return };
        let world = &self.cluster.world;
        world.lock().figures.refused += 1;
        let rows = world.snapshot().await;
        let row = rows.executions.iter().find(|row| row.key() == (self.tenant, op.execution_id));
        if row.is_some_and(|row| row.status == ExecutionStatus::Running && op.token == Some(row.epoch)) {
            let message = format!("claim {:?} of {} outlasts its refusal", op.token, op.execution_id);
            world.violated("P12", message);
        }
    }
}
