//! `flovyn clock`: the time of a server with a virtual clock.

mod advance;

use clap::Subcommand;

use crate::commands::noun::Verbs;
use crate::exit::Failure;
use crate::remote::Session;

#[derive(Subcommand)]
pub(crate) enum Clock {
    /// Advance the clock; everything that becomes due is processed.
    Advance(advance::Advance),
}

impl Verbs for Clock {
    const IF_MISSING: &'static str = "Only the clock of `flovyn dev --virtual-clock` can be advanced.";

    async fn run(self, session: &Session) -> Result<(), Failure> {
        match self {
            Self::Advance(advance) => advance.run(session).await,
        }
    }
}
