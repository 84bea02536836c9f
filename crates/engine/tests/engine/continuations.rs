//! Continuations: a workflow's next step that is sent with the success of its task. It is accepted if the next
//! activation would have the same result, and left out otherwise. The success counts in both cases.

use flovyn_engine::ids::ExecutionId;
use flovyn_engine::reply::TaskDelivery;
use flovyn_engine::request::*;
use flovyn_engine::state::*;
use flovyn_engine::{Limits, Reply};
use uuid::Uuid;

use crate::world::{BEGIN_MS, QUEUE, World, claim, complete, done, id, json, schedule_task, submit};

const SESSION: Uuid = Uuid::from_u128(7);

/// A workflow that waits for a task that the same session runs.
struct Scene {
    world: World,
    id: ExecutionId,
    delivery: TaskDelivery,
}

impl Scene {
    fn new(limits: Limits) -> Self {
        let mut world = World::with(limits);
        let id = world.start("order");
        let first = world.claim(of_session(WorkClass::Workflow, "order")).workflows.remove(0);
        world.must(submit(&first, vec![schedule_task(1, "pay")], Outcome::Suspended));
        let delivery = world.claim(of_session(WorkClass::Task, "pay")).tasks.remove(0);
        Self { world, id, delivery }
    }

    /// The success of the task, with the step that follows from the current state.
    fn success(&self, commands: Vec<Command>, outcome: Outcome) -> CompleteTask {
        let execution = self.world.execution(self.id);
        let step = SubmitActivation {
            execution_id: self.id,
            token: Some(execution.epoch + 1),
            base_sequence: Some(execution.last_sequence + 1),
            commands,
            outcome,
            unread_signals: 0,
            first_number: None,
            build_id: None,
            clean_up: None,
        };
        let claimer = of_session(WorkClass::Workflow, "order").claimer;
        CompleteTask { next: Some(Box::new(Continuation { claimer, step })), ..complete(&self.delivery) }
    }

    /// The success counts, the step does not: the workflow is enqueued, as if the success had come alone.
    #[track_caller]
    fn left_out(&mut self, success: CompleteTask) {
        let mut alone = self.world.clone();
        alone.must(CompleteTask { next: None, ..success.clone() });
        let reply = self.world.must(success);
        assert_eq!(reply, Reply::TaskReported { status: TaskStatus::Completed, repeated: false });
        assert!(alone.snapshot() == self.world.snapshot(), "the step has left a trace");
    }
}

fn of_session(class: WorkClass, kind: &str) -> Claim {
    let claimer = Claimer {
        worker: "stream".into(),
        session: Some(SESSION),
        plain: false,
        cooperative: true,
        build: None,
    };
    Claim { claimer, ..claim(class, kind) }
}

fn kinds(world: &World, id: ExecutionId) -> Vec<EventKind> {
    world.events(id).iter().map(|event| event.kind).collect()
}

#[test]
fn the_next_step_is_taken_with_the_success() {
    let mut scene = Scene::new(Limits::default());
    let success = scene.success(vec![schedule_task(2, "ship")], Outcome::Suspended);
    let reply = scene.world.must(success.clone());
    assert_eq!(reply, Reply::Continued { execution: ExecutionStatus::Waiting });
    let expected = [
        EventKind::WorkflowStarted,
        EventKind::TaskScheduled,
        EventKind::TaskCompleted,
        EventKind::TaskScheduled,
    ];
    assert_eq!(kinds(&scene.world, scene.id), expected);
    let row = scene.world.execution(scene.id);
    assert_eq!((row.base_sequence, row.epoch, row.accepted_epoch), (3, 2, 2));
    assert!(scene.world.claim(of_session(WorkClass::Workflow, "order")).is_empty(), "it waits");
    // Sent again because the answer was lost: the success is known, and the step is not done twice.
    let before = scene.world.snapshot();
    let again = scene.world.must(success);
    assert_eq!(again, Reply::TaskReported { status: TaskStatus::Completed, repeated: true });
    assert!(before == scene.world.snapshot());
    // The workflow continues to its end.
    scene.delivery = scene.world.claim(of_session(WorkClass::Task, "ship")).tasks.remove(0);
    let last = scene.success(Vec::new(), done());
    assert_eq!(scene.world.must(last), Reply::Continued { execution: ExecutionStatus::Completed });
}

#[test]
fn what_the_worker_has_not_seen_comes_first() {
    let mut scene = Scene::new(Limits::default());
    let success = scene.success(Vec::new(), done());
    scene.world.must(SignalWorkflow { execution_id: scene.id, name: "stop".into(), value: json("1") });
    scene.left_out(success);
}

#[test]
fn a_step_of_another_claim_is_left_out() {
    for token in [0, 1, 3] {
        let mut scene = Scene::new(Limits::default());
        let mut success = scene.success(Vec::new(), done());
        success.next.as_mut().unwrap().step.token = Some(token);
        scene.left_out(success);
    }
}

#[test]
fn a_step_behind_one_that_was_not_accepted_is_left_out() {
    let mut scene = Scene::new(Limits::default());
    let signal = SignalWorkflow { execution_id: scene.id, name: "go".into(), value: json("1") };
    scene.world.must(signal.clone());
    let second = scene.world.claim(of_session(WorkClass::Workflow, "order")).workflows.remove(0);
    // The step with one command never arrives; instead there is another signal.
    scene.world.must(ReleaseWorkflowClaim { execution_id: scene.id, token: second.token });
    scene.world.must(signal);
    let success = scene.success(Vec::new(), done());
    scene.left_out(success);
}

#[test]
fn while_somebody_runs_the_workflow_nobody_else_does() {
    let mut scene = Scene::new(Limits::default());
    scene.world.must(SignalWorkflow { execution_id: scene.id, name: "go".into(), value: json("1") });
    scene.world.claim(of_session(WorkClass::Workflow, "order"));
    let success = scene.success(Vec::new(), done());
    scene.left_out(success);
}

#[test]
fn only_the_session_that_has_it_in_memory_goes_on_with_it() {
    let mut scene = Scene::new(Limits::default());
    let mut success = scene.success(Vec::new(), done());
    success.next.as_mut().unwrap().claimer.session = Some(Uuid::from_u128(8));
    scene.left_out(success);
}

#[test]
fn a_paused_queue_holds_it_back() {
    let mut scene = Scene::new(Limits::default());
    scene.world.must(PauseQueue { queue: QUEUE.into() });
    let success = scene.success(Vec::new(), done());
    scene.left_out(success);
}

#[test]
fn a_step_of_another_workflow_is_left_out() {
    let mut scene = Scene::new(Limits::default());
    let other = scene.world.start("order");
    let mut success = scene.success(Vec::new(), done());
    let step = &mut success.next.as_mut().unwrap().step;
    (step.execution_id, step.token, step.base_sequence) = (other, Some(1), Some(1));
    scene.left_out(success);
}

#[test]
fn a_step_that_is_refused_does_not_take_the_success_along() {
    // The id of another task, after a command that would have been accepted.
    let mut scene = Scene::new(Limits::default());
    let commands = vec![schedule_task(2, "ship"), schedule_task(1, "ship")];
    let success = scene.success(commands, Outcome::Suspended);
    scene.left_out(success);
    // More events than the history has room for.
    let mut scene = Scene::new(Limits { history_events: 7, ..Limits::default() });
    let commands = (2..6).map(|number| schedule_task(number, "ship")).collect();
    let success = scene.success(commands, Outcome::Suspended);
    scene.left_out(success);
}

#[test]
fn a_step_that_is_no_step_does_not_harm_the_success() {
    let mut scene = Scene::new(Limits { commands: 1, ..Limits::default() });
    let commands = vec![schedule_task(2, "ship"), schedule_task(3, "ship")];
    let success = scene.success(commands, Outcome::Suspended);
    scene.left_out(success);
}

#[test]
fn success_and_step_share_a_batch_with_others() {
    let mut scene = Scene::new(Limits::default());
    let success = scene.success(vec![schedule_task(2, "ship")], Outcome::Suspended);
    let hand_off = Claim { only: Some(vec![(BEGIN_MS, id(2))]), ..of_session(WorkClass::Task, "ship") };
    let claim = of_session(WorkClass::Workflow, "order");
    let replies = scene.world.batch(vec![success.into(), hand_off.into(), claim.into()]);
    assert_eq!(replies[0], Ok(Reply::Continued { execution: ExecutionStatus::Waiting }));
    assert!(matches!(&replies[1], Ok(Reply::Claimed(claimed)) if claimed.tasks.len() == 1), "{replies:?}");
    assert!(matches!(&replies[2], Ok(Reply::Claimed(claimed)) if claimed.is_empty()), "{replies:?}");
}
