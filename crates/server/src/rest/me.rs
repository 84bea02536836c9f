//! The caller's identity and its tenants, for programs that have nothing but a credential.

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use flovyn_auth::{Principal, Tenants};
use flovyn_engine::state::{SmallEnum, Tenant};
use flovyn_store::{Store, StoreResult};
use serde::Serialize;
use utoipa::ToSchema;

use super::access::person;
use super::error::RestError;
use super::names::CredentialKind;
use super::tenants::TenantResponse;
use crate::actor::actor;
use crate::api::Api;
use crate::tenants;

/// The most tenants that are shown.
const SHOWN: usize = 100;

/// The caller.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct MeResponse {
    /// The subject of a JWT or the name of an API key.
    subject: String,
    #[schema(value_type = CredentialKind)]
    credential: &'static str,
    /// `viewer`, `operator`, `admin` or `server-admin`.
    role: &'static str,
    /// The tenants that the caller may act for, up to 100.
    tenants: Vec<TenantResponse>,
    /// Whether the caller may act for every tenant, including tenants that are not shown.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    all_tenants: bool,
}

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
    responses((status = 200, description = "The caller", body = MeResponse)),
)]
pub(super) async fn get(
    State(api): State<Api>,
    Person(principal): Person,
) -> Result<Json<MeResponse>, RestError> {
    let tenants = tenants_of(api.service().store().as_ref(), &principal).await?;
    let who = actor(&principal);
    Ok(Json(MeResponse {
        subject: who.subject().to_string(),
        credential: who.credential().name(),
        role: principal.role().name(),
        tenants: tenants.iter().map(TenantResponse::from).collect(),
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
