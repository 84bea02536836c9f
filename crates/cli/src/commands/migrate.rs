//! `flovyn migrate`: the schema migration that every server runs when it starts, as a separate command.

use clap::Args;
use flovyn_store::open;

use crate::terminal::say;

#[derive(Args)]
#[command(after_help = "\
Every server migrates the schema when it starts. Run this command if the server's database
user may not change the schema.

Examples:
  flovyn migrate
  FLOVYN_DATABASE_URL=postgres://owner@db/flovyn flovyn migrate")]
pub(crate) struct Migrate {
    /// `sqlite:PATH` for an embedded file, `postgres://USER@HOST/DATABASE` for a PostgreSQL server.
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
