//! `flovyn api-key generate`: works without a server and stores nothing.

use std::io::Write;

use clap::Args;
use flovyn_auth::{hash_api_key, new_api_key};

use crate::terminal::say;

#[derive(Args)]
#[command(after_help = "\
Works without a server. The key and its hash go to stdout, in the configuration's format.

Examples:
  flovyn api-key generate")]
pub(crate) struct Generate {}

impl Generate {
    pub(crate) fn run(self) -> Result<(), String> {
        let key = new_api_key()?;
        let hash: String = hash_api_key(&key).iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(std::io::stdout(), "key = \"{key}\"\nsha256 = \"{hash}\"")
            .map_err(|error| error.to_string())?;
        say("Store the key now: it is not shown again. Add its sha256, with a name, tenants and a \
             role, under [[auth.api_keys]] in the server's configuration.");
        Ok(())
    }
}
