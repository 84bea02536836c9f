//! Checks the values of a configuration.

use std::net::SocketAddr;

use axum::http::Uri;
use flovyn_auth::{API_KEY_PREFIX, MAX_TOKEN_BYTES};

use super::{Config, ConfigError, Cors, Requests};

/// The shortest token that people may choose: a token must not be guessable.
pub(super) const MIN_TOKEN_CHARS: usize = 32;
/// The shortest worker token. Clients of the public protocol use tokens of this length.
const MIN_WORKER_TOKEN_CHARS: usize = 31;
/// The shortest lease. A shorter one could expire while a healthy worker gets no processor time.
const SHORTEST_LEASE_MS: i64 = 1_000;
/// For the first of several refusals, the rows that the end of an execution needs are not loaded.
const EQUAL_REFUSALS: std::ops::RangeInclusive<i64> = 2..=1_000;
const LONGEST_LEASE_MS: i64 = 24 * 60 * 60 * 1_000;

const FAILED_TRIES: std::ops::RangeInclusive<u32> = 1..=1_000_000;
const POLL_WAIT_MS: std::ops::RangeInclusive<u64> = 1..=300_000;
const REQUEST_MS: std::ops::RangeInclusive<u64> = 100..=3_600_000;
const RETENTION_DAYS: std::ops::RangeInclusive<u32> = 1..=36_500;

impl Config {
    /// # Errors
    /// Fails if a value cannot be used, or if others can reach an address without authentication.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.check_database()?;
        self.check_limits()?;
        self.check_tenants()?;
        if let Some(jwt) = &self.auth.jwt {
            jwt.check()?;
        }
        self.check_api_keys()?;
        if !FAILED_TRIES.contains(&self.auth.failed_tries_per_minute) {
            let (from, to) = (FAILED_TRIES.start(), FAILED_TRIES.end());
            return Err(ConfigError::new(format!(
                "auth.failed_tries_per_minute: choose from {from} to {to}"
            )));
        }
        self.metrics.check()?;
        if !POLL_WAIT_MS.contains(&self.grpc.max_poll_wait_ms) {
            let (from, to) = (POLL_WAIT_MS.start(), POLL_WAIT_MS.end());
            let given = self.grpc.max_poll_wait_ms;
            let message =
                format!("grpc.max_poll_wait_ms is {given}: choose from {from} to {to} milliseconds");
            return Err(ConfigError::new(message));
        }
        let Requests { body_silence_ms, limit_ms } = self.requests;
        for (key, ms) in [("body_silence_ms", body_silence_ms), ("limit_ms", limit_ms)] {
            if !REQUEST_MS.contains(&ms) {
                let (from, to) = (REQUEST_MS.start(), REQUEST_MS.end());
                let message = format!("requests.{key} is {ms}: choose from {from} to {to} milliseconds");
                return Err(ConfigError::new(message));
            }
        }
        if !RETENTION_DAYS.contains(&self.audit.retention_days) {
            let (from, to) = (RETENTION_DAYS.start(), RETENTION_DAYS.end());
            return Err(ConfigError::new(format!("audit.retention_days: choose from {from} to {to}")));
        }
        if let Some(cors) = &self.http.cors {
            cors.check()?;
        }
        self.check_open("grpc.address", self.grpc.address)?;
        self.check_open("http.address", self.http.address)
    }

    fn check_database(&self) -> Result<(), ConfigError> {
        let url = &self.database_url.0;
        let sqlite = url.strip_prefix("sqlite:").is_some_and(|path| !path.is_empty());
        if sqlite || url.starts_with("postgres://") || url.starts_with("postgresql://") {
            return Ok(());
        }
        let message = format!(
            "database_url is '{}': use sqlite:PATH or postgres://USER@HOST/DATABASE",
            flovyn_store::open::without_password(url)
        );
        Err(ConfigError::new(message))
    }

    fn check_limits(&self) -> Result<(), ConfigError> {
        let limits = &self.limits;
        let given = [
            ("session_lease_ms", limits.session_lease_ms),
            ("workflow_lease_ms", limits.workflow_lease_ms),
            ("task_lease_ms", limits.task_lease_ms),
            ("worker_silence_ms", limits.worker_silence_ms),
            ("cancel_grace_ms", limits.cancel_grace_ms),
        ];
        for (key, value) in given {
            if let Some(ms) = value.filter(|ms| !(SHORTEST_LEASE_MS..=LONGEST_LEASE_MS).contains(ms)) {
                let message = format!(
                    "limits.{key} is {ms}: choose from {SHORTEST_LEASE_MS} to {LONGEST_LEASE_MS} milliseconds"
                );
                return Err(ConfigError::new(message));
            }
        }
        if let Some(count) = limits.equal_refusals.filter(|count| !EQUAL_REFUSALS.contains(count)) {
            let (least, most) = (EQUAL_REFUSALS.start(), EQUAL_REFUSALS.end());
            let message = format!("limits.equal_refusals is {count}: choose from {least} to {most}");
            return Err(ConfigError::new(message));
        }
        Ok(())
    }

    fn check_tenants(&self) -> Result<(), ConfigError> {
        for (index, tenant) in self.tenants.iter().enumerate() {
            if self.tenants[..index].iter().any(|other| other.slug == tenant.slug) {
                let message = format!("tenants: '{}' is listed twice; remove one", tenant.slug);
                return Err(ConfigError::new(message));
            }
            for token in &tenant.worker_tokens {
                if token.token.chars().count() < MIN_WORKER_TOKEN_CHARS {
                    let message = format!(
                        "tenants: the worker token '{}' of '{}' is too short: use at least {MIN_WORKER_TOKEN_CHARS} random \
                         characters, for example from `openssl rand -hex 32`",
                        token.name, tenant.slug
                    );
                    return Err(ConfigError::new(message));
                }
                if token.token.starts_with(API_KEY_PREFIX) {
                    let message = format!(
                        "tenants: the worker token '{}' of '{}' begins with {API_KEY_PREFIX}, which is for API keys: \
                         choose another",
                        token.name, tenant.slug
                    );
                    return Err(ConfigError::new(message));
                }
                // The token is sent in a header, where a space ends it. With dots it would look like a JWT.
                let plain = token.token.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'.');
                if !plain || token.token.len() > MAX_TOKEN_BYTES {
                    let message = format!(
                        "tenants: the worker token '{}' of '{}' cannot be used: use up to {MAX_TOKEN_BYTES} \
                         letters, digits and signs without spaces and dots, for example from `openssl rand -hex 32`",
                        token.name, tenant.slug
                    );
                    return Err(ConfigError::new(message));
                }
            }
        }
        Ok(())
    }

    fn check_api_keys(&self) -> Result<(), ConfigError> {
        let keys = &self.auth.api_keys;
        for (index, key) in keys.iter().enumerate() {
            let hash = key.read()?.hash;
            for other in &keys[..index] {
                if other.name == key.name || other.read()?.hash == hash {
                    let (one, two) = (other.name.escape_default(), key.name.escape_default());
                    let message = format!(
                        "auth.api_keys: '{one}' and '{two}' have the same name or the same key: make one for each, \
                         for example with `flovyn api-key generate`"
                    );
                    return Err(ConfigError::new(message));
                }
            }
        }
        Ok(())
    }

    fn check_open(&self, key: &str, address: SocketAddr) -> Result<(), ConfigError> {
        let guarded = self.auth.jwt.is_some()
            || !self.auth.api_keys.is_empty()
            || self.tenants.iter().any(|tenant| !tenant.worker_tokens.is_empty());
        if guarded || address.ip().is_loopback() {
            return Ok(());
        }
        let message = format!(
            "{key} is {address}, which others can reach, but no authentication is configured: add a worker token to \
             a [[tenants]] entry, an [auth.jwt] table or an [[auth.api_keys]] entry, or listen on 127.0.0.1"
        );
        Err(ConfigError::new(message))
    }
}

impl Cors {
    fn check(&self) -> Result<(), ConfigError> {
        let wrong = |what: String| Err(ConfigError::new(format!("http.cors.allowed_origins: {what}")));
        if self.allowed_origins.is_empty() {
            return wrong("name at least one origin, or remove [http.cors]".into());
        }
        if self.allowed_origins.iter().any(|origin| origin == "*") {
            return match (self.allowed_origins.as_slice(), self.allow_credentials) {
                ([_], false) => Ok(()),
                ([_], true) => wrong(
                    "'*' with allow_credentials would let any page act for its visitors: name the origins"
                        .into(),
                ),
                _ => wrong("'*' allows every origin: remove the others".into()),
            };
        }
        match self.allowed_origins.iter().find(|origin| !is_origin(origin)) {
            None => Ok(()),
            Some(origin) => {
                wrong(format!("'{origin}' is not an origin: write https://HOST or https://HOST:PORT"))
            }
        }
    }
}

/// Whether the text is an origin as browsers send it: scheme, host and port, in lower case, without a path.
fn is_origin(text: &str) -> bool {
    let uri = text.parse::<Uri>().ok();
    let parts = uri.as_ref().and_then(|uri| Some((uri.scheme_str()?, uri.authority()?.as_str())));
    parts.is_some_and(|(scheme, authority)| {
        ["http", "https"].contains(&scheme)
            && !authority.contains('@')
            && text == format!("{scheme}://{authority}").to_lowercase()
    })
}
