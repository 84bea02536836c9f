//! `flovyn clock`: the time of a server with a virtual clock.

mod advance;

use clap::{Args, Subcommand};

use crate::exit::Failure;
use crate::remote::Remote;

#[derive(Args)]
pub(crate) struct Clock {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Move the clock on. Everything that falls due happens on the way.
    Advance(advance::Advance),
}

impl Clock {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let session = self.remote.connect()?;
        let done = match self.command {
            Command::Advance(advance) => advance.run(&session).await,
        };
        done.map_err(|failure| {
            session
                .explain(failure)
                .advise_if_missing("Only `flovyn dev --virtual-clock` has a clock that can be moved.")
        })
    }
}
