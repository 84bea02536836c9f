//! `flovyn migrate`: what every server does when it starts, on its own.

use clap::Args;
use flovyn_store::open;

use crate::terminal::say;

#[derive(Args)]
#[command(after_help = "\
Every server does this when it starts. On its own it is for those who give that right to
another user of the database.

Examples:
  flovyn migrate
  FLOVYN_DATABASE_URL=postgres://owner@db/flovyn flovyn migrate")]
pub(crate) struct Migrate {
    /// `sqlite:PATH` for an embedded file, `postgres://USER@HOST/DATABASE` for a server.
    #[arg(
        long,
        env = "FLOVYN_DATABASE_URL",
        hide_env_values = true,
        default_value = "sqlite:.flovyn/flovyn.db"
    )]
    database_url: String,
}

impl Migrate {
    pub(crate) async fn run(self) -> Result<(), String> {
        open::store(&self.database_url).await.map_err(|error| error.to_string())?;
        say(&format!("the schema of {} is up to date", open::without_password(&self.database_url)));
        Ok(())
    }
}
