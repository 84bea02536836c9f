//! `flovyn promise`: answering what a workflow waits for.

mod reject;
mod resolve;

use clap::{Args, Subcommand};

use crate::exit::Failure;
use crate::remote::Remote;

#[derive(Args)]
pub(crate) struct Promise {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Give a promise its value.
    Resolve(resolve::Resolve),
    /// Let waiting for a promise fail.
    Reject(reject::Reject),
}

impl Promise {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let session = self.remote.connect()?;
        let done = match self.command {
            Command::Resolve(resolve) => resolve.run(&session).await,
            Command::Reject(reject) => reject.run(&session).await,
        };
        done.map_err(|failure| session.explain(failure).advise_if_missing("`flovyn workflow show` names the promise that an execution waits for; it may not have asked yet."))
    }
}
