//! A worker in its own process: this program with another command.

use std::path::Path;
use std::process::Stdio;

use clap::ValueEnum;
use flovyn_sdk::Worker;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::plain::Dialect;
use crate::{outcomes, programs, runs};

/// Inside the worker process: runs until its input ends, then prints how many results the server refused.
pub(crate) async fn run(url: &str, token: &str, folder: &Path, slots: u32) -> Result<(), String> {
    let (connected, mut connects) = tokio::sync::mpsc::unbounded_channel();
    let builder = Worker::builder(url, token)
        // The name tells which process ran an attempt in the database.
        .name(std::process::id().to_string())
        .max_workflows(slots)
        .max_tasks(slots)
        .on_event(move |event| drop(connected.send(event.clone())));
    let (runs, outcomes) = (runs::Recorder::create(folder)?, outcomes::Recorder::create(folder)?);
    let worker = programs::register(builder, runs, outcomes);
    let worker = worker.build().map_err(|error| error.to_string())?.start();
    connects.recv().await.ok_or("the worker did not begin")?;
    say("ready").await?;
    input_ends().await?;
    let metrics = worker.metrics();
    say(&(metrics.tasks_refused() + metrics.activations_refused()).to_string()).await?;
    worker.abort();
    Ok(())
}

/// Waits until the parent process closes the input.
pub(crate) async fn input_ends() -> Result<(), String> {
    let mut rest = Vec::new();
    let read = tokio::io::stdin().read_to_end(&mut rest).await;
    read.map(|_| ()).map_err(|error| error.to_string())
}

pub(crate) async fn say(what: &str) -> Result<(), String> {
    let mut output = tokio::io::stdout();
    let said = output.write_all(format!("{what}\n").as_bytes()).await;
    said.map_err(|error| error.to_string())?;
    output.flush().await.map_err(|error| error.to_string())
}

/// The protocol of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nature {
    Sdk,
    /// The public protocol, without tokens.
    Plain(Dialect),
}

/// In the parent process: a running worker.
#[derive(Debug)]
pub(crate) struct WorkerProcess {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    pub(crate) id: u32,
    pub(crate) nature: Nature,
}

impl WorkerProcess {
    pub(crate) async fn start(
        url: &str,
        token: &str,
        folder: &Path,
        slots: u32,
        nature: Nature,
    ) -> Result<Self, String> {
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(own);
        command
            .args(["worker", "--url", url, "--token", token, "--slots", &slots.to_string(), "--folder"])
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        if let Nature::Plain(dialect) = nature {
            let dialect = dialect.to_possible_value().ok_or("a dialect without a name")?;
            command.args(["--plain", dialect.get_name()]);
        }
        let mut process = command.spawn().map_err(|error| format!("no worker could be started: {error}"))?;
        let input = process.stdin.take().ok_or("the worker has no input")?;
        let output = BufReader::new(process.stdout.take().ok_or("the worker has no output")?);
        let id = process.id().ok_or("the worker has ended")?;
        let mut worker = Self { process, input, output, id, nature };
        let mut line = String::new();
        worker.output.read_line(&mut line).await.map_err(|error| error.to_string())?;
        if line != "ready\n" {
            return Err("a worker ended before it was ready".into());
        }
        Ok(worker)
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.process.try_wait(), Ok(None))
    }

    pub(crate) async fn kill(mut self) {
        // The worker may have ended by itself already.
        let _ = self.process.kill().await;
    }

    /// Ends the worker orderly. Returns how many results were refused.
    pub(crate) async fn finish(mut self) -> Result<u64, String> {
        drop(self.input);
        let mut line = String::new();
        self.output.read_line(&mut line).await.map_err(|error| error.to_string())?;
        let _ = self.process.kill().await;
        line.trim().parse().map_err(|_| "a worker ended before its time".to_owned())
    }
}
