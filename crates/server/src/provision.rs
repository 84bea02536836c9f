//! Makes the configured tenants and worker tokens at start. Doing it again changes nothing.
//!
//! Several processes may start at once on one database: whoever comes second finds what the first one made.

use flovyn_auth::hash_token;
use flovyn_engine::request::{CreateTenant, CreateWorkerToken, UpdateTenant};
use flovyn_engine::state::Tenant;
use flovyn_engine::{Code, Refusal, Reply};
use flovyn_service::Service;

use crate::config::{TenantConfig, WorkerTokenConfig};

/// How often to look again after somebody else was faster.
const TRIES: usize = 5;

/// # Errors
/// When a tenant or token cannot be made, or exists as something else.
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
        // The tenant of a request that makes one is not looked at.
        match service.call(config.id.unwrap_or_default(), create).await {
            Ok(Reply::Tenant(tenant)) => {
                tracing::info!(slug = %tenant.slug, id = %tenant.id, "tenant made");
                return Ok(tenant);
            }
            Ok(_) => return Err(about(&"the server gave an answer to another question")),
            Err(refusal) if somebody_was_faster(&refusal) => {}
            Err(refusal) => return Err(about(&refusal)),
        }
    }
    Err(about(match config.id {
        Some(_) => &"its id belongs to another tenant; choose another id in the configuration",
        None => &"the database stays busy; start again",
    }))
}

/// Only what the file says is changed: the rest may have been set by other means.
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
        // Another process is about to say the same.
        Err(refusal) if somebody_was_faster(&refusal) => Ok(tenant),
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
                // A revocation holds whatever a file says; the other tokens shall still work.
                tracing::warn!(name = %config.name, tenant = %tenant.slug, "a configured worker token was revoked");
            }
            return Ok(());
        }
        let create =
            CreateWorkerToken { name: config.name.as_str().into(), hash: hash.clone(), expires_ms: None };
        match service.call(tenant.id, create).await {
            Ok(_) => return Ok(()),
            Err(refusal) if somebody_was_faster(&refusal) => {}
            Err(refusal) => return Err(about(&refusal)),
        }
    }
    Err(about(&"the database stays busy; start again"))
}

fn somebody_was_faster(refusal: &Refusal) -> bool {
    matches!(refusal.code, Code::TenantExists | Code::CommitConflict)
}
