//! The caller's identity and its tenants, for programs that have nothing but a credential.

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use flovyn_auth::{Principal, Tenants};
use flovyn_engine::state::{SmallEnum, Tenant};
use flovyn_rest_types::Me;
use flovyn_store::{Store, StoreResult};

use super::access::person;
use super::error::RestError;
use super::tenants::tenant;
use crate::actor::actor;
use crate::api::Api;
use crate::tenants;

/// The most tenants that are shown.
const SHOWN: usize = 100;

/// A caller with a valid credential. The request is not about a tenant.
#[derive(Debug)]
pub(super) struct Person(Principal);

impl FromRequestParts<Api> for Person {
    type Rejection = RestError;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, RestError> {
        Ok(Self(person(api, parts).await?))
    }
}

/// Get the caller's identity
///
/// The caller's subject and role, and the tenants that it may act for.
#[utoipa::path(
    get,
    path = "/api/me",
    operation_id = "getMe",
    tag = "Tenants",
    responses((status = 200, description = "The caller", body = Me)),
)]
pub(super) async fn get(State(api): State<Api>, Person(principal): Person) -> Result<Json<Me>, RestError> {
    let tenants = tenants_of(api.service().store().as_ref(), &principal).await?;
    let who = actor(&principal);
    Ok(Json(Me {
        subject: who.subject().to_string(),
        credential: who.credential().name().to_owned(),
        role: principal.role().name().to_owned(),
        tenants: tenants.iter().map(tenant).collect(),
        all_tenants: matches!(principal, Principal::User { tenants: Tenants::All, .. }),
    }))
}

/// The tenants that the credential names. Names of tenants that do not exist are skipped.
async fn tenants_of(store: &dyn Store, principal: &Principal) -> StoreResult<Vec<Tenant>> {
    if let Principal::User { tenants: Tenants::All, .. } = principal {
        return store.tenant_list(None, SHOWN).await;
    }
    let mut found: Vec<Tenant> = Vec::new();
    for name in principal.named_tenants().iter().take(SHOWN) {
        let tenant = tenants::read(store, name).await?;
        // The same rule as for access, because a slug may look like an id.
        found.extend(tenant.filter(|tenant| principal.scope_for(tenant.id, &tenant.slug).is_some()));
    }
    found.dedup_by(|one, other| one.id == other.id);
    Ok(found)
}
