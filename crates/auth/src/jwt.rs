//! JSON Web Tokens: the algorithm is pinned by configuration, never taken from the token.

use std::sync::{PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::crypto;
use crate::jwks::{self, KeySet};
use crate::principal::{Credential, Tenants};
use crate::{AuthError, Principal, Role};

/// The clocks of the issuer and of the server may differ by this many seconds.
const LEEWAY_SECONDS: u64 = 30;
/// A shorter secret can be guessed by brute force.
const MIN_SECRET_BYTES: usize = 32;

/// The key that verifies tokens. It also determines the algorithm.
#[derive(Clone)]
pub enum JwtKey {
    /// A shared secret: HS256.
    Secret(Vec<u8>),
    /// A public key in PEM: RS256.
    RsaPem(Vec<u8>),
    /// A public key in PEM: ES256.
    EcPem(Vec<u8>),
    /// A public key in PEM: EdDSA, with Ed25519.
    EdPem(Vec<u8>),
    /// A key set. A token selects a key of the set by its `kid`.
    Jwks { algorithm: JwksAlgorithm, document: Vec<u8> },
}

/// Algorithms allowed in a key set. All use public keys: anybody can read a key set, so it must not hold
/// shared secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JwksAlgorithm {
    RS256,
    ES256,
    EdDSA,
}

impl From<JwksAlgorithm> for Algorithm {
    fn from(algorithm: JwksAlgorithm) -> Self {
        match algorithm {
            JwksAlgorithm::RS256 => Self::RS256,
            JwksAlgorithm::ES256 => Self::ES256,
            JwksAlgorithm::EdDSA => Self::EdDSA,
        }
    }
}

impl std::fmt::Debug for JwtKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JwtKey").finish_non_exhaustive()
    }
}

/// What a token must contain to be accepted.
#[derive(Clone)]
pub struct JwtSettings {
    pub key: JwtKey,
    pub issuer: String,
    pub audience: String,
    pub tenants_claim: String,
    pub role_claim: String,
}

impl std::fmt::Debug for JwtSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JwtSettings").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

/// Verifies tokens.
pub struct JwtVerifier {
    settings: JwtSettings,
    keys: Keys,
    validation: Validation,
}

enum Keys {
    One(DecodingKey),
    /// The whole set is replaced when the issuer changes its keys.
    Set(RwLock<KeySet>),
}

impl std::fmt::Debug for JwtVerifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JwtVerifier").field("settings", &self.settings).finish_non_exhaustive()
    }
}

#[derive(Debug, Deserialize)]
struct Claims {
    sub: String,
    // The library checks `exp`, `iss`, `aud` and `nbf`. It does not check `iat`, so this module does.
    iat: i64,
    #[serde(flatten)]
    more: serde_json::Map<String, Value>,
}

#[derive(Debug, Serialize)]
struct OwnClaims<'a> {
    sub: &'a str,
    iss: &'a str,
    aud: &'a str,
    iat: i64,
    exp: i64,
    tenants: &'a [&'a str],
    role: &'a str,
}

impl JwtVerifier {
    /// # Errors
    /// Fails if the key cannot be used. The server must not start with a verifier that accepts
    /// nobody, or anybody.
    pub fn new(settings: JwtSettings) -> Result<Self, String> {
        crypto::install();
        let one = |algorithm, key| (algorithm, Keys::One(key));
        let (algorithm, keys) = match &settings.key {
            JwtKey::Secret(secret) if secret.len() < MIN_SECRET_BYTES => {
                return Err(format!(
                    "the secret is too short: give at least {MIN_SECRET_BYTES} random bytes, for example from \
                     `openssl rand -hex 32`"
                ));
            }
            JwtKey::Secret(secret) => one(Algorithm::HS256, DecodingKey::from_secret(secret)),
            JwtKey::RsaPem(pem) => one(
                Algorithm::RS256,
                DecodingKey::from_rsa_pem(pem)
                    .map_err(|error| format!("not an RSA public key ({error}); give a PEM file"))?,
            ),
            JwtKey::EcPem(pem) => one(
                Algorithm::ES256,
                DecodingKey::from_ec_pem(pem)
                    .map_err(|error| format!("not an EC public key ({error}); give a PEM file"))?,
            ),
            JwtKey::EdPem(pem) => one(
                Algorithm::EdDSA,
                DecodingKey::from_ed_pem(pem)
                    .map_err(|error| format!("not an Ed25519 public key ({error}); give a PEM file"))?,
            ),
            JwtKey::Jwks { algorithm, document } => {
                let algorithm = Algorithm::from(*algorithm);
                (algorithm, Keys::Set(RwLock::new(jwks::read(document, algorithm)?)))
            }
        };
        let mut validation = Validation::new(algorithm);
        validation.leeway = LEEWAY_SECONDS;
        validation.validate_nbf = true;
        validation.set_issuer(&[&settings.issuer]);
        validation.set_audience(&[&settings.audience]);
        validation.set_required_spec_claims(&["sub", "iss", "aud", "exp"]);
        Ok(Self { settings, keys, validation })
    }

    /// Replaces all keys by those of a new document. If the document cannot be used, the old keys stay.
    ///
    /// # Errors
    /// Fails if the document cannot be used, or if the configured key is not a key set.
    pub fn replace_keys(&self, document: &[u8]) -> Result<usize, String> {
        let (Keys::Set(keys), JwtKey::Jwks { algorithm, .. }) = (&self.keys, &self.settings.key) else {
            return Err("the configured key is not a key set".into());
        };
        let new = jwks::read(document, (*algorithm).into())?;
        let count = new.len();
        *keys.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(count)
    }

    /// Whether the token names a key that the set does not have. In that case the issuer may have published a
    /// newer set. False for text that is not a token, and for a token with another algorithm or without a
    /// `kid`.
    pub fn names_unknown_key(&self, token: &str) -> bool {
        let Keys::Set(keys) = &self.keys else { return false };
        let named = jsonwebtoken::decode_header(token).ok();
        let named = named.filter(|header| self.validation.algorithms.contains(&header.alg));
        let Some(kid) = named.and_then(|header| header.kid) else { return false };
        !keys.read().unwrap_or_else(PoisonError::into_inner).contains_key(&kid)
    }

    /// The key that verifies this token. `None` if the set has no key of that `kid`.
    fn key(&self, token: &str) -> Option<DecodingKey> {
        match &self.keys {
            Keys::One(key) => Some(key.clone()),
            Keys::Set(keys) => {
                let kid = jsonwebtoken::decode_header(token).ok()?.kid?;
                keys.read().unwrap_or_else(PoisonError::into_inner).get(&kid).cloned()
            }
        }
    }

    /// The user whom this token identifies.
    ///
    /// # Errors
    /// Fails if the signature or any claim does not match the settings.
    pub fn authenticate(&self, token: &str) -> Result<Principal, AuthError> {
        const INVALID: AuthError = AuthError::Unauthenticated("the token is not valid");
        let key = self.key(token).ok_or(INVALID)?;
        let token = jsonwebtoken::decode::<Claims>(token, &key, &self.validation).map_err(|_| INVALID)?;
        // RFC 7515: a token lists in `crit` the extensions that must be understood. None is supported here,
        // and the library does not check `crit`.
        if token.header.crit.is_some() {
            return Err(AuthError::Unauthenticated("the token has a 'crit' header, which is not understood"));
        }
        let claims = token.claims;
        if claims.iat > now_seconds().saturating_add_unsigned(LEEWAY_SECONDS) {
            return Err(AuthError::Unauthenticated(
                "the token was issued in the future: check the issuer's clock",
            ));
        }
        let role = claims.more.get(&self.settings.role_claim).and_then(Value::as_str).and_then(Role::parse);
        let role = role.ok_or(AuthError::Unauthenticated("the token names no known role"))?;
        let tenants = claims.more.get(&self.settings.tenants_claim).map_or(Vec::new(), names);
        let tenants = Tenants::from_names(tenants);
        Ok(Principal::User { subject: claims.sub, credential: Credential::Jwt, role, tenants })
    }

    /// Signs a token with the shared secret. `flovyn dev` uses this, because it is its own issuer. The
    /// tenants and the role are written as the claims with the default names.
    ///
    /// # Errors
    /// Fails if the key is not a shared secret.
    pub fn sign(
        &self,
        subject: &str,
        tenants: &[&str],
        role: &str,
        iat: i64,
        exp: i64,
    ) -> Result<String, String> {
        let JwtKey::Secret(secret) = &self.settings.key else {
            return Err("only a shared secret can sign".into());
        };
        let (iss, aud) = (self.settings.issuer.as_str(), self.settings.audience.as_str());
        let claims = OwnClaims { sub: subject, iss, aud, iat, exp, tenants, role };
        let header = Header::new(Algorithm::HS256);
        jsonwebtoken::encode(&header, &claims, &EncodingKey::from_secret(secret))
            .map_err(|error| error.to_string())
    }
}

/// The current wall-clock time. The library checks the other times with the same clock.
fn now_seconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// A single name, or a list of names.
fn names(value: &Value) -> Vec<String> {
    match value {
        Value::String(name) => vec![name.clone()],
        Value::Array(items) => items.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
