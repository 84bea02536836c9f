//! Worker tokens: random, stored hashed, revocable.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use flovyn_engine::ids::Payload;
use flovyn_engine::state::WorkerToken;
use flovyn_store::Store;
use rustc_hash::FxHashMap;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::{AuthError, Principal};

/// Tokens begin with it, so that people and secret scanners recognise them.
const PREFIX: &str = "fwt_";
/// How long a token that was valid is taken to be valid still: a revocation by another process takes as long.
const TRUSTED_FOR: Duration = Duration::from_secs(2);
/// Tokens remembered at most.
const REMEMBERED: usize = 10_000;
/// Longer ones are not tokens of ours; hashing them would be work for nothing.
pub const MAX_TOKEN_BYTES: usize = 512;

/// A new token of 256 random bits.
///
/// # Errors
/// When the system has no random numbers to give.
pub fn new_token() -> Result<String, String> {
    Ok(format!("{PREFIX}{}", random_hex()?))
}

/// 256 random bits in hexadecimal, as tokens and shared secrets have them.
///
/// # Errors
/// When the system has no random numbers to give.
pub fn random_hex() -> Result<String, String> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes).map_err(|error| format!("the system gives no random numbers: {error}"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// What is stored of a token.
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

    /// Whose token this is.
    ///
    /// # Errors
    /// When it is unknown, revoked or expired, or cannot be looked up.
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
            tracing::warn!(%error, "a worker token could not be checked");
            AuthError::Unavailable
        };
        let row = self.store.worker_token_by_hash(&hash).await.map_err(unavailable)?.ok_or(INVALID)?;
        let now = self.store.now().await.map_err(unavailable)?;
        // Found by its hash already; compared once more in constant time, whatever the database compared with.
        let same: bool = row.hash.ct_eq(&hash).into();
        let expired = row.expires_ms.is_some_and(|until_ms| until_ms <= now.ms);
        if !same || expired || row.revoked_ms.is_some() {
            return Err(INVALID);
        }
        let principal = principal(&row);
        self.remember(hash, row);
        Ok(principal)
    }

    /// Forgets what it remembers, after a revocation.
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
