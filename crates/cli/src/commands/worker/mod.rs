//! `flovyn worker`: connected workers.

mod list;

use clap::Subcommand;

use crate::commands::noun::Verbs;
use crate::exit::Failure;
use crate::remote::Session;

#[derive(Subcommand)]
pub(crate) enum Worker {
    /// List workers and what they can run.
    List(list::List),
}

impl Verbs for Worker {
    async fn run(self, session: &Session) -> Result<(), Failure> {
        match self {
            Self::List(list) => list.run(session).await,
        }
    }
}
