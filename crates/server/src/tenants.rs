//! The ids and slugs of tenants, kept in memory so that requests need not read them. They never become outdated: a
//! tenant keeps its id and its slug, and is never removed.

use std::sync::{Mutex, PoisonError};

use flovyn_engine::ids::{TenantId, Text, canonical_id};
use flovyn_engine::state::Tenant;
use flovyn_store::{Store, StoreResult};
use rustc_hash::FxHashMap;

/// The most names that are remembered. Each tenant has two: its id and its slug.
const MAX_NAMES: usize = 20_000;

/// The unchangeable part of a tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TenantNames {
    pub(crate) id: TenantId,
    pub(crate) slug: Text,
}

#[derive(Debug, Default)]
pub(crate) struct KnownTenants {
    by_name: Mutex<FxHashMap<Text, TenantNames>>,
}

impl KnownTenants {
    /// The tenant with this id or slug. `None`: there is none, which is not remembered.
    pub(crate) async fn find(&self, store: &dyn Store, name: &str) -> StoreResult<Option<TenantNames>> {
        if let Some(known) = self.get(name) {
            return Ok(Some(known));
        }
        let found = read(store, name).await?.map(|tenant| TenantNames { id: tenant.id, slug: tenant.slug });
        if let Some(found) = &found {
            self.remember(name, found);
        }
        Ok(found)
    }

    fn get(&self, name: &str) -> Option<TenantNames> {
        self.by_name.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    fn remember(&self, name: &str, found: &TenantNames) {
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        if by_name.len() < MAX_NAMES {
            by_name.insert(name.into(), found.clone());
        }
    }
}

/// Reads the tenant with this id or slug.
pub(crate) async fn read(store: &dyn Store, name: &str) -> StoreResult<Option<Tenant>> {
    match canonical_id(name) {
        Some(id) => store.tenant_get(id).await,
        // A slug never contains U+0000, and not every database can search for it.
        None if name.contains('\0') => Ok(None),
        None => store.tenant_by_slug(name).await,
    }
}
