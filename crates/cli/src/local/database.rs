//! Chooses the database of a command: by URL, by a server's configuration, or by a data directory.

use std::path::PathBuf;

use clap::Args;
use flovyn_server::Config;

#[derive(Args)]
pub(crate) struct DatabaseArgs {
    /// `sqlite:PATH` for an embedded file, `postgres://USER@HOST/DATABASE` for a PostgreSQL server. Also:
    /// FLOVYN_DATABASE_URL.
    #[arg(long, value_name = "URL", conflicts_with_all = ["config", "data_dir"])]
    database_url: Option<String>,
    /// A server's configuration file, to use its database.
    #[arg(long, value_name = "FILE", conflicts_with = "data_dir")]
    config: Option<PathBuf>,
    /// The data directory of `flovyn dev`. Default: `.flovyn`.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

impl DatabaseArgs {
    pub(crate) fn url(&self) -> Result<String, String> {
        if let Some(url) = &self.database_url {
            return Ok(url.clone());
        }
        if let Some(file) = &self.config {
            let config = Config::load(Some(file)).map_err(|error| error.to_string())?;
            return Ok(config.database_url.0);
        }
        if let (None, Ok(url)) = (&self.data_dir, std::env::var("FLOVYN_DATABASE_URL")) {
            return Ok(url);
        }
        let folder = self.data_dir.clone().unwrap_or_else(|| PathBuf::from(".flovyn"));
        Ok(format!("sqlite:{}", folder.join("flovyn.db").display()))
    }
}
