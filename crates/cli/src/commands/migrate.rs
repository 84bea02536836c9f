//! `flovyn migrate`: what every server does when it starts, on its own.

use clap::Args;
use flovyn_store::open;

#[derive(Args)]
pub(crate) struct Migrate {
    /// `sqlite:PATH` for an embedded file, `postgres://USER@HOST/DATABASE` for a server.
    #[arg(long, env = "FLOVYN_DATABASE_URL", default_value = "sqlite:.flovyn/flovyn.db")]
    database_url: String,
}

impl Migrate {
    pub(crate) async fn run(self) -> Result<(), String> {
        open::store(&self.database_url).await.map_err(|error| error.to_string())?;
        eprintln!("the schema of {} is up to date", open::without_password(&self.database_url));
        Ok(())
    }
}
