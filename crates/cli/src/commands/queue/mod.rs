//! `flovyn queue`: what waits, and letting it wait.

mod list;
mod pause;
mod resume;

use clap::Subcommand;

use crate::commands::noun::Verbs;
use crate::exit::Failure;
use crate::remote::Session;

#[derive(Subcommand)]
pub(crate) enum Queue {
    /// List the queues in which something waits or which are paused.
    List(list::List),
    /// Hand out nothing from a queue; what workers have they finish.
    Pause(pause::Pause),
    /// Hand out work from a queue again.
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
