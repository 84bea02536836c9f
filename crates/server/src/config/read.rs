//! Reads text into a checked [`Config`].

use std::path::Path;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use toml::{Table, Value};
use uuid::Uuid;

use super::environment::{overlay, variable};
use super::{Config, ConfigError};

impl Config {
    /// Reads a file and the environment of this process. `None`: no file is read.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or if a key is unknown, missing or wrong.
    pub fn load(path: Option<&Path>) -> Result<Self, ConfigError> {
        let text = match path {
            None => String::new(),
            Some(path) => std::fs::read_to_string(path).map_err(|error| {
                let path = path.display();
                ConfigError::new(format!("cannot read the configuration {path}: {error}; check --config"))
            })?,
        };
        // Variables that are not valid Unicode are skipped: all names and values of this product are.
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        Self::parse(&text, variables).map_err(|error| match path {
            Some(path) => ConfigError::new(format!("{}: {error}", path.display())),
            None => error,
        })
    }

    /// Reads the text of a file, overridden by variables.
    ///
    /// # Errors
    /// Fails if a key is unknown, missing or wrong.
    pub fn parse(
        text: &str,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, ConfigError> {
        let mut table: Table = text.parse().map_err(|error| syntax_error(text, &error))?;
        if table.get("metrics").is_some_and(|metrics| metrics.get("public").is_some()) {
            return Err(super::metrics::removed(super::metrics::REMOVED));
        }
        overlay(&mut table, variables)?;
        if !table.contains_key("database_url") {
            let variable = variable("database_url");
            let message = format!(
                "database_url is missing: set it (or {variable}) to sqlite:PATH or postgres://USER@HOST/DATABASE"
            );
            return Err(ConfigError::new(message));
        }
        let config = Self::deserialize(Value::Table(table)).map_err(|error| {
            // The second line, if any, names the key. Both lines are joined into one.
            ConfigError::new(error.to_string().trim_end().replace('\n', " "))
        })?;
        config.check()?;
        Ok(config)
    }
}

/// Names the line number without quoting the line, because the line may contain a secret.
fn syntax_error(text: &str, error: &toml::de::Error) -> ConfigError {
    let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
    ConfigError::new(format!("line {line}: {}; correct it", error.message()))
}

pub(super) fn uuid<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Uuid>, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map(Some).map_err(|_| D::Error::custom(format!("'{text}' is not a UUID")))
}
