//! JSON Web Tokens: the algorithm is pinned by configuration, never taken from the token.

use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::principal::Tenants;
use crate::{AuthError, Principal, Role};

/// Clocks of issuer and server may differ by this much.
const LEEWAY_SECONDS: u64 = 30;
/// A shorter secret can be found by trying.
const MIN_SECRET_BYTES: usize = 32;

/// The key that tokens are checked with, and with it the algorithm.
#[derive(Clone)]
pub enum JwtKey {
    /// A shared secret: HS256.
    Secret(Vec<u8>),
    /// A public key in PEM: RS256.
    RsaPem(Vec<u8>),
    /// A public key in PEM: ES256.
    EcPem(Vec<u8>),
}

impl std::fmt::Debug for JwtKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JwtKey").finish_non_exhaustive()
    }
}

/// What a token must say.
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

/// Checks tokens.
pub struct JwtVerifier {
    settings: JwtSettings,
    key: DecodingKey,
    validation: Validation,
}

impl std::fmt::Debug for JwtVerifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JwtVerifier").field("settings", &self.settings).finish_non_exhaustive()
    }
}

#[derive(Debug, Deserialize)]
struct Claims {
    sub: String,
    // Here so that a token without it is refused; the library checks `exp`, `iss`, `aud` and `nbf`.
    #[serde(rename = "iat")]
    _iat: i64,
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
    /// When the key cannot be used: the server must not start with an authenticator that lets nobody, or anybody, in.
    pub fn new(settings: JwtSettings) -> Result<Self, String> {
        let (algorithm, key) = match &settings.key {
            JwtKey::Secret(secret) if secret.len() < MIN_SECRET_BYTES => {
                return Err(format!(
                    "the secret is too short: give at least {MIN_SECRET_BYTES} random bytes, for example from \
                     `openssl rand -hex 32`"
                ));
            }
            JwtKey::Secret(secret) => (Algorithm::HS256, DecodingKey::from_secret(secret)),
            JwtKey::RsaPem(pem) => (
                Algorithm::RS256,
                DecodingKey::from_rsa_pem(pem)
                    .map_err(|error| format!("not an RSA public key ({error}); give a PEM file"))?,
            ),
            JwtKey::EcPem(pem) => (
                Algorithm::ES256,
                DecodingKey::from_ec_pem(pem)
                    .map_err(|error| format!("not an EC public key ({error}); give a PEM file"))?,
            ),
        };
        let mut validation = Validation::new(algorithm);
        validation.leeway = LEEWAY_SECONDS;
        validation.validate_nbf = true;
        validation.set_issuer(&[&settings.issuer]);
        validation.set_audience(&[&settings.audience]);
        validation.set_required_spec_claims(&["sub", "iss", "aud", "exp"]);
        Ok(Self { settings, key, validation })
    }

    /// Whose token this is.
    ///
    /// # Errors
    /// When anything about it is not as configured.
    pub fn authenticate(&self, token: &str) -> Result<Principal, AuthError> {
        let invalid = |_| AuthError::Unauthenticated("the token is not valid");
        let claims =
            jsonwebtoken::decode::<Claims>(token, &self.key, &self.validation).map_err(invalid)?.claims;
        let role = claims.more.get(&self.settings.role_claim).and_then(Value::as_str).and_then(Role::parse);
        let role = role.ok_or(AuthError::Unauthenticated("the token names no known role"))?;
        let tenants = claims.more.get(&self.settings.tenants_claim).map_or(Vec::new(), names);
        let tenants = match tenants.iter().any(|name| name == "*") {
            true => Tenants::All,
            false => Tenants::Named(tenants),
        };
        Ok(Principal::User { subject: claims.sub, role, tenants })
    }

    /// Signs a token with the shared secret: for `flovyn dev`, which is its own issuer. Tenants and role go under the
    /// names that are the default.
    ///
    /// # Errors
    /// When the key is not a shared secret.
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

/// One name, or a list of them.
fn names(value: &Value) -> Vec<String> {
    match value {
        Value::String(name) => vec![name.clone()],
        Value::Array(items) => items.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(issuer: &str, audience: &str, secret: u8) -> JwtSettings {
        JwtSettings {
            key: JwtKey::Secret(vec![secret; 32]),
            issuer: issuer.into(),
            audience: audience.into(),
            tenants_claim: "tenants".into(),
            role_claim: "role".into(),
        }
    }

    fn verifier(issuer: &str, audience: &str, secret: u8) -> JwtVerifier {
        JwtVerifier::new(settings(issuer, audience, secret)).unwrap()
    }

    const FAR: i64 = 4_000_000_000;

    #[test]
    fn a_token_of_our_own_is_accepted_and_says_who_it_is() {
        let own = verifier("flovyn", "flovyn", 1);
        let token = own.sign("dev", &["default"], "admin", 1, FAR).unwrap();
        let principal = own.authenticate(&token).unwrap();
        assert_eq!(principal.role(), Role::Admin);
        assert_eq!(principal.named_tenants(), ["default"]);
    }

    #[test]
    fn issuer_audience_secret_time_and_role_all_have_to_fit() {
        let own = verifier("flovyn", "flovyn", 1);
        let refused = |token: String| assert!(own.authenticate(&token).is_err());
        refused(verifier("other", "flovyn", 1).sign("dev", &["*"], "admin", 1, FAR).unwrap());
        refused(verifier("flovyn", "other", 1).sign("dev", &["*"], "admin", 1, FAR).unwrap());
        refused(verifier("flovyn", "flovyn", 2).sign("dev", &["*"], "admin", 1, FAR).unwrap());
        refused(own.sign("dev", &["*"], "admin", 1, 1_000).unwrap());
        refused(own.sign("dev", &["*"], "king", 1, FAR).unwrap());
        refused("not.a.token".into());
        refused(String::new());
    }

    #[test]
    fn another_algorithm_is_refused_whatever_the_token_says() {
        let own = verifier("flovyn", "flovyn", 1);
        let token = own.sign("dev", &["*"], "admin", 1, FAR).unwrap();
        let body = token.split('.').nth(1).unwrap();
        // {"alg":"none","typ":"JWT"}
        let unsigned = format!("eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.{body}.");
        assert!(own.authenticate(&unsigned).is_err());
    }

    #[test]
    fn a_short_secret_is_refused() {
        let short =
            JwtSettings { key: JwtKey::Secret(vec![1; MIN_SECRET_BYTES - 1]), ..settings("a", "b", 1) };
        assert!(JwtVerifier::new(short).is_err());
    }
}
