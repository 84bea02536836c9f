//! `flovyn queue`: queued work, pausing and resuming.

mod list;
mod pause;
mod resume;

use clap::Subcommand;

use crate::commands::noun::Verbs;
use crate::exit::Failure;
use crate::remote::Session;

#[derive(Subcommand)]
pub(crate) enum Queue {
    /// List the queues that have queued items or are paused.
    List(list::List),
    /// Pause a queue: no work is handed out; in-flight work completes.
    Pause(pause::Pause),
    /// Resume a queue.
    Resume(resume::Resume),
}

impl Verbs for Queue {
    async fn run(self, session: &Session) -> Result<(), Failure> {
        match self {
            Self::List(list) => list.run(session).await,
            Self::Pause(pause) => pause.run(session).await,
            Self::Resume(resume) => resume.run(session).await,
        }
    }
}
