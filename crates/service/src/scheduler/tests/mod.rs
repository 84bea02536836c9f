//! Tests of the scheduler's decisions, without a runtime and a store.

mod first_steps;
mod model;
mod order;
mod properties;
mod size;

use flovyn_engine::ids::{ExecutionId, TenantId};
use flovyn_engine::state::WorkClass;
use uuid::Uuid;

use super::*;

/// A request that consists only of the facts that the scheduler needs.
#[derive(Debug, Clone)]
pub(super) struct Fake {
    pub(super) id: u64,
    pub(super) tenant: TenantId,
    pub(super) rows: usize,
    pub(super) claim: Option<ClaimFacts>,
    pub(super) misses: u32,
    pub(super) is_abandoned: bool,
    pub(super) is_release: bool,
    pub(super) starts: Option<Kind>,
    pub(super) first_step: Option<(ExecutionId, FirstStep)>,
}

pub(super) fn fake(tenant: u128) -> Fake {
    Fake {
        id: 0,
        tenant: Uuid::from_u128(tenant),
        rows: 5,
        claim: None,
        misses: 0,
        is_abandoned: false,
        is_release: false,
        starts: None,
        first_step: None,
    }
}

impl Queued for Fake {
    fn tenant(&self) -> TenantId {
        self.tenant
    }

    fn bytes(&self) -> usize {
        0
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn claim(&self) -> Option<ClaimFacts> {
        self.claim
    }

    fn misses(&self) -> u32 {
        self.misses
    }

    fn is_abandoned(&self) -> bool {
        self.is_abandoned
    }

    fn is_release(&self) -> bool {
        self.is_release
    }

    fn starts(&self) -> Option<Kind> {
        self.starts.clone()
    }

    fn first_step_of(&self, id: ExecutionId) -> Option<FirstStep> {
        self.first_step.filter(|(other, _)| *other == id).map(|(_, step)| step)
    }
}

const PATIENCE: Duration = Duration::from_millis(4);
/// Enough requests for a second batch; `FULL` is the most that go into one batch.
const SECOND: usize = 96;
const FULL: usize = 256;

fn in_process() -> InProcess {
    let from = Some(SideBySideFrom::default());
    InProcess { from, first_step_within: PATIENCE, stays_awake_for: 0, tricks: Tricks::default() }
}

fn elsewhere() -> Elsewhere {
    Elsewhere { from: Some(SideBySideFrom::default()), tricks: Tricks::default() }
}

/// A scheduler with its current time.
struct Desk {
    scheduler: Scheduler<Fake>,
    now: Instant,
    last_id: u64,
}

impl Desk {
    fn new(policy: impl Policy + 'static) -> Self {
        Self { scheduler: Scheduler::new(Box::new(policy)), now: Instant::now(), last_id: 0 }
    }

    fn tell(&mut self, event: Event<Fake>) {
        assert!(self.scheduler.on(event, self.now).is_empty(), "only a turn has actions");
    }

    /// Requests arrive. Returns their ids.
    fn arrive(&mut self, jobs: impl IntoIterator<Item = Fake>) -> Vec<u64> {
        let mut ids = Vec::new();
        for job in jobs {
            self.last_id += 1;
            ids.push(self.last_id);
            self.tell(Event::Arrived(Fake { id: self.last_id, ..job }));
        }
        ids
    }

    fn turn(&mut self) -> Vec<Action<Fake>> {
        self.scheduler.on(Event::Turn, self.now)
    }

    /// Turns until the scheduler neither yields nor answers. Returns the single action of that turn.
    fn next(&mut self) -> Action<Fake> {
        loop {
            let mut actions = self.turn();
            assert_eq!(actions.len(), 1, "{actions:?}");
            match actions.remove(0) {
                Action::Yield | Action::Answer => {}
                action => return action,
            }
        }
    }

    fn begins(&mut self) -> Begin<Fake> {
        match self.next() {
            Action::Begin(begin) => begin,
            other => panic!("nothing begins: {other:?}"),
        }
    }

    fn waits(&mut self) -> Option<Instant> {
        match self.next() {
            Action::Wait { until } => until,
            other => panic!("it does not wait: {other:?}"),
        }
    }

    fn ends(&mut self, batch: BatchId, ended: Ended<Fake>) {
        self.tell(Event::Ended(batch, ended));
    }
}

fn ids(begin: &Begin<Fake>) -> Vec<u64> {
    begin.jobs.iter().map(|job| job.id).collect()
}

fn claim(session: Option<u128>, max: usize) -> Fake {
    let session = session.map(Uuid::from_u128);
    let claim = ClaimFacts { session, class: WorkClass::Task, max };
    Fake { claim: Some(claim), rows: 3 * max, ..fake(1) }
}

fn start(kind: &str) -> Fake {
    let job = fake(1);
    Fake { starts: Some((job.tenant, kind.into())), ..job }
}

fn step(execution: u128, step: FirstStep) -> Fake {
    Fake { first_step: Some((Uuid::from_u128(execution), step)), ..fake(1) }
}

/// Random numbers determined by a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % end
    }

    fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }
}
