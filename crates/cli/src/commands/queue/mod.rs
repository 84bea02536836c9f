//! `flovyn queue`: what waits, and letting it wait.

mod list;
mod pause;
mod resume;

use clap::{Args, Subcommand};

use crate::exit::Failure;
use crate::remote::Remote;

#[derive(Args)]
pub(crate) struct Queue {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the queues in which something waits or which are paused.
    List(list::List),
    /// Hand out nothing from a queue; what workers have they finish.
    Pause(pause::Pause),
    /// Hand out work from a queue again.
    Resume(resume::Resume),
}

impl Queue {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let session = self.remote.connect()?;
        let done = match self.command {
            Command::List(list) => list.run(&session).await,
            Command::Pause(pause) => pause.run(&session).await,
            Command::Resume(resume) => resume.run(&session).await,
        };
        done.map_err(|failure| session.explain(failure))
    }
}
