//! The visitor of a page, and the tenant that it looks at. REST decides whether the visitor may see the tenant.

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use flovyn_rest_types::{Me, Tenant};

use crate::Ui;
use crate::failure::Failure;
use crate::guard::Here;
use crate::rest::Caller;
use crate::session::{Session, cookie_of};
use crate::urls::encode;

/// A visitor with a session and a valid credential.
#[derive(Debug)]
pub(crate) struct Visitor {
    pub(crate) ui: Ui,
    pub(crate) session: Session,
    pub(crate) me: Me,
    /// The tenant in the path. `None`: the path has none.
    pub(crate) tenant: Option<Tenant>,
    /// `light` or `dark`. `None`: not chosen.
    pub(crate) theme: Option<&'static str>,
}

impl Visitor {
    pub(crate) fn rest(&self) -> Caller<'_> {
        self.ui.rest.caller(self.session.credential())
    }

    /// The tenant's slug, encoded for a path.
    fn slug(&self) -> String {
        self.tenant.as_ref().map(|tenant| encode(&tenant.slug)).unwrap_or_default()
    }

    /// The path of a page of this tenant.
    pub(crate) fn page(&self, rest: &str) -> String {
        format!("/t/{}{rest}", self.slug())
    }

    /// The REST path of a resource of this tenant.
    pub(crate) fn api(&self, rest: &str) -> String {
        format!("/api/tenants/{}{rest}", self.slug())
    }

    /// Whether to offer actions that need the role `operator`. REST checks again when an action is sent.
    pub(crate) fn may_operate(&self) -> bool {
        self.me.role != "viewer"
    }

    /// Whether the visitor may create tenants.
    pub(crate) fn is_server_admin(&self) -> bool {
        self.me.role == "server-admin"
    }

    pub(crate) fn may_administrate(&self) -> bool {
        matches!(self.me.role.as_str(), "admin" | "server-admin")
    }
}

impl FromRequestParts<Ui> for Visitor {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, ui: &Ui) -> Result<Self, Failure> {
        let here = Here::of(parts);
        let sign_in = || match parts.method.is_safe() {
            true => Failure::SignInFor(here.page.clone()),
            false => Failure::Undone(here.form_page(&parts.headers).unwrap_or("/").to_owned()),
        };
        let session = parts.extensions.get::<Session>().cloned().ok_or_else(sign_in)?;
        let theme = theme(parts);
        let rest = ui.rest.caller(session.credential());
        let me: Me = match rest.get("/api/me").await {
            Err(Failure::SignIn) => return Err(sign_in()),
            // The credential is not valid either, and was tried too often.
            Err(Failure::Refused(_, refusal)) if refusal.is_of_tries() => return Err(sign_in()),
            answer => answer?,
        };
        let path = RawPathParams::from_request_parts(parts, ui).await;
        let path = path.map_err(|_| Failure::nothing_at(&here.page))?;
        let named = path.iter().find(|(name, _)| *name == "tenant").map(|(_, value)| value.to_owned());
        let tenant = match named {
            None => None,
            Some(named) => Some(rest.get(&format!("/api/tenants/{}", encode(&named))).await?),
        };
        Ok(Self { ui: ui.clone(), session, me, tenant, theme })
    }
}

pub(crate) fn theme(parts: &Parts) -> Option<&'static str> {
    match cookie_of(&parts.headers, "flovyn_theme") {
        Some("light") => Some("light"),
        Some("dark") => Some("dark"),
        _ => None,
    }
}
