//! `flovyn workflow`: starting executions, looking at them and acting on them.

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
#[allow(clippy::large_enum_variant, reason = "there is one, and it is made once")]
pub(crate) enum Workflow {
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
    /// Retry a held-back execution now, by a worker of any build.
    Release(release::Release),
    /// Start a failed or cancelled execution again, as a new one with the same input.
    Retry(retry::Retry),
    /// Print an execution with its whole history, tasks and state as one JSON document.
    Export(export::Export),
}

impl Verbs for Workflow {
    const IF_MISSING: &'static str = "`flovyn workflow list` shows what is there.";

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
