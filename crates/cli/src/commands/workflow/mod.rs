//! `flovyn workflow`: starts, inspects and controls executions.

mod cancel;
mod events;
mod export;
mod history;
mod list;
mod named;
mod release;
mod retry;
mod show;
mod signal;
mod start;
mod tasks;
mod terminate;
mod wait;

use clap::Subcommand;

use crate::commands::noun::Verbs;
use crate::exit::Failure;
use crate::remote::Session;

#[derive(Subcommand)]
#[allow(clippy::large_enum_variant, reason = "the process creates a single value")]
pub(crate) enum Workflow {
    /// Start a workflow and print the execution's id.
    Start(start::Start),
    /// List executions, newest first.
    List(list::List),
    /// Show an execution: its status, what it waits for, and a timeline.
    Show(show::Show),
    /// Print the history of an execution.
    Events(events::Events),
    /// List the tasks of an execution.
    Tasks(tasks::Tasks),
    /// Wait until an execution has ended and print its output.
    Wait(wait::Wait),
    /// Send a signal to an execution.
    Signal(signal::Signal),
    /// Request cancellation of an execution; it may clean up first.
    Cancel(cancel::Cancel),
    /// Force-stop an execution immediately, without clean-up.
    Terminate(terminate::Terminate),
    /// Retry a held-back execution now, on a worker of any build.
    Release(release::Release),
    /// Start a failed or cancelled execution again, as a new execution with the same input.
    Retry(retry::Retry),
    /// Export an execution with its history, tasks and state as JSON.
    Export(export::Export),
}

impl Verbs for Workflow {
    const IF_MISSING: &'static str = "`flovyn workflow list` lists what exists.";

    async fn run(self, session: &Session) -> Result<(), Failure> {
        match self {
            Self::Start(start) => start.run(session).await,
            Self::List(list) => list.run(session).await,
            Self::Show(show) => show.run(session).await,
            Self::Events(events) => events.run(session).await,
            Self::Tasks(tasks) => tasks.run(session).await,
            Self::Wait(wait) => wait.run(session).await,
            Self::Signal(signal) => signal.run(session).await,
            Self::Cancel(cancel) => cancel.run(session).await,
            Self::Terminate(terminate) => terminate.run(session).await,
            Self::Release(release) => release.run(session).await,
            Self::Retry(retry) => retry.run(session).await,
            Self::Export(export) => export.run(session).await,
        }
    }
}
