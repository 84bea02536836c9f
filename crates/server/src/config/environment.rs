//! Environment variables, which override the file: `FLOVYN_GRPC_ADDRESS` is the key `grpc.address`.

use toml::{Table, Value};

use super::ConfigError;

/// The type of a variable's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    Number,
    Switch,
}

use Kind::{Number, Switch, Text};

/// Every key that holds a single value, by its path in the file.
pub const KEYS: &[(&str, Kind)] = &[
    ("database_url", Text),
    ("database.check", Text),
    ("grpc.address", Text),
    ("grpc.max_poll_wait_ms", Number),
    ("http.address", Text),
    ("tls.cert", Text),
    ("tls.key", Text),
    ("auth.jwt.secret_file", Text),
    ("auth.jwt.public_key_file", Text),
    ("auth.jwt.jwks_file", Text),
    ("auth.jwt.jwks_url", Text),
    ("auth.jwt.jwks_ca_file", Text),
    ("auth.jwt.jwks_refresh_seconds", Number),
    ("auth.jwt.algorithm", Text),
    ("auth.jwt.issuer", Text),
    ("auth.jwt.audience", Text),
    ("auth.jwt.tenants_claim", Text),
    ("auth.jwt.role_claim", Text),
    ("auth.failed_tries_per_minute", Number),
    ("requests.body_silence_ms", Number),
    ("requests.limit_ms", Number),
    ("metrics.access", Text),
    ("metrics.token", Text),
    ("metrics.token_file", Text),
    ("docs.public", Switch),
    ("audit.retention_days", Number),
    ("telemetry.otlp_endpoint", Text),
    ("telemetry.log_format", Text),
    ("telemetry.log_filter", Text),
    ("limits.session_lease_ms", Number),
    ("limits.workflow_lease_ms", Number),
    ("limits.task_lease_ms", Number),
    ("limits.worker_silence_ms", Number),
    ("limits.cancel_grace_ms", Number),
    ("limits.equal_refusals", Number),
];

const PREFIX: &str = "FLOVYN_";
/// Variables of the command line, which are not keys of the server's configuration.
const NOT_OURS: &[&str] = &["FLOVYN_URL", "FLOVYN_TOKEN", "FLOVYN_TENANT", "FLOVYN_PROFILE", "FLOVYN_CONFIG"];
const TESTS: &str = "FLOVYN_TEST_";

/// The name of the variable for a key.
pub(super) fn variable(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "_").to_uppercase())
}

/// Sets the values of the variables in the table; they override the file.
pub(super) fn overlay(
    table: &mut Table,
    variables: impl IntoIterator<Item = (String, String)>,
) -> Result<(), ConfigError> {
    for (name, text) in variables {
        let ours = name.starts_with(PREFIX) && !name.starts_with(TESTS) && !NOT_OURS.contains(&name.as_str());
        if !ours {
            continue;
        }
        if name == variable(super::metrics::REMOVED) {
            return Err(super::metrics::removed(&name));
        }
        let Some((key, kind)) = KEYS.iter().find(|(key, _)| variable(key) == name) else {
            let message = format!(
                "the environment variable {name} is not a configuration key of the server: unset it, or correct its name"
            );
            return Err(ConfigError::new(message));
        };
        set(table, key, value(&name, *kind, text)?)?;
    }
    Ok(())
}

fn value(name: &str, kind: Kind, text: String) -> Result<Value, ConfigError> {
    match kind {
        Text => Ok(Value::String(text)),
        Number => text
            .parse()
            .map(Value::Integer)
            .map_err(|_| ConfigError::new(format!("{name} is '{text}': give a whole number"))),
        Switch => text
            .parse()
            .map(Value::Boolean)
            .map_err(|_| ConfigError::new(format!("{name} is '{text}': give true or false"))),
    }
}

fn set(table: &mut Table, key: &str, value: Value) -> Result<(), ConfigError> {
    match key.split_once('.') {
        None => {
            table.insert(key.to_owned(), value);
            Ok(())
        }
        Some((first, rest)) => match table.entry(first).or_insert_with(|| Value::Table(Table::new())) {
            Value::Table(inner) => set(inner, rest, value),
            _ => Err(ConfigError::new(format!("{first} must be a table: write [{first}]"))),
        },
    }
}
