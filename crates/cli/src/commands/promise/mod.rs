//! `flovyn promise`: resolves or rejects the promises that workflows wait for.

mod reject;
mod resolve;

use clap::Subcommand;

use crate::commands::noun::Verbs;
use crate::exit::Failure;
use crate::remote::Session;

#[derive(Subcommand)]
pub(crate) enum Promise {
    /// Resolve a promise with a value.
    Resolve(resolve::Resolve),
    /// Reject a promise with an error.
    Reject(reject::Reject),
}

impl Verbs for Promise {
    const IF_MISSING: &'static str = "`flovyn workflow show` names the promise that an execution waits for. The promise may not have been created yet.";

    async fn run(self, session: &Session) -> Result<(), Failure> {
        match self {
            Self::Resolve(resolve) => resolve.run(session).await,
            Self::Reject(reject) => reject.run(session).await,
        }
    }
}
