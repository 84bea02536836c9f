//! `flovyn clock`: the time of a server with a virtual clock.

mod advance;

use clap::Subcommand;

use crate::commands::noun::Verbs;
use crate::exit::Failure;
use crate::remote::Session;

#[derive(Subcommand)]
pub(crate) enum Clock {
    /// Move the clock on. Everything that falls due happens on the way.
    Advance(advance::Advance),
}

impl Verbs for Clock {
    const IF_MISSING: &'static str = "Only `flovyn dev --virtual-clock` has a clock that can be moved.";

    async fn run(self, session: &Session) -> Result<(), Failure> {
        match self {
            Self::Advance(advance) => advance.run(session).await,
        }
    }
}
