//! Creates the configured tenants and worker tokens at start. Running it again changes nothing.
//!
//! Several processes may start at once on one database: a process that comes second finds the rows that the first one
//! created.

use flovyn_auth::hash_token;
use flovyn_engine::request::{CreateTenant, CreateWorkerToken, UpdateTenant};
use flovyn_engine::state::Tenant;
use flovyn_engine::{Code, Refusal, Reply};
use flovyn_service::Service;

use crate::config::{TenantConfig, WorkerTokenConfig};

/// How many times to try if another process changes the same rows at the same time.
const TRIES: usize = 5;

/// # Errors
/// Fails if a tenant or token cannot be created, or if it exists with other properties.
pub async fn provision(service: &Service, tenants: &[TenantConfig]) -> Result<(), String> {
    for config in tenants {
        let tenant = provision_tenant(service, config).await?;
        for token in &config.worker_tokens {
            provision_token(service, &tenant, token).await?;
        }
    }
    Ok(())
}

async fn provision_tenant(service: &Service, config: &TenantConfig) -> Result<Tenant, String> {
    let about = |what: &dyn std::fmt::Display| format!("tenant '{}': {what}", config.slug);
    for _ in 0..TRIES {
        let found = service.store().tenant_by_slug(&config.slug).await.map_err(|error| about(&error))?;
        if let Some(tenant) = found {
            return update_tenant(service, config, tenant).await.map_err(|error| about(&error));
        }
        let create = CreateTenant {
            id: config.id,
            slug: config.slug.as_str().into(),
            name: config.name.as_deref().unwrap_or(&config.slug).into(),
            retention_ms: config.retention_ms,
        };
        // The tenant id of this call is ignored, because the request creates the tenant.
        match service.call(config.id.unwrap_or_default(), create).await {
            Ok(Reply::Tenant(tenant)) => {
                tracing::info!(slug = %tenant.slug, id = %tenant.id, "tenant created");
                return Ok(tenant);
            }
            Ok(_) => return Err(about(&"the engine gave an unexpected reply")),
            Err(refusal) if was_done_concurrently(&refusal) => {}
            Err(refusal) => return Err(about(&refusal)),
        }
    }
    Err(about(match config.id {
        Some(_) => &"its id belongs to another tenant; choose another id in the configuration",
        None => &"the database stays busy; start again",
    }))
}

/// Changes only what the file sets. Other properties may have been set by other means.
async fn update_tenant(service: &Service, config: &TenantConfig, tenant: Tenant) -> Result<Tenant, String> {
    if let Some(id) = config.id.filter(|id| *id != tenant.id) {
        return Err(format!(
            "it exists with the id {}, not {id}; correct its id in the configuration",
            tenant.id
        ));
    }
    let name = config.name.as_deref().unwrap_or(&tenant.name);
    let retention_ms = config.retention_ms.or(tenant.retention_ms);
    if *name == *tenant.name && retention_ms == tenant.retention_ms {
        return Ok(tenant);
    }
    match service.call(tenant.id, UpdateTenant { name: name.into(), retention_ms }).await {
        Ok(_) => Ok(tenant),
        // Another process is making the same change.
        Err(refusal) if was_done_concurrently(&refusal) => Ok(tenant),
        Err(refusal) => Err(refusal.to_string()),
    }
}

async fn provision_token(
    service: &Service,
    tenant: &Tenant,
    config: &WorkerTokenConfig,
) -> Result<(), String> {
    let about = |what: &dyn std::fmt::Display| {
        format!("worker token '{}' of tenant '{}': {what}", config.name, tenant.slug)
    };
    let hash = hash_token(&config.token);
    for _ in 0..TRIES {
        let found = service.store().worker_token_by_hash(&hash).await.map_err(|error| about(&error))?;
        if let Some(token) = found {
            if token.tenant_id != tenant.id {
                return Err(about(&"the same token belongs to another tenant; make a new one"));
            }
            if token.revoked_ms.is_some() {
                // A revocation takes precedence over the file. This is not an error, because the other tokens must
                // still work.
                tracing::warn!(name = %config.name, tenant = %tenant.slug, "a configured worker token is revoked and cannot be used; configure a new token");
            }
            return Ok(());
        }
        let create =
            CreateWorkerToken { name: config.name.as_str().into(), hash: hash.clone(), expires_ms: None };
        match service.call(tenant.id, create).await {
            Ok(_) => return Ok(()),
            Err(refusal) if was_done_concurrently(&refusal) => {}
            Err(refusal) => return Err(about(&refusal)),
        }
    }
    Err(about(&"the database stays busy; start again"))
}

fn was_done_concurrently(refusal: &Refusal) -> bool {
    matches!(refusal.code, Code::TenantExists | Code::CommitConflict)
}
