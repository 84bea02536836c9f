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
    /// Create a worker token and print it. It is shown only once.
    Create(create::Create),
    /// List worker tokens, including revoked ones.
    List(list::List),
    /// Revoke a worker token immediately.
    Revoke(revoke::Revoke),
}

impl Verbs for Token {
    const IF_MISSING: &'static str = "`flovyn token list` lists what exists.";

    async fn run(self, session: &Session) -> Result<(), Failure> {
        match self {
            Self::Create(create) => create.run(session).await,
            Self::List(list) => list.run(session).await,
            Self::Revoke(revoke) => revoke.run(session).await,
        }
    }
}
