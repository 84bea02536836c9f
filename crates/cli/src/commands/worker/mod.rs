//! `flovyn worker`: who works.

mod list;

use clap::{Args, Subcommand};

use crate::exit::Failure;
use crate::remote::Remote;

#[derive(Args)]
pub(crate) struct Worker {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List workers, and what they can run.
    List(list::List),
}

impl Worker {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let session = self.remote.connect()?;
        let done = match self.command {
            Command::List(list) => list.run(&session).await,
        };
        done.map_err(|failure| session.explain(failure))
    }
}
