//! `flovyn workflow`: starting executions, looking at them and acting on them.

mod cancel;
mod events;
mod export;
mod history;
mod list;
mod retry;
mod show;
mod signal;
mod start;
mod tasks;
mod terminate;
mod wait;

use clap::{Args, Subcommand};

use crate::exit::Failure;
use crate::remote::Remote;

#[derive(Args)]
pub(crate) struct Workflow {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one, and it is made once")]
enum Command {
    /// Start a workflow and print the execution's id.
    Start(start::Start),
    /// List executions, the newest first.
    List(list::List),
    /// Show an execution: its state, what it waits for, and a timeline.
    Show(show::Show),
    /// Print the history of an execution.
    Events(events::Events),
    /// List the tasks of an execution.
    Tasks(tasks::Tasks),
    /// Wait until an execution has ended and print its output.
    Wait(wait::Wait),
    /// Send a signal to an execution.
    Signal(signal::Signal),
    /// Ask an execution to stop; it may clean up first.
    Cancel(cancel::Cancel),
    /// End an execution at once, whatever it is doing.
    Terminate(terminate::Terminate),
    /// Start a failed or cancelled execution again, as a new one with the same input.
    Retry(retry::Retry),
    /// Print an execution with its whole history, tasks and state as one JSON document.
    Export(export::Export),
}

impl Workflow {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let session = self.remote.connect()?;
        let done = match self.command {
            Command::Start(start) => start.run(&session).await,
            Command::List(list) => list.run(&session).await,
            Command::Show(show) => show.run(&session).await,
            Command::Events(events) => events.run(&session).await,
            Command::Tasks(tasks) => tasks.run(&session).await,
            Command::Wait(wait) => wait.run(&session).await,
            Command::Signal(signal) => signal.run(&session).await,
            Command::Cancel(cancel) => cancel.run(&session).await,
            Command::Terminate(terminate) => terminate.run(&session).await,
            Command::Retry(retry) => retry.run(&session).await,
            Command::Export(export) => export.run(&session).await,
        };
        done.map_err(|failure| {
            session.explain(failure).advise_if_missing("`flovyn workflow list` shows what is there.")
        })
    }
}
