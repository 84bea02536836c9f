//! `flovyn api-key`: keys that are declared in a server's configuration.

mod generate;

use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum ApiKey {
    /// Generate a key, and its hash for the configuration.
    Generate(generate::Generate),
}

impl ApiKey {
    pub(crate) fn run(self) -> Result<(), String> {
        match self {
            Self::Generate(generate) => generate.run(),
        }
    }
}
