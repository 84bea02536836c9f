//! `flovyn token`: credentials of workers.

mod create;
mod list;
mod revoke;

use clap::Subcommand;

use crate::commands::noun::Verbs;
use crate::exit::Failure;
use crate::remote::Session;

#[derive(Subcommand)]
pub(crate) enum Token {
    /// Make a worker token and print it. It is shown only now.
    Create(create::Create),
    /// List worker tokens, also those that were revoked.
    List(list::List),
    /// Revoke a worker token at once.
    Revoke(revoke::Revoke),
}

impl Verbs for Token {
    const IF_MISSING: &'static str = "`flovyn token list` shows what is there.";

    async fn run(self, session: &Session) -> Result<(), Failure> {
        match self {
            Self::Create(create) => create.run(session).await,
            Self::List(list) => list.run(session).await,
            Self::Revoke(revoke) => revoke.run(session).await,
        }
    }
}
