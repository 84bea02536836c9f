//! `flovyn tenant`: whose data it is.

mod create;

use clap::{Args, Subcommand};

use crate::exit::Failure;
use crate::remote::Remote;

#[derive(Args)]
pub(crate) struct Tenant {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make a tenant. Takes the role server-admin.
    Create(create::Create),
}

impl Tenant {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let session = self.remote.connect()?;
        let done = match self.command {
            Command::Create(create) => create.run(&session).await,
        };
        done.map_err(|failure| session.explain(failure))
    }
}
