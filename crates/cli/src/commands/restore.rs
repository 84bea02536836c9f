//! `flovyn restore`: copies a backup made by `flovyn backup` to a data directory.

use std::path::PathBuf;

use clap::Args;
use flovyn_store::sqlite;

use crate::local::DataDir;
use crate::terminal::say;

#[derive(Args)]
#[command(after_help = "\
Examples:
  flovyn restore --data-dir restored flovyn-2027-01-31.db
  flovyn dev --data-dir restored")]
pub(crate) struct Restore {
    /// A file written by `flovyn backup`.
    file: PathBuf,
    /// The directory to create. It must be empty or not exist yet.
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
}

impl Restore {
    pub(crate) async fn run(self) -> Result<(), String> {
        let shown = self.data_dir.display();
        if let Ok(mut entries) = self.data_dir.read_dir()
            && entries.next().is_some()
        {
            return Err(format!(
                "{shown} is not empty, and existing files are never overwritten: choose another --data-dir"
            ));
        }
        let database = DataDir::open(&self.data_dir)?.path().join("flovyn.db");
        let file = self.file.clone();
        let copied = tokio::task::spawn_blocking(move || sqlite::restore(&file, &database)).await;
        let copied = copied.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        say(&format!(
            "{shown} holds the database, {} bytes, checked, schema {}",
            copied.bytes, copied.version
        ));
        Ok(())
    }
}
