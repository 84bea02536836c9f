//! One client without tokens has several polls open on one connection, so it may have two claims of one workflow in
//! turn. Its reports overtake each other, get lost and are repeated. In every order, each event is seen in the end.

use std::sync::Arc;

use flovyn_engine::ids::Payload;
use flovyn_engine::request::*;
use flovyn_engine::state::{EventKind, WorkClass};
use flovyn_engine::{Code, Decided, Op, Reply};
use flovyn_store::ManualClock;
use uuid::Uuid;

use crate::lockstep::Rows;
use crate::stage::Stage;

const KIND: &str = "crossed";
const QUEUE: &str = "default";
/// The workflow ends when it has seen this many signals.
const SIGNALS: usize = 4;

/// The figures of a run.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub claims: usize,
    pub refused: usize,
    /// Reports that counted although the client already had a later claim.
    pub crossed: usize,
}

/// Runs one seed on all stores at once.
///
/// # Errors
/// With the violation: a workflow waits although it has unseen signals, or two stores differ.
pub async fn run(
    seed: u64,
    clock: &ManualClock,
    stores: &[(&str, Arc<dyn Rows>)],
) -> Result<Outcome, String> {
    let stage = Stage::new(seed, clock, stores);
    let mut run = Run { stage, id: Uuid::nil(), in_hand: Vec::new(), sent: 0, outcome: Outcome::default() };
    run.play().await.map_err(|what| format!("seed {seed}: {what}"))?;
    Ok(run.outcome)
}

struct Run<'a> {
    stage: Stage<'a>,
    id: Uuid,
    /// For each claim that was not reported yet: the number of signals in its history.
    in_hand: Vec<usize>,
    sent: usize,
    outcome: Outcome,
}

impl Run<'_> {
    async fn play(&mut self) -> Result<(), String> {
        let start = StartWorkflow::new(KIND, QUEUE, Payload::new());
        let Decided::Reply(Reply::Started(started)) = self.stage.ask(None, start.into()).await? else {
            return Err("not started".to_owned());
        };
        self.id = started.execution_id;
        for _ in 0..40 {
            match self.stage.rng.below(10) {
                0..4 => drop(self.claim().await?),
                4..8 => self.report().await?,
                8 => self.signal().await?,
                _ => self.stage.pass().await?,
            }
        }
        while self.sent < SIGNALS {
            self.signal().await?;
        }
        // The client continues until there is nothing left to do.
        while !self.in_hand.is_empty() {
            self.report().await?;
        }
        while self.claim().await? {
            self.report().await?;
        }
        let rows = self.stage.snapshot().await?;
        let status = rows.executions.iter().find(|row| row.id == self.id).map(|row| row.status);
        match status {
            Some(status) if status.is_terminal() => Ok(()),
            other => Err(format!("after {SIGNALS} signals and all reports it is {other:?}")),
        }
    }

    async fn signal(&mut self) -> Result<(), String> {
        if self.sent < SIGNALS {
            self.sent += 1;
            let signal =
                SignalWorkflow { execution_id: self.id, name: "go".into(), value: Payload::from("1") };
            self.stage.ask(None, signal.into()).await?;
        }
        Ok(())
    }

    /// Claims the workflow. Returns whether there was something to claim.
    async fn claim(&mut self) -> Result<bool, String> {
        let claim = Claim {
            class: WorkClass::Workflow,
            claimer: Claimer {
                worker: "client".into(),
                session: None,
                build: None,
                plain: true,
                cooperative: false,
            },
            queue: QUEUE.into(),
            kinds: vec![ClaimKind { kind: KIND.into(), versions: Vec::new(), timeout_ms: None }],
            max: 1,
            only: None,
            provisional: false,
            held_back: false,
        };
        let Decided::Reply(Reply::Claimed(claimed)) = self.ask(claim.into()).await? else {
            return Err("a claim was refused".to_owned());
        };
        if claimed.workflows.is_empty() {
            return Ok(false);
        }
        let rows = self.stage.snapshot().await?;
        let seen = rows.events.iter().filter(|event| event.kind == EventKind::SignalReceived).count();
        self.in_hand.push(seen);
        self.outcome.claims += 1;
        Ok(true)
    }

    /// Reports on a random open claim. Sometimes the answer is lost, and the report is repeated later.
    async fn report(&mut self) -> Result<(), String> {
        if self.in_hand.is_empty() {
            return Ok(());
        }
        let chosen = self.stage.rng.below(self.in_hand.len());
        let seen = match self.stage.rng.chance(25) {
            true => self.in_hand[chosen],
            false => self.in_hand.remove(chosen),
        };
        let outcome = match seen {
            SIGNALS => flovyn_engine::request::Outcome::Completed { output: Payload::from("1") },
            _ => flovyn_engine::request::Outcome::Suspended,
        };
        let submit = SubmitActivation {
            execution_id: self.id,
            token: None,
            base_sequence: None,
            commands: Vec::new(),
            outcome,
            unread_signals: 0,
            clean_up: None,
            first_number: None,
            build_id: None,
        };
        match self.ask(submit.into()).await? {
            Decided::Reply(_) => self.outcome.crossed += usize::from(self.in_hand.len() > 1),
            Decided::Refused(refusal)
                if matches!(refusal.code, Code::StaleClaim | Code::ExecutionFinished | Code::EndDeferred) =>
            {
                self.outcome.refused += 1;
            }
            other => return Err(format!("{other:?}")),
        }
        Ok(())
    }

    async fn ask(&mut self, op: Op) -> Result<Decided, String> {
        let peer = Peer { credential: Some(1), connection: Some(1), worker: None };
        self.stage.ask(Some(peer), op).await
    }
}
