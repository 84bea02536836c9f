//! Worker tokens are random, stored as hashes, and can be revoked.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use flovyn_engine::ids::Payload;
use flovyn_engine::state::WorkerToken;
use flovyn_store::Store;
use rustc_hash::FxHashMap;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::{AuthError, Principal};

/// Every worker token begins with this prefix, so that people and secret scanners recognise it.
const PREFIX: &str = "fwt_";
/// How long a validated token is trusted without another lookup. A revocation by another process takes this
/// long to have effect.
const TRUSTED_FOR: Duration = Duration::from_secs(2);
/// The most tokens that are remembered.
const REMEMBERED: usize = 10_000;
/// Longer strings are not our tokens and are refused before they are hashed.
pub const MAX_TOKEN_BYTES: usize = 512;

/// A new token of 256 random bits.
///
/// # Errors
/// Fails if the operating system has no random numbers available.
pub fn new_token() -> Result<String, String> {
    Ok(format!("{PREFIX}{}", random_hex()?))
}

/// 256 random bits in hexadecimal: the random part of tokens and of shared secrets.
///
/// # Errors
/// Fails if the operating system has no random numbers available.
pub fn random_hex() -> Result<String, String> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| format!("the system has no random numbers available: {error}"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The hash that is stored for a token.
pub fn hash_token(token: &str) -> Payload {
    Payload::copy_from_slice(&Sha256::digest(token.as_bytes()))
}

/// Checks worker tokens against the store.
pub struct WorkerTokens {
    store: Arc<dyn Store>,
    known: Mutex<FxHashMap<Payload, (Instant, WorkerToken)>>,
}

impl std::fmt::Debug for WorkerTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerTokens").finish_non_exhaustive()
    }
}

impl WorkerTokens {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, known: Mutex::default() }
    }

    /// The worker that this token identifies.
    ///
    /// # Errors
    /// Fails if the token is unknown, revoked or expired, or if it cannot be looked up.
    pub async fn authenticate(&self, token: &str) -> Result<Principal, AuthError> {
        const INVALID: AuthError = AuthError::Unauthenticated("the worker token is not valid");
        if token.len() > MAX_TOKEN_BYTES {
            return Err(INVALID);
        }
        let hash = hash_token(token);
        if let Some(principal) = self.remembered(&hash) {
            return Ok(principal);
        }
        let unavailable = |error| {
            tracing::warn!(%error, "cannot check a worker token");
            AuthError::Unavailable
        };
        let row = self.store.worker_token_by_hash(&hash).await.map_err(unavailable)?.ok_or(INVALID)?;
        let now = self.store.now().await.map_err(unavailable)?;
        // The row was found by the hash. The hash is compared again in constant time, because the database
        // may have compared it otherwise.
        let same: bool = row.hash.ct_eq(&hash).into();
        let expired = row.expires_ms.is_some_and(|until_ms| until_ms <= now.ms);
        if !same || expired || row.revoked_ms.is_some() {
            return Err(INVALID);
        }
        let principal = principal(&row);
        self.remember(hash, row);
        Ok(principal)
    }

    /// Forgets all remembered tokens. This is called after a revocation.
    pub fn forget_all(&self) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn remembered(&self, hash: &Payload) -> Option<Principal> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, row) = known.get(hash)?;
        (at.elapsed() < TRUSTED_FOR).then(|| principal(row))
    }

    fn remember(&self, hash: Payload, row: WorkerToken) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED {
            known.retain(|_, (at, _)| at.elapsed() < TRUSTED_FOR);
        }
        if known.len() < REMEMBERED {
            known.insert(hash, (Instant::now(), row));
        }
    }
}

fn principal(row: &WorkerToken) -> Principal {
    Principal::Worker { tenant_id: row.tenant_id, token_id: row.id }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_long_recognisable_and_never_the_same() {
        let (one, two) = (new_token().unwrap(), new_token().unwrap());
        assert!(one.starts_with("fwt_") && one.len() == 4 + 64, "{one}");
        assert_ne!(one, two);
        assert_eq!(hash_token(&one), hash_token(&one));
        assert_ne!(hash_token(&one), hash_token(&two));
        assert_eq!(hash_token(&one).len(), 32);
    }
}
