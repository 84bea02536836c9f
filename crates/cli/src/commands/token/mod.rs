//! `flovyn token`: credentials of workers.

mod create;
mod list;
mod revoke;

use clap::{Args, Subcommand};

use crate::exit::Failure;
use crate::remote::Remote;

#[derive(Args)]
pub(crate) struct Token {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make a worker token and print it. It is shown only now.
    Create(create::Create),
    /// List worker tokens, also those that were revoked.
    List(list::List),
    /// Revoke a worker token at once.
    Revoke(revoke::Revoke),
}

impl Token {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let session = self.remote.connect()?;
        let done = match self.command {
            Command::Create(create) => create.run(&session).await,
            Command::List(list) => list.run(&session).await,
            Command::Revoke(revoke) => revoke.run(&session).await,
        };
        done.map_err(|failure| {
            session.explain(failure).advise_if_missing("`flovyn token list` shows what is there.")
        })
    }
}
