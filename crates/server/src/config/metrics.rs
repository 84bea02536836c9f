//! The scrape token: a credential that reads `/_/metrics` and does nothing else.

use flovyn_auth::{API_KEY_PREFIX, MAX_TOKEN_BYTES};

use super::auth::read_file;
use super::check::MIN_TOKEN_CHARS;
use super::{ConfigError, Metrics, MetricsAccess};

/// A setting of earlier builds, which made the metrics of all tenants public.
pub(super) const REMOVED: &str = "metrics.public";

/// The error for this removed setting. `name` is the key or its environment variable.
pub(super) fn removed(name: &str) -> ConfigError {
    ConfigError::new(format!(
        "{name} is no longer a setting: set metrics.access = \"loopback\" for scrapers on this machine, or \
         metrics.token_file for scrapers elsewhere"
    ))
}

impl Metrics {
    /// The scrape token, read from its file if it is in one. `None` if none is configured.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or if the token cannot be used or is easy to guess.
    pub(crate) fn scrape_token(&self) -> Result<Option<String>, ConfigError> {
        let (key, token) = match (&self.token, &self.token_file) {
            (None, None) => return Ok(None),
            (Some(_), Some(_)) => {
                return Err(ConfigError::new("metrics.token and metrics.token_file: give only one"));
            }
            (Some(token), None) => ("metrics.token", token.clone()),
            (None, Some(path)) => {
                let key = "metrics.token_file";
                let text = String::from_utf8(read_file(key, path)?)
                    .map_err(|_| ConfigError::new(format!("{key}: {} is not text", path.display())))?;
                (key, text.trim().to_owned())
            }
        };
        check(key, &token)?;
        Ok(Some(token))
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if self.access == MetricsAccess::Off && (self.token.is_some() || self.token_file.is_some()) {
            let message = "metrics.access is \"off\" but there is a token: remove one of the two";
            return Err(ConfigError::new(message));
        }
        // A token file is not read here. The server reads it when it starts.
        if self.token_file.is_none() || self.token.is_some() {
            self.scrape_token().map(|_| ())
        } else {
            Ok(())
        }
    }
}

fn check(key: &str, token: &str) -> Result<(), ConfigError> {
    let plain = token.bytes().all(|byte| byte.is_ascii_graphic());
    if plain
        && (MIN_TOKEN_CHARS..=MAX_TOKEN_BYTES).contains(&token.len())
        && !token.starts_with(API_KEY_PREFIX)
    {
        return Ok(());
    }
    let message = format!(
        "{key}: use {MIN_TOKEN_CHARS} to {MAX_TOKEN_BYTES} random letters, digits and signs without spaces, not \
         beginning with {API_KEY_PREFIX}, for example from `openssl rand -hex 32`"
    );
    Err(ConfigError::new(message))
}
