//! The start: the visitor's first tenant.

use axum::response::{IntoResponse, Redirect, Response};
use maud::html;

use crate::failure::Failure;
use crate::layout::{Page, page};
use crate::parts::empty::empty;
use crate::urls::encode;
use crate::visitor::Visitor;

pub(crate) async fn get(visitor: Visitor) -> Result<Response, Failure> {
    if let Some(tenant) = visitor.me.tenants.first() {
        return Ok(Redirect::to(&format!("/t/{}", encode(&tenant.slug))).into_response());
    }
    let about = "Your credential is valid, but it names no tenant of this server. Whoever gave it to you can name one in \
                 its claim `tenants`; a server-admin makes tenants:";
    let command = "flovyn tenant create my-team";
    let body = html! { (empty("No tenant", about, Some(command))) };
    Ok(page(&visitor, Page { title: "No tenant", place: "-", body }).into_response())
}
