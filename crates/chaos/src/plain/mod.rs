//! A worker of the public protocol: it polls, reports without tokens, and shares no code with the SDK.
//!
//! - `client`: the calls, and the retries of calls without an answer.
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

/// How many polls are in flight at once. Each carries out its work before it polls again.
const WORKFLOW_POLLS: usize = 8;
const TASK_POLLS: usize = 24;
/// Well within the time that the servers of a run allow a worker to be silent.
const HEARTBEAT_EVERY: Duration = Duration::from_millis(500);

/// The name of every process that is not given one.
pub(crate) const DEFAULT_NAME: &str = "worker-default";

/// Three variants of the protocol, as clients use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Dialect {
    /// Registers, polls under its registered id, sends heartbeats, continues the numbers of its commands from the
    /// history, and ends a batch with SUSPEND.
    Registered,
    /// Polls under an unregistered name, numbers the commands of every batch from 1, and sends no command for
    /// suspending.
    Unknown,
    /// Registers its process under a name that other processes have too, polls by that name, sends no heartbeats, and
    /// reports each result once: a report whose answer is lost is not repeated. The work runs again then.
    Nameless,
}

impl Dialect {
    fn says_suspend(self) -> bool {
        self != Self::Unknown
    }

    /// Whether the numbers of its commands continue from the history.
    fn continues_numbers(self) -> bool {
        self != Self::Unknown
    }

    /// The workflow kinds that it runs.
    fn kinds(self) -> Vec<String> {
        let mut kinds = vec!["noop", "chain", "fanout", "timer", "signal", "parent", "child"];
        // A late batch without ids whose commands are numbered from 1 looks like a new batch: the promise would be
        // created twice. See docs/de-duplication.md.
        if self.continues_numbers() {
            kinds.push("promise");
        }
        kinds.into_iter().map(str::to_owned).collect()
    }
}

/// The shared state of all polls of a worker.
struct Worker {
    client: Client,
    dialect: Dialect,
    /// The name or the id under which it polls.
    id: String,
    runs: runs::Recorder,
    outcomes: outcomes::Recorder,
}

/// Runs until its input ends, then prints how many results the server refused.
pub(crate) async fn run(url: &str, token: &str, folder: &Path, dialect: Dialect) -> Result<(), String> {
    let client = Client::new(url, token, folder, dialect)?;
    // The name tells which process ran an attempt in the database.
    let process = std::process::id().to_string();
    let id = match dialect {
        Dialect::Registered => client.register(&process, &process).await,
        Dialect::Unknown => process,
        Dialect::Nameless => {
            client.register(DEFAULT_NAME, &process).await;
            DEFAULT_NAME.to_owned()
        }
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
            if let Some(execution) = self.client.poll_workflow(&self.id).await {
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
