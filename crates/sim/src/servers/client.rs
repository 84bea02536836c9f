//! Clients that start work, and an operator who sends signals, answers promises, and cancels or terminates some work.

use std::collections::BTreeSet;
use std::sync::Arc;

use flovyn_engine::ids::TenantId;
use flovyn_engine::request::{
    self, AnswerPromise, CancelWorkflow, CreateTask, KeySpec, Op, PromiseRef, SignalWorkflow, StartWorkflow,
    TerminateWorkflow,
};
use flovyn_engine::state::{EventKind, PromiseStatus};
use flovyn_engine::{Code, Reply};
use serde_json::json;
use uuid::Uuid;

use super::program::{self, KIND, QUEUE};
use super::server::{Answer, Cluster, may_try_again};

/// How often a client tries a request with a key.
const TRIES: usize = 8;
/// Keys that clients share.
const KEYS: usize = 6;

pub(super) struct Client {
    pub(super) cluster: Arc<Cluster>,
    pub(super) number: usize,
    pub(super) tenants: Vec<TenantId>,
}

impl Client {
    pub(super) async fn run(self, operations: usize) {
        let world = self.cluster.world.clone();
        for operation in 0..operations {
            world.sleep(world.below(1_500)).await;
            let tenant = self.tenants[world.below(self.tenants.len())];
            let (op, name, tries) = self.operation(operation);
            let wish = (tenant, name);
            if tries > 1 {
                world.lock().record.wishes.entry(wish.clone()).or_default().key = Some(wish.1.clone());
            }
            for _ in 0..tries {
                let outcome = self.attempt(tenant, op.clone(), tries > 1).await;
                world.lock().record.tried(&wish, outcome);
                match outcome {
                    Err(None) => {}
                    Err(Some(code)) if may_try_again(code) => {}
                    _ => break,
                }
                world.sleep(50 + world.below(400)).await;
            }
        }
    }

    /// The request, the name of the work, and how often the request may be tried.
    fn operation(&self, operation: usize) -> (Op, String, usize) {
        let world = &self.cluster.world;
        let own = format!("wish-{}-{operation}", self.number);
        let number = world.lock().rng.draw() % 100_000;
        let shared = world.below(KEYS);
        match world.below(10) {
            0..4 => {
                let start = StartWorkflow::new(KIND, QUEUE, program::input(number, &own));
                (start.into(), own, 1)
            }
            4..8 => {
                let key = format!("key-{shared}");
                // All clients that use a key make the same request with it.
                let mut start = StartWorkflow::new(KIND, QUEUE, program::input(shared as u64, &key));
                start.key = Some(KeySpec { name: key.clone().into(), ttl_ms: None });
                (start.into(), key, TRIES)
            }
            8 => {
                let spec = program::task_spec(number, shared as u64 % 2, &own);
                (CreateTask::standalone(spec).into(), own, 1)
            }
            _ => {
                let key = format!("task-key-{shared}");
                let mut spec = program::task_spec(shared as u64, 0, &key);
                spec.key = Some(KeySpec { name: key.clone().into(), ttl_ms: None });
                (CreateTask::standalone(spec).into(), key, TRIES)
            }
        }
    }

    async fn attempt(&self, tenant: TenantId, op: Op, keyed: bool) -> Result<Uuid, Option<Code>> {
        let world = &self.cluster.world;
        match self.cluster.call(tenant, op, keyed).await {
            Answer::Reply(Reply::Started(started)) => {
                world
                    .say(|| format!("client {} told of {}", self.number, super::short(started.execution_id)));
                Ok(started.execution_id)
            }
            Answer::Reply(Reply::TaskCreated(created)) => Ok(created.task_id),
            Answer::Refused(refusal) => {
                if !may_try_again(refusal.code) {
                    world.violated("unexpected refusal", refusal.to_string());
                }
                Err(Some(refusal.code))
            }
            _ => Err(None),
        }
    }
}

/// A signal that no program waits for.
const UNASKED: &str = "unasked";

/// Finds open work and gives it what it waits for. The operator reads the database directly, but acts like a client.
pub(super) struct Operator {
    pub(super) cluster: Arc<Cluster>,
    done: BTreeSet<(TenantId, Uuid, String)>,
}

impl Operator {
    pub(super) fn new(cluster: Arc<Cluster>) -> Self {
        Self { cluster, done: BTreeSet::new() }
    }

    pub(super) async fn run(mut self) {
        let world = self.cluster.world.clone();
        loop {
            world.sleep(200 + world.below(400)).await;
            world.step_clock();
            let rows = world.snapshot().await;
            let open: BTreeSet<_> = rows
                .executions
                .iter()
                .filter(|row| !row.status.is_terminal())
                .map(|row| (row.tenant_id, row.id))
                .collect();
            for event in rows.events.iter().filter(|event| event.kind == EventKind::WorkflowStarted) {
                let id = (event.tenant_id, event.execution_id);
                if !open.contains(&id) || program::is_entity(event) {
                    continue;
                }
                let number = program::number_of(event);
                let name =
                    program::read(event.payload.as_ref())["name"].as_str().unwrap_or_default().to_owned();
                if number % 13 == 7 && name.starts_with("wish") {
                    self.stop(id, number.is_multiple_of(2)).await;
                }
                for signal in program::signals(number) {
                    self.signal(id, signal).await;
                }
                // Nobody waits for this signal: it may arrive while the workflow ends.
                if world.below(3) == 0 {
                    self.signal(id, UNASKED.to_owned()).await;
                }
            }
            for promise in rows.promises.iter().filter(|promise| promise.status == PromiseStatus::Open) {
                self.answer(promise.tenant_id, promise.id).await;
            }
        }
    }

    async fn signal(&mut self, id: (TenantId, Uuid), name: String) {
        let wish = (id.0, id.1, name.clone());
        if self.done.contains(&wish) {
            return;
        }
        let world = self.cluster.world.clone();
        world.lock().record.signals.entry((id, name.clone())).or_default().1 += 1;
        let op = SignalWorkflow {
            execution_id: id.1,
            name: name.clone().into(),
            value: program::bytes(&json!(1)),
        };
        match self.cluster.call(id.0, op.into(), false).await {
            Answer::Reply(_) => {
                world.lock().record.signals.entry((id, name)).or_default().0 += 1;
                self.done.insert(wish);
            }
            Answer::Refused(refusal) if refusal.code == Code::ExecutionFinished => {
                self.done.insert(wish);
            }
            _ => {}
        }
    }

    async fn answer(&mut self, tenant: TenantId, promise: Uuid) {
        let op = AnswerPromise {
            promise: PromiseRef::Id(promise),
            answer: request::Answer::Resolve(program::bytes(&json!("yes"))),
        };
        self.cluster.call(tenant, op.into(), true).await;
    }

    async fn stop(&mut self, id: (TenantId, Uuid), at_once: bool) {
        let wish = (id.0, id.1, "stop".to_owned());
        if self.done.contains(&wish) {
            return;
        }
        let world = self.cluster.world.clone();
        world.lock().record.asked_to_stop.insert(id);
        let reason = "no longer wanted".into();
        let op: Op = match at_once {
            true => TerminateWorkflow { execution_id: id.1, reason }.into(),
            false => CancelWorkflow { execution_id: id.1, reason, cascade: true }.into(),
        };
        if let Answer::Reply(_) = self.cluster.call(id.0, op, true).await {
            self.done.insert(wish);
        }
    }
}
