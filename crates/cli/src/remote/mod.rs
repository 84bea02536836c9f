//! The common part of commands that call a server: which server, with which token, and how the answer is shown.
//!
//! - `place`: a saved address with its token. `profiles`: a file with several places.
//! - `resolve`: which address and token are used. `expiry`: when a token expires.

mod expiry;
mod place;
mod profiles;
mod resolve;

use std::path::PathBuf;

use clap::Args;

use self::resolve::{Asked, Connection, resolve};
use crate::client::Client;
use crate::exit::{Doubt, Failure};
use crate::view::words::{moment, now_ms};
use crate::view::{Format, Out};

#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Server and output")]
pub(crate) struct Remote {
    /// Address of the server, such as https://flovyn.example.com.
    #[arg(long, value_name = "URL", global = true, env = "FLOVYN_URL", hide_env_values = true)]
    url: Option<String>,
    /// The tenant's slug or id.
    #[arg(long, value_name = "TENANT", global = true, env = "FLOVYN_TENANT", hide_env_values = true)]
    tenant: Option<String>,
    /// JWT or API key. Safer in the environment variable or a profile, where other users cannot see it.
    #[arg(long, value_name = "TOKEN", global = true, env = "FLOVYN_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// A profile in ~/.config/flovyn/config.toml.
    #[arg(long, value_name = "NAME", global = true, env = "FLOVYN_PROFILE", hide_env_values = true)]
    profile: Option<String>,
    /// The data directory of a `flovyn dev`. Default: `.flovyn`.
    #[arg(long, value_name = "DIR", global = true)]
    data_dir: Option<PathBuf>,
    /// Output format on stdout.
    #[arg(long, short, value_name = "FORMAT", global = true, value_enum, default_value_t = Format::Table)]
    output: Format,
}

/// The connection of a command to the server, and its output.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) out: Out,
    /// Where the address and the token come from.
    url_from: String,
    token_from: String,
    expires_ms: Option<i64>,
}

impl Remote {
    pub(crate) fn connect(&self) -> Result<Session, Failure> {
        let given = |value: &Option<String>| value.clone().filter(|value| !value.is_empty());
        let asked = Asked { url: given(&self.url), tenant: given(&self.tenant), token: given(&self.token) };
        let place =
            place::find(given(&self.profile).as_deref(), self.data_dir.as_deref(), asked.is_complete())?;
        let Connection { url, tenant, token, url_from, token_from } = resolve(asked, place)?;
        let client = Client::new(&url, &tenant, &token)?;
        let expires_ms = expiry::expires_ms(&token);
        Ok(Session { client, out: Out::new(self.output), url_from, token_from, expires_ms })
    }
}

impl Session {
    /// If local settings may be the cause of a failure, adds where they come from.
    pub(crate) fn explain(&self, failure: Failure) -> Failure {
        match failure.doubted() {
            Some(Doubt::Address) => failure.advise(format!("The address is from {}.", self.url_from)),
            Some(Doubt::Token) => {
                let expired = self.expires_ms.filter(|ms| *ms <= now_ms());
                let expired = expired.map(|ms| format!(", and it expired at {}", moment(ms)));
                failure.advise(format!(
                    "The token is from {}{}.",
                    self.token_from,
                    expired.unwrap_or_default()
                ))
            }
            None => failure,
        }
    }
}
