//! Principals, and the tenants they may act for.

use flovyn_engine::ids::TenantId;
use uuid::Uuid;

/// Proof that the caller may act for this tenant. Only authentication creates a scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TenantScope(TenantId);

impl TenantScope {
    pub(crate) fn new(tenant_id: TenantId) -> Self {
        Self(tenant_id)
    }

    pub fn tenant_id(self) -> TenantId {
        self.0
    }
}

/// What a user may do within the tenants of the credential. Each role includes the roles before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    Viewer,
    Operator,
    Admin,
    /// May also create tenants. The credential still decides for which tenants this role may act.
    ServerAdmin,
}

impl Role {
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "viewer" => Self::Viewer,
            "operator" => Self::Operator,
            "admin" => Self::Admin,
            "server-admin" => Self::ServerAdmin,
            _ => return None,
        })
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
            Self::ServerAdmin => "server-admin",
        }
    }
}

/// An authenticated caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Principal {
    /// Holds a worker token. The token belongs to one tenant and allows everything that workers and
    /// applications do.
    Worker { tenant_id: TenantId, token_id: Uuid },
    /// Holds a JWT or an API key.
    User { subject: String, credential: Credential, role: Role, tenants: Tenants },
}

/// The kind of credential that a user presented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credential {
    Jwt,
    ApiKey,
}

/// The tenants that a credential names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tenants {
    All,
    /// Slugs or ids.
    Named(Vec<String>),
}

impl Tenants {
    /// If `*` is among the names, the credential is valid for all tenants.
    pub(crate) fn from_names(names: Vec<String>) -> Self {
        if names.iter().any(|name| name == "*") { Self::All } else { Self::Named(names) }
    }
}

impl Principal {
    pub fn role(&self) -> Role {
        match self {
            Self::Worker { .. } => Role::Operator,
            Self::User { role, .. } => *role,
        }
    }

    /// The scope of a principal that belongs to exactly one tenant. `None` for a user, whose credential may
    /// name several.
    pub fn only_scope(&self) -> Option<TenantScope> {
        match self {
            Self::Worker { tenant_id, .. } => Some(TenantScope::new(*tenant_id)),
            Self::User { .. } => None,
        }
    }

    /// The scope for the tenant with this id and slug. `None` if the principal may not act for the tenant.
    pub fn scope_for(&self, id: TenantId, slug: &str) -> Option<TenantScope> {
        let may = match self {
            Self::Worker { tenant_id, .. } => *tenant_id == id,
            Self::User { tenants: Tenants::All, .. } => true,
            Self::User { tenants: Tenants::Named(names), .. } => {
                let id = id.to_string();
                names.iter().any(|name| *name == id || name == slug)
            }
        };
        may.then(|| TenantScope::new(id))
    }

    /// The tenants that the credential names, to choose one from. Empty for a worker and for a credential of
    /// all tenants.
    pub fn named_tenants(&self) -> &[String] {
        match self {
            Self::User { tenants: Tenants::Named(names), .. } => names,
            _ => &[],
        }
    }
}
