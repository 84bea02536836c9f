//! `flovyn backup`: copies an embedded database, also while a server uses it.

use std::path::{Path, PathBuf};

use clap::Args;
use flovyn_store::{open, sqlite};

use crate::local::DatabaseArgs;
use crate::terminal::say;

#[derive(Args)]
#[command(after_help = "\
Examples:
  flovyn backup flovyn-2027-01-31.db
  flovyn backup --config /etc/flovyn/server.toml /backup/flovyn.db")]
pub(crate) struct Backup {
    /// The file to write. It must not exist yet.
    file: PathBuf,
    #[command(flatten)]
    database: DatabaseArgs,
}

impl Backup {
    pub(crate) async fn run(self) -> Result<(), String> {
        let url = self.database.url()?;
        let Some(path) = url.strip_prefix("sqlite:").map(str::to_owned) else {
            return Err(format!(
                "{} is not an embedded database: use pg_dump or pg_basebackup, see docs/guide/backup.md",
                open::without_password(&url)
            ));
        };
        let file = self.file.clone();
        let copied = tokio::task::spawn_blocking(move || sqlite::backup(Path::new(&path), &file)).await;
        let copied = copied.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        say(&format!(
            "{} holds {} bytes, checked, schema {}",
            self.file.display(),
            copied.bytes,
            copied.version
        ));
        Ok(())
    }
}
