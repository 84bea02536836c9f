//! Two workers and one task, or one workflow, in a random order: claims, lost leases, heartbeats, and reports with and
//! without tokens, late and repeated. Exactly one outcome is acknowledged. It belongs to the worker that sent it, unless
//! nothing distinguishes the two workers.

use std::sync::Arc;

use flovyn_engine::ids::{Payload, WorkerId};
use flovyn_engine::request::*;
use flovyn_engine::state::{TaskStatus, WorkClass};
use flovyn_engine::{Code, Decided, Op, Reply};
use flovyn_store::ManualClock;
use uuid::Uuid;

use crate::lockstep::Rows;
use crate::rng::Rng;
use crate::stage::Stage;

const KIND: &str = "contested";
const QUEUE: &str = "default";
/// How long the engine expects late reports of workers that cannot be identified.
const LATE_STEP_MS: i64 = 10 * 60_000;

/// How a worker identifies itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Habit {
    /// It sends the token of its claim.
    Token,
    /// It reports on the connection on which it polls.
    Connection,
    /// It reports on connections that made no claim.
    Stranger,
}

/// What both workers send beside their connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    Nothing,
    /// The name that both have.
    Name,
    /// Each its own id, under which it polls.
    Id,
}

/// How the two workers reach the server.
#[derive(Debug, Clone, Copy)]
struct Network {
    named: Named,
    two_credentials: bool,
    /// Both poll on one connection, behind a proxy, under one name.
    one_connection: bool,
}

impl Network {
    fn any(rng: &mut Rng) -> Self {
        Self {
            named: rng.of([Named::Nothing, Named::Name, Named::Id]),
            two_credentials: rng.below(3) == 0,
            one_connection: rng.below(3) == 0,
        }
    }

    /// Whether the server can distinguish two workers that both report on the connection on which they poll.
    fn tells_apart(self) -> bool {
        !self.one_connection || self.two_credentials || self.named == Named::Id
    }
}

const NAME: &str = "one name for all";

#[derive(Debug)]
struct Worker {
    number: i64,
    network: Network,
    habit: Habit,
    /// Its claims: token, report, and the time of the claim.
    claims: Vec<(i64, Report, i64)>,
}

impl Worker {
    fn id(&self) -> Option<WorkerId> {
        let number = u128::from(self.number.unsigned_abs());
        (self.network.named == Named::Id).then(|| WorkerId::from_u128(0xa0 + number))
    }

    /// The worker as the server sees it on a connection. `None`: the connection on which it polls.
    fn peer(&self, connection: Option<i64>) -> Peer {
        let own = if self.network.one_connection { 1 } else { self.number };
        Peer {
            credential: Some(if self.network.two_credentials { self.number } else { 1 }),
            connection: Some(connection.unwrap_or(own)),
            worker: match self.network.named {
                Named::Nothing => None,
                Named::Name => Some(NAME.into()),
                Named::Id => self.id().map(|id| id.to_string().into()),
            },
        }
    }
}

/// What a worker reports for a claim. A repeat has the same content.
#[derive(Debug, Clone, PartialEq)]
enum Report {
    Success(String),
    Failure(String, bool),
}

impl Report {
    fn is_last(&self) -> bool {
        !matches!(self, Self::Failure(_, false))
    }
}

/// The figures of a run.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub claims: usize,
    pub acknowledged: usize,
    pub repeated: usize,
    pub refused: usize,
    /// Reports that were accepted after the claim was lost, because nobody had claimed the work since.
    pub late: usize,
    pub heartbeats: usize,
    pub ended: usize,
}

/// Runs one seed on all stores at once.
///
/// # Errors
/// With the violation: a broken promise, or two stores that differ.
pub async fn run(
    seed: u64,
    clock: &ManualClock,
    stores: &[(&str, Arc<dyn Rows>)],
) -> Result<Outcome, String> {
    let mut run = Run {
        stage: Stage::new(seed, clock, stores),
        outcome: Outcome::default(),
        holder: None,
        accepted: Vec::new(),
        told_apart: true,
        reports: Vec::new(),
        last: None,
    };
    run.play().await.map_err(|what| format!("seed {seed}: {what}"))?;
    Ok(run.outcome)
}

struct Run<'a> {
    stage: Stage<'a>,
    outcome: Outcome,
    /// The token of the current claim.
    holder: Option<i64>,
    /// Claims whose reports were accepted, in order.
    accepted: Vec<i64>,
    /// Whether the server can distinguish the workers.
    told_apart: bool,
    /// All accepted reports.
    reports: Vec<Report>,
    /// The report that ended the work, and the claim that it belongs to.
    last: Option<(i64, Report)>,
}

impl Run<'_> {
    async fn play(&mut self) -> Result<(), String> {
        let class = self.stage.rng.of([WorkClass::Task, WorkClass::Workflow]);
        let id = self.create(class).await?;
        let habits = [Habit::Token, Habit::Connection, Habit::Stranger];
        let network = Network::any(&mut self.stage.rng);
        self.told_apart = network.tells_apart();
        let mut workers: Vec<Worker> = (1..=2)
            .map(|number| Worker { number, network, habit: self.stage.rng.of(habits), claims: Vec::new() })
            .collect();
        for _ in 0..60 {
            let index = self.stage.rng.below(workers.len());
            match self.stage.rng.below(10) {
                0..4 => self.claim(class, &mut workers[index]).await?,
                4 if class == WorkClass::Task => self.heartbeat(id, &workers[index]).await?,
                4..8 => self.report(class, id, &workers[index]).await?,
                _ => self.stage.pass().await?,
            }
        }
        self.check_end(class, id).await
    }

    async fn create(&mut self, class: WorkClass) -> Result<Uuid, String> {
        let reply = match class {
            WorkClass::Task => {
                let mut spec = TaskSpec::new(KIND, Payload::new());
                spec.max_retries = Some(1_000);
                self.stage.ask(None, CreateTask::standalone(spec).into()).await?
            }
            _ => self.stage.ask(None, StartWorkflow::new(KIND, QUEUE, Payload::new()).into()).await?,
        };
        match reply {
            Decided::Reply(Reply::TaskCreated(created)) => Ok(created.task_id),
            Decided::Reply(Reply::Started(started)) => Ok(started.execution_id),
            other => Err(format!("not created: {other:?}")),
        }
    }

    async fn claim(&mut self, class: WorkClass, worker: &mut Worker) -> Result<(), String> {
        let claim = Claim {
            class,
            claimer: Claimer {
                worker: NAME.into(),
                session: worker.id(),
                plain: true,
                cooperative: false,
                build: None,
            },
            queue: QUEUE.into(),
            kinds: vec![ClaimKind { kind: KIND.into(), versions: Vec::new(), timeout_ms: None }],
            max: 1,
            only: None,
            provisional: false,
            held_back: false,
        };
        let peer = worker.peer(None);
        let Decided::Reply(Reply::Claimed(claimed)) = self.stage.ask(Some(peer), claim.into()).await? else {
            return Err("a claim was refused".to_owned());
        };
        let tokens = claimed.tasks.iter().map(|item| item.token);
        for token in tokens.chain(claimed.workflows.iter().map(|item| item.token)) {
            let text = format!("{} at claim {token}", worker.number);
            let report = match self.stage.rng.below(6) {
                0 => Report::Success(text),
                1 => Report::Failure(text, true),
                _ => Report::Failure(text, false),
            };
            worker.claims.push((token, report, self.stage.lease_ms()));
            self.holder = Some(worker.number);
            self.outcome.claims += 1;
        }
        Ok(())
    }

    /// Reports on one of the worker's claims: the current one, a lost one, or one that was reported before.
    async fn report(&mut self, class: WorkClass, id: Uuid, worker: &Worker) -> Result<(), String> {
        let claims = match worker.habit {
            Habit::Token => &worker.claims[..],
            // Its last report, late and repeated any number of times, until another report is accepted. Without a
            // token, older reports cannot be distinguished from new ones.
            habit => match worker.claims.last() {
                Some((token, _, at_ms)) => {
                    let expected = habit == Habit::Connection
                        || class == WorkClass::Task
                        || self.stage.lease_ms() - at_ms < LATE_STEP_MS;
                    let known = self.accepted.contains(token) && self.accepted.last() != Some(token);
                    let from = worker.claims.len() - usize::from(expected && !known);
                    &worker.claims[from..]
                }
                None => &[],
            },
        };
        let Some((token, report, _)) = self.stage.rng.pick(claims).cloned() else { return Ok(()) };
        let peer = self.peer(worker);
        let sent = (worker.habit == Habit::Token).then_some(token);
        let was_late = class == WorkClass::Task && self.is_pending(id).await?;
        match self.stage.ask(Some(peer), op(class, id, sent, &report)).await? {
            Decided::Reply(
                Reply::TaskReported { repeated: true, .. } | Reply::Submitted { repeated: true, .. },
            ) => {
                self.outcome.repeated += 1;
                // A batch that may be a copy is also answered like this, and runs again.
                if class == WorkClass::Task && !self.reports.contains(&report) {
                    return Err(format!("{report:?} of {worker:?} was acknowledged and never accepted"));
                }
            }
            Decided::Reply(_) => {
                self.outcome.acknowledged += 1;
                self.outcome.late += usize::from(was_late);
                self.reports.push(report.clone());
                if self.told_apart && self.holder != Some(worker.number) {
                    return Err(format!("{worker:?} was accepted, but {:?} holds the claim", self.holder));
                }
                self.holder = None;
                self.accepted.push(token);
                if report.is_last()
                    && let Some(before) = self.last.replace((worker.number, report.clone()))
                {
                    return Err(format!("{report:?} was acknowledged after {before:?}"));
                }
            }
            Decided::Refused(refusal) if refusal.code == Code::StaleClaim => self.outcome.refused += 1,
            other => return Err(format!("{report:?} of {worker:?}: {other:?}")),
        }
        Ok(())
    }

    /// A heartbeat is answered only to the worker that holds the claim.
    async fn heartbeat(&mut self, task_id: Uuid, worker: &Worker) -> Result<(), String> {
        let token = worker.claims.last().map(|(token, ..)| *token).filter(|_| worker.habit == Habit::Token);
        // A new connection identifies nobody, so while no claim was lost, such a heartbeat renews any claim.
        let Network { named, two_credentials, .. } = worker.network;
        let expected = worker.habit == Habit::Token || named == Named::Id || two_credentials;
        if worker.claims.is_empty() {
            return Ok(());
        }
        let heartbeat = HeartbeatTask { task_id, token, details: None };
        let peer = self.peer(worker);
        match self.stage.ask(Some(peer), heartbeat.into()).await? {
            Decided::Reply(_) if expected && self.holder != Some(worker.number) => {
                Err(format!("a heartbeat of {worker:?} counted, but {:?} holds the claim", self.holder))
            }
            Decided::Reply(_) => {
                self.outcome.heartbeats += 1;
                Ok(())
            }
            Decided::Refused(refusal) if refusal.code == Code::StaleClaim => Ok(()),
            other => Err(format!("a heartbeat of {worker:?}: {other:?}")),
        }
    }

    /// The worker as the server sees it when it reports.
    fn peer(&mut self, worker: &Worker) -> Peer {
        let elsewhere = 100 + self.stage.rng.below(1_000) as i64;
        worker.peer((worker.habit == Habit::Stranger).then_some(elsewhere))
    }

    /// Checks that the acknowledged end is the stored end.
    async fn check_end(&mut self, class: WorkClass, id: Uuid) -> Result<(), String> {
        let rows = self.stage.snapshot().await?;
        let stored = match class {
            WorkClass::Task => {
                let task = rows.tasks.iter().find(|row| row.id == id).ok_or("the task is gone")?;
                let output = task.output.as_ref().map(|output| String::from_utf8_lossy(output).into_owned());
                task.status.is_terminal().then(|| output.or(task.error.as_deref().map(str::to_owned)))
            }
            _ => {
                let last =
                    rows.events.iter().filter(|event| event.execution_id == id).max_by_key(|e| e.sequence);
                let last = last.filter(|event| event.kind.is_terminal());
                last.map(|event| {
                    let payload = event.payload.as_ref().filter(|_| event.text.is_none());
                    let output = payload.map(|output| String::from_utf8_lossy(output).into_owned());
                    output.or(event.text.as_deref().map(str::to_owned))
                })
            }
        };
        let acknowledged = self.last.as_ref().map(|(_, report)| match report {
            Report::Success(text) => Some(format!("{text:?}")),
            Report::Failure(text, _) => Some(text.clone()),
        });
        self.outcome.ended += usize::from(stored.is_some());
        if stored == acknowledged {
            Ok(())
        } else {
            Err(format!("acknowledged {acknowledged:?}, stored {stored:?}"))
        }
    }

    /// Whether the task waits for its next attempt. A report that is accepted then is late.
    async fn is_pending(&self, id: Uuid) -> Result<bool, String> {
        let rows = self.stage.snapshot().await?;
        Ok(rows.tasks.iter().any(|row| row.id == id && row.status == TaskStatus::Pending))
    }
}

fn op(class: WorkClass, id: Uuid, token: Option<i64>, report: &Report) -> Op {
    let json = |text: &str| Payload::from(format!("{text:?}"));
    match (class, report) {
        (WorkClass::Task, Report::Success(text)) => {
            CompleteTask { task_id: id, token, output: json(text), next: None }.into()
        }
        (WorkClass::Task, Report::Failure(text, last)) => FailTask {
            task_id: id,
            token,
            error: text.as_str().into(),
            failure: Failure::default(),
            non_retryable: *last,
            next_delay_ms: Some(0),
        }
        .into(),
        (_, report) => {
            let (commands, outcome) = match report {
                Report::Success(text) => {
                    (Vec::new(), flovyn_engine::request::Outcome::Completed { output: json(text) })
                }
                Report::Failure(text, true) => (
                    Vec::new(),
                    flovyn_engine::request::Outcome::Failed {
                        error: text.as_str().into(),
                        failure: Failure::default(),
                        stack_trace: None,
                    },
                ),
                // A timer that fires soon makes the workflow continue.
                Report::Failure(text, false) => (
                    vec![Command::StartTimer { timer_id: text.as_str().into(), duration_ms: 1 }],
                    flovyn_engine::request::Outcome::Suspended,
                ),
            };
            SubmitActivation {
                execution_id: id,
                token,
                base_sequence: None,
                commands,
                outcome,
                unread_signals: 0,
                first_number: None,
                build_id: None,
                clean_up: None,
            }
            .into()
        }
    }
}
