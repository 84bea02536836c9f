//! A running execution and a running task, with valid requests about them that a test changes in one place.

use flovyn_engine::ids::Payload;
use flovyn_engine::request::*;
use flovyn_engine::state::*;
use flovyn_engine::{Limits, Op};
use uuid::Uuid;

use crate::world::{QUEUE, World, json, submit};

/// A world with one running execution and one running task, and builders of requests about them.
pub(crate) struct Scene {
    pub(crate) world: World,
    pub(crate) activation: flovyn_engine::reply::Activation,
    pub(crate) task_id: Uuid,
}

impl Scene {
    pub(crate) fn new(limits: Limits) -> Self {
        let mut world = World::with(limits);
        world.start("order");
        let activation = world.claim_workflow("order");
        let task_id = world.create_task("mail");
        world.claim_task("mail");
        Self { world, activation, task_id }
    }

    pub(crate) fn commands(&self, commands: Vec<Command>) -> Op {
        submit(&self.activation, commands, Outcome::Suspended).into()
    }

    pub(crate) fn outcome(&self, outcome: Outcome) -> Op {
        submit(&self.activation, Vec::new(), outcome).into()
    }

    pub(crate) fn signal(&self) -> Op {
        SignalWorkflow { execution_id: self.activation.execution.id, name: "go".into(), value: json("1") }
            .into()
    }
}

pub(crate) fn start(change: impl FnOnce(&mut StartWorkflow)) -> Op {
    let mut start = StartWorkflow::new("order", QUEUE, Payload::new());
    change(&mut start);
    start.into()
}

pub(crate) fn task(change: impl FnOnce(&mut TaskSpec)) -> Op {
    let mut spec = TaskSpec::new("mail", Payload::new());
    change(&mut spec);
    CreateTask::standalone(spec).into()
}

pub(crate) fn keyed(name: &str, ttl_ms: Option<i64>) -> Op {
    start(|start| start.key = Some(KeySpec { name: name.into(), ttl_ms }))
}

pub(crate) fn worker(change: impl FnOnce(&mut RegisterWorker)) -> Op {
    let mut worker = RegisterWorker {
        id: None,
        name: "w".into(),
        build_id: "b".into(),
        host: "h".into(),
        process_id: "1".into(),
        queue: None,
        capabilities: Vec::new(),
        session: true,
    };
    change(&mut worker);
    worker.into()
}

pub(crate) fn capability(kind: &str) -> Capability {
    Capability {
        class: WorkClass::Task,
        kind: kind.into(),
        version: None,
        timeout_ms: None,
        input_schema: None,
        output_schema: None,
    }
}
