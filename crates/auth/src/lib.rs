//! Who asks, and for which tenant. The tenant comes from the credential and from nowhere else.
//!
//! [`TenantScope`] can be built in this crate only: code that holds one has been through authentication.

mod api_key;
mod jwks;
mod jwt;
mod principal;
mod scrape_token;
mod worker_token;

pub use api_key::{API_KEY_PREFIX, ApiKey, ApiKeys, hash_api_key, new_api_key};
pub use jwt::{JwksAlgorithm, JwtKey, JwtSettings, JwtVerifier};
pub use principal::{Credential, Principal, Role, TenantScope, Tenants};
pub use scrape_token::ScrapeToken;
pub use worker_token::{MAX_TOKEN_BYTES, WorkerTokens, hash_token, new_token, random_hex};

/// Why somebody was not let in. Says nothing that helps a guesser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthError {
    /// No credential, or one that is not valid (any more).
    Unauthenticated(&'static str),
    /// The credential could not be checked just now.
    Unavailable,
    /// Too many were tried: from this address, or this very one.
    TooManyTries { retry_after_seconds: i64 },
}
