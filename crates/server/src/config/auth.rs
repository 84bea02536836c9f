//! Configuration of authentication: the issuer of JWTs, and API keys.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::http::Uri;
use flovyn_auth::{ApiKey, JwksAlgorithm, JwtKey, JwtSettings, JwtVerifier, Role};
use serde::Deserialize;

use super::ConfigError;
use crate::times;

const SECRET: &str = "auth.jwt.secret_file";
const PUBLIC: &str = "auth.jwt.public_key_file";
const JWKS_FILE: &str = "auth.jwt.jwks_file";
const JWKS_URL: &str = "auth.jwt.jwks_url";

/// The longest name of an API key.
const MAX_NAME_CHARS: usize = 100;
/// The allowed interval for refreshing the keys. Asking an issuer more often has no benefit.
const REFRESH_SECONDS: std::ops::RangeInclusive<u64> = 1..=86_400;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Auth {
    pub jwt: Option<Jwt>,
    pub api_keys: Vec<ApiKeyConfig>,
    /// The number of invalid credentials that one address may send per minute. Beyond that, it is answered with 429.
    pub failed_tries_per_minute: u32,
}

impl Default for Auth {
    fn default() -> Self {
        Self { jwt: None, api_keys: Vec::new(), failed_tries_per_minute: 60 }
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jwt {
    /// The shared secret for HS256.
    pub secret_file: Option<PathBuf>,
    /// The public key in PEM for RS256, ES256 or EdDSA.
    pub public_key_file: Option<PathBuf>,
    /// A key set on disk, for RS256, ES256 or EdDSA.
    pub jwks_file: Option<PathBuf>,
    /// The URL of a key set, for RS256, ES256 or EdDSA.
    pub jwks_url: Option<String>,
    /// The PEM file with the CA certificates that verify the server of `jwks_url`. `None`: those of the system.
    pub jwks_ca_file: Option<PathBuf>,
    /// The interval, in seconds, at which the key set is read again.
    #[serde(default = "Jwt::default_refresh_seconds")]
    pub jwks_refresh_seconds: u64,
    pub algorithm: Option<Algorithm>,
    pub issuer: String,
    pub audience: String,
    #[serde(default = "Jwt::default_tenants_claim")]
    pub tenants_claim: String,
    #[serde(default = "Jwt::default_role_claim")]
    pub role_claim: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Algorithm {
    HS256,
    RS256,
    ES256,
    EdDSA,
}

/// Where the key comes from, and its algorithm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeySource {
    Secret(PathBuf),
    Pem(PathBuf, JwksAlgorithm),
    JwksFile(PathBuf, JwksAlgorithm),
    JwksUrl(Uri, JwksAlgorithm),
}

impl Jwt {
    /// A configuration for tokens signed with a shared secret, with the default claim names.
    pub fn with_secret_file(path: impl Into<PathBuf>, issuer: &str, audience: &str) -> Self {
        Self { secret_file: Some(path.into()), ..Self::without_key(issuer, audience) }
    }

    /// A configuration for an issuer whose key set is at this URL.
    pub fn with_jwks_url(url: &str, algorithm: Algorithm, issuer: &str, audience: &str) -> Self {
        let (jwks_url, algorithm) = (Some(url.to_owned()), Some(algorithm));
        Self { jwks_url, algorithm, ..Self::without_key(issuer, audience) }
    }

    fn without_key(issuer: &str, audience: &str) -> Self {
        Self {
            secret_file: None,
            public_key_file: None,
            jwks_file: None,
            jwks_url: None,
            jwks_ca_file: None,
            jwks_refresh_seconds: Self::default_refresh_seconds(),
            algorithm: None,
            issuer: issuer.to_owned(),
            audience: audience.to_owned(),
            tenants_claim: Self::default_tenants_claim(),
            role_claim: Self::default_role_claim(),
        }
    }

    fn default_refresh_seconds() -> u64 {
        300
    }

    fn default_tenants_claim() -> String {
        "tenants".to_owned()
    }

    fn default_role_claim() -> String {
        "role".to_owned()
    }

    pub(crate) fn refresh_every(&self) -> Duration {
        Duration::from_secs(self.jwks_refresh_seconds)
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let source = self.key_source()?;
        if !REFRESH_SECONDS.contains(&self.jwks_refresh_seconds) {
            let (from, to) = (REFRESH_SECONDS.start(), REFRESH_SECONDS.end());
            let message = format!("auth.jwt.jwks_refresh_seconds: choose from {from} to {to}");
            return Err(ConfigError::new(message));
        }
        if self.jwks_ca_file.is_some() && !matches!(source, KeySource::JwksUrl(..)) {
            return Err(ConfigError::new(
                "auth.jwt.jwks_ca_file: it is used only with jwks_url; remove it or set jwks_url",
            ));
        }
        Ok(())
    }

    /// The verifier, with its key read from disk.
    ///
    /// # Errors
    /// Fails if the key cannot be read or used: a server with a broken authenticator must not start. Also fails if
    /// the key is at a URL and not on disk, because only a server fetches it.
    pub fn verifier(&self) -> Result<JwtVerifier, ConfigError> {
        let source = self.key_source()?;
        let Some((name, path)) = source.file() else {
            return Err(ConfigError::new(format!(
                "{JWKS_URL}: only a server fetches it; use {JWKS_FILE} here"
            )));
        };
        let bytes = read_file(name, path)?;
        self.verifier_with(&source, bytes)
            .map_err(|error| ConfigError::new(format!("{name}: {}: {error}", path.display())))
    }

    /// The verifier for the bytes that were read from the source.
    pub(crate) fn verifier_with(&self, source: &KeySource, bytes: Vec<u8>) -> Result<JwtVerifier, String> {
        let key = match source {
            // Editors end a file with a line break, which is not meant to be part of the secret.
            KeySource::Secret(_) => JwtKey::Secret(bytes.trim_ascii_end().to_vec()),
            KeySource::Pem(_, JwksAlgorithm::RS256) => JwtKey::RsaPem(bytes),
            KeySource::Pem(_, JwksAlgorithm::ES256) => JwtKey::EcPem(bytes),
            KeySource::Pem(_, JwksAlgorithm::EdDSA) => JwtKey::EdPem(bytes),
            KeySource::JwksFile(_, algorithm) | KeySource::JwksUrl(_, algorithm) => {
                JwtKey::Jwks { algorithm: *algorithm, document: bytes }
            }
        };
        JwtVerifier::new(JwtSettings {
            key,
            issuer: self.issuer.clone(),
            audience: self.audience.clone(),
            tenants_claim: self.tenants_claim.clone(),
            role_claim: self.role_claim.clone(),
        })
    }

    /// The key source that is configured, and its algorithm. It is an error if none or more than one is given.
    pub(crate) fn key_source(&self) -> Result<KeySource, ConfigError> {
        let wrong = |message: String| Err(ConfigError::new(message));
        let public = |name: &str| match self.algorithm {
            Some(Algorithm::RS256) => Ok(JwksAlgorithm::RS256),
            Some(Algorithm::ES256) => Ok(JwksAlgorithm::ES256),
            Some(Algorithm::EdDSA) => Ok(JwksAlgorithm::EdDSA),
            _ => Err(ConfigError::new(format!(
                "auth.jwt.algorithm: a {name} goes with RS256, ES256 or EdDSA; name it"
            ))),
        };
        match (&self.secret_file, &self.public_key_file, &self.jwks_file, &self.jwks_url) {
            (Some(path), None, None, None) => match self.algorithm {
                None | Some(Algorithm::HS256) => Ok(KeySource::Secret(path.clone())),
                Some(_) => wrong(format!("auth.jwt.algorithm: a {SECRET} goes with HS256")),
            },
            (None, Some(path), None, None) => Ok(KeySource::Pem(path.clone(), public(PUBLIC)?)),
            (None, None, Some(path), None) => Ok(KeySource::JwksFile(path.clone(), public(JWKS_FILE)?)),
            (None, None, None, Some(url)) => Ok(KeySource::JwksUrl(read_url(url)?, public(JWKS_URL)?)),
            (None, None, None, None) => {
                wrong(format!("auth.jwt: give {SECRET}, {PUBLIC}, {JWKS_FILE} or {JWKS_URL}"))
            }
            _ => wrong(format!("{SECRET}, {PUBLIC}, {JWKS_FILE} and {JWKS_URL}: give only one")),
        }
    }
}

impl KeySource {
    /// The configuration key and the file that it names. `None` if the key is at a URL.
    pub(crate) fn file(&self) -> Option<(&'static str, &Path)> {
        match self {
            Self::Secret(path) => Some((SECRET, path)),
            Self::Pem(path, _) => Some((PUBLIC, path)),
            Self::JwksFile(path, _) => Some((JWKS_FILE, path)),
            Self::JwksUrl(..) => None,
        }
    }
}

pub(crate) fn read_file(name: &str, path: &Path) -> Result<Vec<u8>, ConfigError> {
    std::fs::read(path).map_err(|error| {
        let message =
            format!("{name}: cannot read {}: {error}; check the path and its permissions", path.display());
        ConfigError::new(message)
    })
}

/// Parses the URL of a key set. An attacker who can change the keys in transit can forge tokens, so only this machine
/// may be asked without TLS.
fn read_url(url: &str) -> Result<Uri, ConfigError> {
    let wrong = |what: &str| ConfigError::new(format!("{JWKS_URL}: {what}; give https://HOST/PATH"));
    let uri: Uri = url.parse().map_err(|_| wrong("it is not a URL"))?;
    let authority = uri.authority().ok_or_else(|| wrong("it names no host"))?;
    if authority.as_str().contains('@') {
        return Err(wrong("it must hold no user and password"));
    }
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    let loopback = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    match uri.scheme_str() {
        Some("https") => Ok(uri),
        Some("http") if loopback => Ok(uri),
        Some("http") => Err(wrong("http:// is for this machine only")),
        _ => Err(wrong("it is neither https:// nor http://")),
    }
}

/// An API key. A caller that sends it acts as `name`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiKeyConfig {
    pub name: String,
    /// SHA-256 of the key in hexadecimal, as `flovyn api-key generate` shows it.
    pub sha256: String,
    /// Slugs or ids of tenants; `*` means all tenants.
    pub tenants: Vec<String>,
    pub role: String,
    /// `None`: valid until it is removed from the configuration.
    pub expires_at: Option<String>,
}

impl ApiKeyConfig {
    /// # Errors
    /// Fails if a value cannot be used.
    pub(crate) fn read(&self) -> Result<ApiKey, ConfigError> {
        let wrong =
            |what: &str| ConfigError::new(format!("auth.api_keys: '{}': {what}", self.name.escape_default()));
        if self.name.is_empty() || self.name.chars().count() > MAX_NAME_CHARS || self.name.contains('\0') {
            return Err(wrong("give each key a short name of its own"));
        }
        let hash = read_hash(&self.sha256).ok_or_else(|| {
            wrong("sha256 has 64 hexadecimal digits, as `flovyn api-key generate` shows them")
        })?;
        let role = Role::parse(&self.role)
            .ok_or_else(|| wrong("role is viewer, operator, admin or server-admin"))?;
        let expires_ms = self.expires_at.as_deref().map(|text| {
            times::read(text)
                .map_err(|why| wrong(&format!("expires_at {why}: give a time such as 2030-01-31T00:00:00Z")))
        });
        let tenants = self.tenants.clone();
        Ok(ApiKey { name: self.name.clone(), hash, role, tenants, expires_ms: expires_ms.transpose()? })
    }
}

fn read_hash(text: &str) -> Option<[u8; 32]> {
    let digits: Vec<u8> = text
        .chars()
        .map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
        .collect::<Option<_>>()?;
    let bytes: Vec<u8> = digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
    if digits.len() == 64 { bytes.try_into().ok() } else { None }
}
