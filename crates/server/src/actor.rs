//! The actor that the audit log names for a request.

use std::sync::Arc;

use flovyn_auth::{Credential, Principal};
use flovyn_engine::request::Actor;
use flovyn_engine::state::CredentialKind;

pub(crate) fn actor(principal: &Principal) -> Arc<Actor> {
    Arc::new(match principal {
        Principal::Worker { token_id, .. } => Actor::new(&token_id.to_string(), CredentialKind::WorkerToken),
        Principal::User { subject, credential: Credential::Jwt, .. } => {
            Actor::new(subject, CredentialKind::Jwt)
        }
        Principal::User { subject, credential: Credential::ApiKey, .. } => {
            Actor::new(subject, CredentialKind::ApiKey)
        }
    })
}
