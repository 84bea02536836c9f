//! `flovyn tenant`: tenants.

mod create;
mod show;

use clap::Subcommand;

use crate::commands::noun::Verbs;
use crate::exit::Failure;
use crate::remote::Session;

#[derive(Subcommand)]
pub(crate) enum Tenant {
    /// Create a tenant. Requires the role server-admin.
    Create(create::Create),
    /// Show a tenant's id, name and retention
    Show(show::Show),
}

impl Verbs for Tenant {
    async fn run(self, session: &Session) -> Result<(), Failure> {
        match self {
            Self::Create(create) => create.run(session).await,
            Self::Show(show) => show.run(session).await,
        }
    }
}
