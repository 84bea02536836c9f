//! Authentication: who the caller is, and for which tenant. The tenant comes only from the credential.
//!
//! Only this crate can create a [`TenantScope`]. So code that holds a scope knows that the caller is
//! authenticated.

mod api_key;
mod crypto;
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

/// Why a caller was refused. The messages contain nothing that helps to guess a credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthError {
    /// The credential is missing, invalid, revoked or expired.
    Unauthenticated(&'static str),
    /// The credential cannot be checked at the moment, for example because the database is unreachable.
    Unavailable,
    /// Too many invalid credentials were tried from this address, or this credential was tried too often.
    TooManyTries { retry_after_seconds: i64 },
}
