//! API keys are random. The configuration names each key by its hash and gives it a role, tenants and an
//! optional expiry.

use sha2::{Digest, Sha256};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

use crate::principal::{Credential, Tenants};
use crate::worker_token::{MAX_TOKEN_BYTES, random_hex};
use crate::{AuthError, Principal, Role};

/// Every API key begins with this prefix. It distinguishes API keys from worker tokens, and secret scanners
/// recognise it.
pub const API_KEY_PREFIX: &str = "flv_";

/// A new key of 256 random bits.
///
/// # Errors
/// Fails if the operating system has no random numbers available.
pub fn new_api_key() -> Result<String, String> {
    Ok(format!("{API_KEY_PREFIX}{}", random_hex()?))
}

/// SHA-256 of a key.
pub fn hash_api_key(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

/// An API key as it is configured.
#[derive(Debug, Clone)]
pub struct ApiKey {
    pub name: String,
    pub hash: [u8; 32],
    pub role: Role,
    /// Slugs or ids of tenants; `*` means all tenants.
    pub tenants: Vec<String>,
    pub expires_ms: Option<i64>,
}

/// Checks keys against the configured ones.
#[derive(Debug, Default)]
pub struct ApiKeys {
    keys: Vec<ApiKey>,
}

impl ApiKeys {
    pub fn new(keys: Vec<ApiKey>) -> Self {
        Self { keys }
    }

    /// The user who owns this key.
    ///
    /// # Errors
    /// Fails if the key is not configured or has expired.
    pub fn authenticate(&self, key: &str, now_ms: i64) -> Result<Principal, AuthError> {
        const INVALID: AuthError = AuthError::Unauthenticated("the API key is not valid");
        if !key.starts_with(API_KEY_PREFIX) || key.len() > MAX_TOKEN_BYTES {
            return Err(INVALID);
        }
        let hash = hash_api_key(key);
        // Every configured key is compared, each in constant time. So the duration does not reveal which key
        // is similar.
        let mut found = u32::MAX;
        for (index, known) in (0_u32..).zip(&self.keys) {
            let same: Choice = known.hash.ct_eq(&hash);
            found.conditional_assign(&index, same);
        }
        let found = usize::try_from(found).ok().and_then(|index| self.keys.get(index)).ok_or(INVALID)?;
        if found.expires_ms.is_some_and(|until_ms| until_ms <= now_ms) {
            return Err(AuthError::Unauthenticated("the API key has expired"));
        }
        Ok(Principal::User {
            subject: found.name.clone(),
            credential: Credential::ApiKey,
            role: found.role,
            tenants: Tenants::from_names(found.tenants.clone()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str, secret: &str, expires_ms: Option<i64>) -> ApiKey {
        let tenants = vec!["one".to_owned()];
        ApiKey { name: name.into(), hash: hash_api_key(secret), role: Role::Operator, tenants, expires_ms }
    }

    #[test]
    fn a_configured_key_says_who_it_is_until_it_expires() {
        let keys = ApiKeys::new(vec![key("a", "flv_a", None), key("b", "flv_b", Some(1_000))]);
        let subject = |secret: &str, now_ms| match keys.authenticate(secret, now_ms) {
            Ok(Principal::User { subject, credential: Credential::ApiKey, .. }) => Some(subject),
            _ => None,
        };
        assert_eq!(subject("flv_a", i64::MAX).as_deref(), Some("a"));
        assert_eq!(subject("flv_b", 999).as_deref(), Some("b"));
        assert_eq!(subject("flv_b", 1_000), None);
        for wrong in ["", "flv_", "flv_c", "flv_a ", "FLV_a", "fwt_a"] {
            assert_eq!(subject(wrong, 0), None, "{wrong}");
        }
        assert_eq!(subject(&format!("flv_{}", "a".repeat(MAX_TOKEN_BYTES)), 0), None);
        assert!(ApiKeys::default().authenticate("flv_a", 0).is_err());
    }

    #[test]
    fn a_key_without_the_prefix_is_never_accepted_whatever_is_configured() {
        let keys = ApiKeys::new(vec![key("a", "plain", None)]);
        assert!(keys.authenticate("plain", 0).is_err());
    }

    #[test]
    fn new_keys_are_long_recognisable_and_never_the_same() {
        let (one, two) = (new_api_key().unwrap(), new_api_key().unwrap());
        assert!(one.starts_with(API_KEY_PREFIX) && one.len() == 4 + 64, "{one}");
        assert_ne!(one, two);
    }
}
