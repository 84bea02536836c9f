//! A worker of the public protocol: it polls, reports without tokens, and shares no code with the SDK.
//!
//! - `client`: the calls, and what to do when nobody answers.
//! - `turn`: one activation, computed from the event list. `workflows`: the programs.
//! - `tasks`: one attempt of a task.

mod client;
mod tasks;
mod turn;
mod workflows;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use tokio::task::JoinSet;

use self::client::Client;
use crate::outcomes;
use crate::runs;
use crate::worker::{input_ends, say};

/// Polls under way at once; each carries out what it is given before it polls again.
const WORKFLOW_POLLS: usize = 8;
const TASK_POLLS: usize = 24;
/// Well within the silence that the servers of a run allow.
const HEARTBEAT_EVERY: Duration = Duration::from_millis(500);

/// What clients of the public protocol do in two ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Dialect {
    /// Registers, polls under the id that it was given, sends heartbeats, numbers its commands on from the history, and ends a
    /// batch with SUSPEND.
    Registered,
    /// Polls under a name that nobody knows, numbers the commands of every batch from 1, and has no command for suspending.
    Unknown,
}

impl Dialect {
    fn says_suspend(self) -> bool {
        self == Self::Registered
    }

    /// Kinds of workflows that it runs.
    fn kinds(self) -> Vec<String> {
        let mut kinds = vec!["noop", "chain", "fanout", "timer", "signal", "parent", "child"];
        // A late batch of commands that are numbered from 1 and have no ids cannot be told from a new one: the
        // promise would be made twice. See docs/de-duplication.md.
        if self == Self::Registered {
            kinds.push("promise");
        }
        kinds.into_iter().map(str::to_owned).collect()
    }
}

/// What all polls of a worker share.
struct Worker {
    client: Client,
    dialect: Dialect,
    /// The name or the id under which it polls.
    id: String,
    runs: runs::Recorder,
    outcomes: outcomes::Recorder,
}

/// Runs until its input ends, then says how many results the server did not take.
pub(crate) async fn run(url: &str, token: &str, folder: &Path, dialect: Dialect) -> Result<(), String> {
    let client = Client::new(url, token, outcomes::Unexpected::create(folder)?)?;
    // The attempts in the database tell by it which process had them.
    let name = std::process::id().to_string();
    let id = match dialect {
        Dialect::Registered => client.register(&name, dialect.kinds()).await,
        Dialect::Unknown => name,
    };
    let (runs, outcomes) = (runs::Recorder::create(folder)?, outcomes::Recorder::create(folder)?);
    let worker = Arc::new(Worker { client, dialect, id, runs, outcomes });
    let mut polls = JoinSet::new();
    for _ in 0..WORKFLOW_POLLS {
        polls.spawn(worker.clone().poll_workflows());
    }
    for _ in 0..TASK_POLLS {
        polls.spawn(worker.clone().poll_tasks());
    }
    if dialect == Dialect::Registered {
        polls.spawn(worker.clone().beat());
    }
    say("ready").await?;
    tokio::select! {
        ended = input_ends() => ended?,
        broken = polls.join_next() => {
            let why = broken.and_then(Result::err).map(|error| error.to_string());
            return Err(format!("a poll ended: {}", why.unwrap_or_default()));
        }
    }
    say(&worker.client.refused().to_string()).await
}

impl Worker {
    async fn poll_workflows(self: Arc<Self>) {
        loop {
            if let Some(execution) = self.client.poll_workflow(&self.id, self.dialect).await {
                turn::run(&self.client, self.dialect, &execution).await;
            }
        }
    }

    async fn poll_tasks(self: Arc<Self>) {
        loop {
            if let Some(task) = self.client.poll_task(&self.id).await {
                tasks::run(&self, &task).await;
            }
        }
    }

    async fn beat(self: Arc<Self>) {
        loop {
            self.client.beat(&self.id).await;
            tokio::time::sleep(HEARTBEAT_EVERY).await;
        }
    }
}
