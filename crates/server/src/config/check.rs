//! What a configuration must be beyond its syntax, and the keys it names on disk.

use std::net::SocketAddr;
use std::path::Path;

use flovyn_auth::{JwtKey, JwtSettings, JwtVerifier, MAX_TOKEN_BYTES};

use super::{Algorithm, Config, ConfigError, Jwt};

/// A token that people chose must not be guessable.
const MIN_TOKEN_CHARS: usize = 32;
/// Shorter leases expire while a healthy worker is scheduled away.
const SHORTEST_LEASE_MS: i64 = 1_000;
const LONGEST_LEASE_MS: i64 = 24 * 60 * 60 * 1_000;

impl Config {
    /// # Errors
    /// When a value cannot be used, or an address is open to others without authentication.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.check_database()?;
        self.check_limits()?;
        self.check_tenants()?;
        if let Some(jwt) = &self.auth.jwt {
            jwt.key_file()?;
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
        Ok(())
    }

    fn check_tenants(&self) -> Result<(), ConfigError> {
        for (index, tenant) in self.tenants.iter().enumerate() {
            if self.tenants[..index].iter().any(|other| other.slug == tenant.slug) {
                let message = format!("tenants: '{}' stands there twice; remove one", tenant.slug);
                return Err(ConfigError::new(message));
            }
            for token in &tenant.worker_tokens {
                if token.token.chars().count() < MIN_TOKEN_CHARS {
                    let message = format!(
                        "tenants: the worker token '{}' of '{}' is too short: use at least {MIN_TOKEN_CHARS} random \
                         characters, for example from `openssl rand -hex 32`",
                        token.name, tenant.slug
                    );
                    return Err(ConfigError::new(message));
                }
                // It travels in a header, where a space ends it, and dots make it look like a JWT.
                let plain = token.token.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'.');
                if !plain || token.token.len() > MAX_TOKEN_BYTES {
                    let message = format!(
                        "tenants: the worker token '{}' of '{}' could never be used: take up to {MAX_TOKEN_BYTES} \
                         letters, digits and signs without spaces and dots, for example from `openssl rand -hex 32`",
                        token.name, tenant.slug
                    );
                    return Err(ConfigError::new(message));
                }
            }
        }
        Ok(())
    }

    fn check_open(&self, key: &str, address: SocketAddr) -> Result<(), ConfigError> {
        let guarded =
            self.auth.jwt.is_some() || self.tenants.iter().any(|tenant| !tenant.worker_tokens.is_empty());
        if guarded || address.ip().is_loopback() {
            return Ok(());
        }
        let message = format!(
            "{key} is {address}, which others can reach, but no authentication is configured: add a worker token to \
             a [[tenants]] entry or an [auth.jwt] table, or listen on 127.0.0.1"
        );
        Err(ConfigError::new(message))
    }
}

impl Jwt {
    /// The verifier, with its key read from disk.
    ///
    /// # Errors
    /// When the key cannot be read or used: a server with a broken authenticator must not start.
    pub fn verifier(&self) -> Result<JwtVerifier, ConfigError> {
        let (key_name, path, algorithm) = self.key_file()?;
        let bytes = std::fs::read(path).map_err(|error| {
            let message = format!(
                "{key_name}: cannot read {}: {error}; check the path and its permissions",
                path.display()
            );
            ConfigError::new(message)
        })?;
        let key = match algorithm {
            // Editors end a file with a line break, which nobody means to be part of the secret.
            Algorithm::HS256 => JwtKey::Secret(bytes.trim_ascii_end().to_vec()),
            Algorithm::RS256 => JwtKey::RsaPem(bytes),
            Algorithm::ES256 => JwtKey::EcPem(bytes),
        };
        let settings = JwtSettings {
            key,
            issuer: self.issuer.clone(),
            audience: self.audience.clone(),
            tenants_claim: self.tenants_claim.clone(),
            role_claim: self.role_claim.clone(),
        };
        JwtVerifier::new(settings)
            .map_err(|error| ConfigError::new(format!("{key_name}: {}: {error}", path.display())))
    }

    /// Which key names which file, and the algorithm that goes with it.
    fn key_file(&self) -> Result<(&'static str, &Path, Algorithm), ConfigError> {
        const SECRET: &str = "auth.jwt.secret_file";
        const PUBLIC: &str = "auth.jwt.public_key_file";
        match (&self.secret_file, &self.public_key_file, self.algorithm) {
            (Some(path), None, None | Some(Algorithm::HS256)) => Ok((SECRET, path, Algorithm::HS256)),
            (None, Some(path), Some(algorithm @ (Algorithm::RS256 | Algorithm::ES256))) => {
                Ok((PUBLIC, path, algorithm))
            }
            (Some(_), Some(_), _) => Err(ConfigError::new(format!("{SECRET} and {PUBLIC}: give only one"))),
            (None, None, _) => Err(ConfigError::new(format!("auth.jwt: give {SECRET} or {PUBLIC}"))),
            (Some(_), None, Some(_)) => {
                Err(ConfigError::new(format!("auth.jwt.algorithm: a {SECRET} goes with HS256")))
            }
            (None, Some(_), _) => Err(ConfigError::new(format!(
                "auth.jwt.algorithm: a {PUBLIC} goes with RS256 or ES256; name it"
            ))),
        }
    }
}
