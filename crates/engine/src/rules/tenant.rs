//! Tenants: created with a unique slug, and never removed.

use crate::check;
use crate::code::{Code, Refusal};
use crate::ids::{TenantId, Text};
use crate::limits::Limits;
use crate::reply::Reply;
use crate::request::{CreateTenant, UpdateTenant};
use crate::rules::{Rule, Work};
use crate::state::Tenant;
use crate::table::Found;
use crate::working_set::{Needs, Scan};

impl Rule for CreateTenant {
    fn check(&self, limits: &Limits) -> Result<(), Refusal> {
        check_slug(&self.slug, limits)?;
        check::name("tenant name", &self.name, limits)?;
        check::timeout("retention", self.retention_ms, limits)
    }

    fn needs(&self, _tenant_id: TenantId, needs: &mut Needs<'_>) {
        needs.scan(Scan::TenantBySlug { slug: self.slug.clone() });
        if let Some(id) = self.id {
            needs.row::<Tenant>((id,));
        }
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        let id = match self.id {
            Some(id) => id,
            None => work.ids.uuid(work.now.ms),
        };
        check::id("tenant id", id)?;
        let taken = work.set.tenants.current().any(|tenant| tenant.slug == self.slug || tenant.id == id);
        if taken {
            let message = format!("tenant '{}' ({id}) already exists", self.slug);
            return Err(Refusal::new(Code::TenantExists, message));
        }
        let tenant = Tenant {
            id,
            version: 1,
            slug: self.slug.clone(),
            name: self.name.clone(),
            created_ms: work.now.ms,
            retention_ms: self.retention_ms,
        };
        work.set.tenants.supply((id,), Found::Absent, true);
        work.set.tenants.put(tenant.clone());
        Ok(Reply::Tenant(tenant))
    }
}

/// A slug is part of paths: lowercase letters, digits and hyphens only.
fn check_slug(slug: &Text, limits: &Limits) -> Result<(), Refusal> {
    check::name("slug", slug, limits)?;
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if slug.bytes().all(plain) {
        return Ok(());
    }
    let message = format!("slug '{slug}' may contain only a-z, 0-9 and '-'");
    Err(Refusal::new(Code::InvalidName, message))
}

impl Rule for UpdateTenant {
    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        needs.row::<Tenant>((tenant_id,));
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        check::name("tenant name", &self.name, work.limits)?;
        check::timeout("retention", self.retention_ms, work.limits)?;
        let Some(mut tenant) = work.set.tenants.get(&(work.tenant_id,)).cloned() else {
            return Err(Refusal::new(Code::TenantNotFound, format!("tenant {} not found", work.tenant_id)));
        };
        tenant.name = self.name.clone();
        tenant.retention_ms = self.retention_ms;
        work.set.tenants.put(tenant.clone());
        Ok(Reply::Tenant(tenant))
    }
}
