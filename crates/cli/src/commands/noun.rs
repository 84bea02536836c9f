//! The common part of the commands that call a server: a noun with the shared options, and one of its verbs.

use clap::{Args, Subcommand};

use crate::exit::Failure;
use crate::remote::{Remote, Session};

#[derive(Args)]
pub(crate) struct Noun<V: Subcommand> {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    verb: V,
}

/// The verbs of a noun.
pub(crate) trait Verbs: Subcommand {
    /// The advice to print if the server answers "not found".
    const IF_MISSING: &'static str = "";

    async fn run(self, session: &Session) -> Result<(), Failure>;
}

impl<V: Verbs> Noun<V> {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let session = self.remote.connect()?;
        let done = self.verb.run(&session).await;
        done.map_err(|failure| session.explain(failure).advise_if_missing(V::IF_MISSING))
    }
}
