//! No wake-up is lost: in every order of events, an execution that waits has seen every event.

use flovyn_engine::ids::ExecutionId;
use flovyn_engine::reply::{Activation, TaskDelivery};
use flovyn_engine::request::*;
use flovyn_engine::snapshot::Snapshot;
use flovyn_engine::state::*;
use flovyn_engine::{Code, Op};

use crate::world::{
    World, claim, complete, create_promise, done, id, json, plain_claim, schedule_child, schedule_task,
    start_timer, submit,
};

/// Every kind of external event.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Happens {
    TaskCompletes,
    TaskFails,
    TimerFires,
    PromiseIsResolved,
    PromiseTimesOut,
    ChildCompletes,
    ChildIsTerminated,
    Signal,
    Cancel,
}

const ALL: [Happens; 9] = [
    Happens::TaskCompletes,
    Happens::TaskFails,
    Happens::TimerFires,
    Happens::PromiseIsResolved,
    Happens::PromiseTimesOut,
    Happens::ChildCompletes,
    Happens::ChildIsTerminated,
    Happens::Signal,
    Happens::Cancel,
];

/// An enqueued execution with one open item of each kind, and a worker that is about to fetch it.
#[derive(Clone)]
struct Scene {
    world: World,
    id: ExecutionId,
    plain: bool,
    good: TaskDelivery,
    bad: TaskDelivery,
    child: Activation,
    claimed: Option<Activation>,
    /// The last event that the worker knew at its last accepted submit.
    seen: i64,
    asked: Vec<Op>,
}

impl Scene {
    fn new(plain: bool) -> Self {
        let mut world = World::new();
        let id = world.start("parent");
        let first = world.claim(parent_claim(plain)).workflows.remove(0);
        let commands = vec![
            schedule_task(1, "good"),
            schedule_task(2, "bad"),
            start_timer("soon", 10),
            create_promise("answer", None),
            create_promise("late", Some(10)),
            schedule_child(10, "child"),
            schedule_child(11, "other-child"),
        ];
        world.must(submit(&first, commands, Outcome::Suspended));
        let (good, bad) = (world.claim_task("good"), world.claim_task("bad"));
        let child = world.claim_workflow("child");
        world.must(SignalWorkflow { execution_id: id, name: "kick".into(), value: json("0") });
        world.advance(1_000);
        Self { world, id, plain, good, bad, child, claimed: None, seen: 0, asked: Vec::new() }
    }

    fn ask(&mut self, op: impl Into<Op>) -> Result<flovyn_engine::Reply, flovyn_engine::Refusal> {
        let op = op.into();
        self.asked.push(op.clone());
        self.world.ask(op)
    }

    fn happen(&mut self, what: Happens) {
        let execution_id = self.id;
        let op: Op = match what {
            Happens::TaskCompletes => complete(&self.good).into(),
            Happens::TaskFails => FailTask {
                task_id: self.bad.task.id,
                token: Some(self.bad.token),
                error: "no".into(),
                failure: Failure::default(),
                non_retryable: true,
                next_delay_ms: None,
            }
            .into(),
            Happens::TimerFires => FireDue { due: self.world.due(DueClass::Timer) }.into(),
            Happens::PromiseIsResolved => {
                let promises = self.world.snapshot().promises;
                let open = promises.iter().find(|row| &*row.name == "answer").unwrap();
                AnswerPromise { promise: PromiseRef::Id(open.id), answer: Answer::Resolve(json("1")) }.into()
            }
            Happens::PromiseTimesOut => FireDue { due: self.world.due(DueClass::PromiseTimeout) }.into(),
            Happens::ChildCompletes => submit(&self.child, Vec::new(), done()).into(),
            Happens::ChildIsTerminated => {
                TerminateWorkflow { execution_id: id(11), reason: "stop".into() }.into()
            }
            Happens::Signal => SignalWorkflow { execution_id, name: "go".into(), value: json("1") }.into(),
            Happens::Cancel => CancelWorkflow { execution_id, reason: "stop".into(), cascade: false }.into(),
        };
        self.ask(op).unwrap();
    }

    /// The worker fetches the execution if it can be claimed.
    fn fetch(&mut self) {
        let claimed = match self.ask(parent_claim(self.plain)) {
            Ok(flovyn_engine::Reply::Claimed(claimed)) => claimed,
            other => panic!("{other:?}"),
        };
        self.claimed = claimed.workflows.into_iter().next();
    }

    fn suspend(&mut self) {
        let Some(activation) = self.claimed.take() else { return };
        let command = Command::RecordOperation { name: "step".into(), result: json("1") };
        match self.ask(submit(&activation, vec![command], Outcome::Suspended)) {
            Ok(_) => self.seen = activation.execution.last_sequence,
            // Without a token and a number, the second of two equal batches may be a copy of the first.
            Err(refusal) => assert!(self.plain && refusal.code == Code::StaleClaim, "{refusal}"),
        }
    }

    /// The status, and the last external event.
    fn look(&self) -> (ExecutionStatus, i64) {
        let row = self.world.execution(self.id);
        (row.status, row.last_external_sequence)
    }

    fn assert_nothing_unseen(&self, story: &[Step]) {
        let ((status, last), seen) = (self.look(), self.seen);
        let waits_for_nothing = status != ExecutionStatus::Waiting || last <= seen;
        assert!(waits_for_nothing, "WAITING though event {last} came after {seen}: {story:?}");
    }
}

fn parent_claim(plain: bool) -> Claim {
    if plain { plain_claim(WorkClass::Workflow, "parent") } else { claim(WorkClass::Workflow, "parent") }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    Fetch,
    Suspend,
    Event(Happens),
}

/// Every order of any two kinds of events around two activations.
fn stories() -> Vec<Vec<Step>> {
    let mut stories = Vec::new();
    for (index, first) in ALL.into_iter().enumerate() {
        for second in ALL.into_iter().skip(index + 1) {
            for early in 0..=4 {
                for late in early..=4 {
                    let mut story = vec![Step::Fetch, Step::Suspend, Step::Fetch, Step::Suspend];
                    story.insert(late, Step::Event(second));
                    story.insert(early, Step::Event(first));
                    stories.push(story);
                }
            }
        }
    }
    stories
}

/// Rows without the counters that depend on how requests are grouped into batches.
fn without_versions(mut snapshot: Snapshot) -> Snapshot {
    snapshot.executions.iter_mut().for_each(|row| row.version = 0);
    snapshot.tasks.iter_mut().for_each(|row| row.version = 0);
    snapshot.timers.iter_mut().for_each(|row| row.version = 0);
    snapshot.promises.iter_mut().for_each(|row| row.version = 0);
    snapshot
}

fn no_wake_up_is_lost(plain: bool) {
    let scene = Scene::new(plain);
    for story in stories() {
        let mut told = scene.clone();
        for step in &story {
            match step {
                Step::Fetch => told.fetch(),
                Step::Suspend => told.suspend(),
                Step::Event(what) => told.happen(*what),
            }
            told.assert_nothing_unseen(&story);
        }
        // The same requests in one transaction have the same result.
        let mut at_once = scene.world.clone();
        at_once.batch(told.asked.clone());
        assert!(
            without_versions(at_once.snapshot()) == without_versions(told.world.snapshot()),
            "in one batch it ends otherwise: {story:?}"
        );
        // With a worker and without further events, it comes to rest and has seen every event.
        for _ in 0..3 {
            told.suspend();
            told.fetch();
        }
        assert_eq!(told.look().0, ExecutionStatus::Waiting, "{story:?}");
        told.assert_nothing_unseen(&story);
    }
}

#[test]
fn no_event_is_lost_in_any_order_of_fetch_event_and_suspend_with_token_and_base() {
    no_wake_up_is_lost(false);
}

#[test]
fn no_event_is_lost_in_any_order_of_fetch_event_and_suspend_without_token() {
    no_wake_up_is_lost(true);
}

#[test]
fn an_event_in_the_batch_that_takes_the_claim_away_is_delivered_by_the_next_claim() {
    for plain in [false, true] {
        for what in ALL {
            let mut scene = Scene::new(plain);
            scene.fetch();
            let first = scene.claimed.take().unwrap();
            scene.world.advance(120_000);
            scene.happen(what);
            let lease = |row: &Due| row.class == DueClass::ExecutionLease && row.id == scene.id;
            let due = scene.world.snapshot().due.into_iter().find(lease).unwrap();
            scene.world.must(FireDue { due });
            let late = scene.world.ask(submit(&first, Vec::new(), Outcome::Suspended));
            assert_eq!(late.unwrap_err().code, Code::StaleClaim, "{what:?}");
            scene.fetch();
            let second = scene.claimed.as_ref().expect("in line again");
            assert_eq!(second.execution.last_sequence, scene.look().1, "{what:?}");
        }
    }
}

/// The base is what the worker has really seen, which may be older than its claim.
#[test]
fn a_suspend_with_an_older_base_than_the_last_event_goes_back_in_line() {
    let mut world = World::new();
    let id = world.start("parent");
    world.must(SignalWorkflow { execution_id: id, name: "go".into(), value: json("1") });
    let activation = world.claim_workflow("parent");
    let blind =
        SubmitActivation { base_sequence: Some(1), ..submit(&activation, Vec::new(), Outcome::Suspended) };
    world.must(blind);
    assert_eq!(world.execution(id).status, ExecutionStatus::Pending);
    let again = world.claim_workflow("parent");
    assert_eq!(
        again.execution.base_sequence, 1,
        "the next activation delivers what comes after the accepted base"
    );
    world.must(submit(&again, Vec::new(), Outcome::Suspended));
    assert_eq!(world.execution(id).status, ExecutionStatus::Waiting);
}
