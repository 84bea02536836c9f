//! The start: the visitor's first tenant.

use axum::response::{IntoResponse, Redirect, Response};
use maud::html;

use crate::failure::Failure;
use crate::layout::{Page, page};
use crate::parts::empty::empty;
use crate::parts::tenant;
use crate::urls::encode;
use crate::visitor::Visitor;

pub(crate) async fn get(visitor: Visitor) -> Result<Response, Failure> {
    if let Some(tenant) = visitor.me.tenants.first() {
        return Ok(Redirect::to(&format!("/t/{}", encode(&tenant.slug))).into_response());
    }
    let (title, about) = match visitor.is_server_admin() {
        true => (
            "No tenant yet",
            "Everything belongs to a tenant. Create the first one here, or from a terminal:",
        ),
        false => (
            "No tenant",
            "Your credential is valid, but it names no tenant of this server. Ask the issuer to name one in the \
             claim `tenants`; a server-admin can create tenants:",
        ),
    };
    let body = html! {
        (empty(title, about, Some(tenant::COMMAND)))
        div.center { (tenant::maker(&visitor, "primary")) }
    };
    Ok(page(&visitor, Page { title, place: "-", body }).into_response())
}
