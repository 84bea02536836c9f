//! A batch as the store sees it, with direct hand-off. Waiting pollers claim the work that the batch makes ready, in
//! the same commit. So a step of a workflow costs one fsync instead of two.

use std::sync::Arc;
use std::time::Instant;

use flovyn_engine::state::{Execution, Lane, Ready, Task, TaskStatus, WorkClass};
use flovyn_engine::{
    Batch, BatchStep, Change, Decided, Limits, Loaded, Mutations, Note, Now, Reply, Request,
};
use flovyn_store::{Decider, Step};

use crate::dispatch::{Dispatch, HandOff};
use crate::follow::Outcome;
use crate::job::claim_of;
use crate::loops::soon::DueChanges;
use crate::pollers::Poller;
use crate::provisional::Takers;
use crate::service::TaskCancel;
use crate::tails::{self, Written};
use crate::transaction::Mode;
use crate::watch::Subject;

/// Limits up to which a batch is small.
const FEW_REQUESTS: usize = 6;
const FEW_ROWS: usize = 64;
const FEW_BYTES: usize = 64 << 10;

pub(crate) struct Driver {
    small: bool,
    batch: Batch,
    dispatch: Dispatch,
    /// Pollers whose claims follow the batch's own requests, in the same order.
    handed: Vec<Poller>,
    assigned: bool,
    mode: Mode,
    /// Workers that receive the started executions before the start is written. `None`: the start is written first.
    takers: Option<Takers>,
    /// The time of the batch's decisions. `None`: nothing has been loaded yet.
    now: Option<Now>,
    /// Whether there are watchers of changes.
    watched: bool,
    summary: Summary,
}

/// The consequences of a committed batch for the rest of the process.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    pub(crate) rows: usize,
    pub(crate) notes: Vec<Note>,
    /// When the changes were passed to the database. `None`: there were no changes.
    pub(crate) written_since: Option<Instant>,
    /// Lanes with work that became ready and that no poller of this process took. Other processes are notified of
    /// them, and pollers that arrived meanwhile search them.
    pub(crate) left_ready: Vec<Lane>,
    /// Rows that become due soon, and rows that are no longer due.
    pub(crate) due: DueChanges,
    /// Whether there were watchers of changes when the batch was decided.
    pub(crate) watched: bool,
    /// Executions and tasks that changed. Empty if there are no watchers.
    pub(crate) changed: Vec<Subject>,
    /// New events.
    pub(crate) events: Vec<Written>,
    /// Executions that have ended.
    pub(crate) ended: Vec<(Subject, Outcome)>,
    /// Tasks whose worker should stop.
    pub(crate) cancelled: Vec<TaskCancel>,
}

impl Driver {
    pub(crate) fn new(
        requests: Vec<Arc<Request>>,
        limits: Arc<Limits>,
        dispatch: Dispatch,
        watched: bool,
        mode: Mode,
    ) -> Self {
        Self {
            small: is_small(&requests),
            batch: Batch::new(requests, limits),
            dispatch,
            handed: Vec::new(),
            assigned: false,
            mode,
            takers: None,
            now: None,
            watched,
            summary: Summary::default(),
        }
    }

    /// The workers that received executions whose start is not written yet. `None`: the batch was written.
    pub(crate) fn take_takers(&mut self) -> Option<Takers> {
        self.takers.take()
    }

    /// Answers to the batch's own requests, followed by those to the hand-offs, with the pollers that receive these.
    pub(crate) fn take(&mut self) -> (Vec<Decided>, Vec<Poller>, Summary) {
        let batch = std::mem::replace(&mut self.batch, Batch::new(Vec::new(), Arc::default()));
        (batch.into_decided(), std::mem::take(&mut self.handed), std::mem::take(&mut self.summary))
    }

    fn assign(&mut self) {
        self.assigned = true;
        if self.dispatch.is_empty() {
            // Pollers that begin to wait later are woken for the work that is left ready.
            return;
        }
        let ready = self.batch.made_ready();
        if ready.is_empty() {
            return;
        }
        let batch = &self.batch;
        let last_session = |item: &Ready| {
            (item.lane.class != WorkClass::Task)
                .then(|| batch.last_session(item.lane.tenant_id, item.id))
                .flatten()
        };
        let failed_builds = |item: &Ready| batch.failed_builds(item.lane.tenant_id, item.id);
        let hand_offs = self.dispatch.assign(&ready, last_session, failed_builds);
        for HandOff { poller, request } in hand_offs {
            self.batch.push(request);
            self.handed.push(poller);
        }
    }

    /// The workers that received the started executions. `None` unless every start went to a worker that can run a
    /// provisional execution.
    fn notify_first(&self) -> Option<Takers> {
        let decided = self.batch.decided();
        let (own, handed) = decided.split_at(decided.len() - self.handed.len());
        let mut taken = Vec::new();
        for (poller, decided) in self.handed.iter().zip(handed) {
            if let (Decided::Reply(Reply::Claimed(claimed)), Some(claim)) =
                (decided, claim_of(&poller.request))
            {
                taken.extend(claimed.workflows.iter().map(|activation| (activation.execution.id, claim)));
            }
        }
        let taker = |decided: &Decided| match decided {
            Decided::Reply(Reply::Started(started)) if started.key_new => {
                let (id, claim) = taken.iter().find(|(id, _)| *id == started.execution_id)?;
                claim.provisional.then(|| (*id, claim.claimer.clone()))
            }
            _ => None,
        };
        let each = own.iter().map(taker).collect::<Option<Vec<_>>>()?;
        Some(Takers { each, at: self.now? })
    }

    fn summarise(&mut self, mutations: &Mutations) {
        self.summary.rows = mutations.len();
        for row in mutations.tasks.iter().filter_map(updated) {
            let stops = row.cancel_requested && row.status == TaskStatus::Running;
            if let (true, Some(session)) = (stops || row.status == TaskStatus::Cancelled, row.session) {
                let (tenant_id, task_id, token) = (row.tenant_id, row.id, row.epoch);
                self.summary.cancelled.push(TaskCancel { tenant_id, task_id, token, session });
            }
        }
        self.summary.events = tails::written(mutations);
        for change in &mutations.events {
            if let Change::Insert(event) = change
                && let Some(outcome) = Outcome::of(event)
            {
                self.summary.ended.push(((event.tenant_id, event.execution_id), outcome));
            }
        }
        self.summary.watched = self.watched;
        if self.watched {
            let executions = mutations.executions.iter().filter_map(updated).map(Execution::key);
            let tasks = mutations.tasks.iter().filter_map(updated).map(Task::key);
            self.summary.changed = executions.chain(tasks).collect();
        }
        self.summary.due = self.now.map(|now| DueChanges::of(&mutations.due, now)).unwrap_or_default();
        for change in &mutations.ready {
            if let Change::Insert(row) = change
                && self.summary.left_ready.last() != Some(&row.lane)
            {
                self.summary.left_ready.push(row.lane.clone());
            }
        }
    }
}

fn updated<R>(change: &Change<R>) -> Option<&R> {
    match change {
        Change::Update { row, .. } => Some(row),
        _ => None,
    }
}

impl Decider for Driver {
    fn is_small(&self) -> bool {
        self.small
    }

    fn is_followed(&self) -> bool {
        self.mode == Mode::Followed
    }

    fn step(&mut self, loaded: Option<Loaded>) -> Step {
        if let Some(loaded) = &loaded {
            self.now = Some(loaded.now);
        }
        let mut step = self.batch.advance(loaded);
        if matches!(step, BatchStep::Decided) && !self.assigned {
            self.assign();
            step = self.batch.advance(None);
        }
        match step {
            BatchStep::Load(wants) => Step::Load(wants),
            BatchStep::Decided => {
                self.takers = if self.mode == Mode::NotifyFirst { self.notify_first() } else { None };
                if self.takers.is_some() {
                    return Step::Done;
                }
                let mutations = self.batch.take_mutations();
                self.summarise(&mutations);
                self.summary.notes = self.batch.take_notes();
                if mutations.is_empty() {
                    return Step::Done;
                }
                self.summary.written_since = Some(Instant::now());
                Step::Commit(Box::new(mutations))
            }
        }
    }
}

fn is_small(requests: &[Arc<Request>]) -> bool {
    let sum = |size: fn(&Request) -> usize| requests.iter().map(|request| size(request)).sum::<usize>();
    requests.len() <= FEW_REQUESTS && sum(Request::rows) <= FEW_ROWS && sum(Request::bytes) <= FEW_BYTES
}
