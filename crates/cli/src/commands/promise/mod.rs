//! `flovyn promise`: answering what a workflow waits for.

mod reject;
mod resolve;

use clap::Subcommand;

use crate::commands::noun::Verbs;
use crate::exit::Failure;
use crate::remote::Session;

#[derive(Subcommand)]
pub(crate) enum Promise {
    /// Give a promise its value.
    Resolve(resolve::Resolve),
    /// Let waiting for a promise fail.
    Reject(reject::Reject),
}

impl Verbs for Promise {
    const IF_MISSING: &'static str =
        "`flovyn workflow show` names the promise that an execution waits for; it may not have asked yet.";

    async fn run(self, session: &Session) -> Result<(), Failure> {
        match self {
            Self::Resolve(resolve) => resolve.run(session).await,
            Self::Reject(reject) => reject.run(session).await,
        }
    }
}
