//! Access: the tenant, the signed-in user, and the worker tokens. A new token is shown once.

use axum::response::{Html, IntoResponse, Redirect, Response};
use flovyn_rest_types::{WorkerToken, WorkerTokens};
use maud::{Markup, html};
use serde_json::json;

use crate::actions::Filled;
use crate::failure::Failure;
use crate::layout::{Page, page};
use crate::parts::empty::empty;
use crate::parts::{self, document, fact, form, tenant, times};
use crate::visitor::Visitor;

pub(crate) async fn get(visitor: Visitor) -> Result<Html<String>, Failure> {
    show(&visitor, None).await
}

/// The answer is the page itself, because no URL may lead to a token.
pub(crate) async fn create_token(visitor: Visitor, filled: Filled) -> Result<Response, Failure> {
    let body = json!({ "name": filled.text("name").unwrap_or_default() }).to_string();
    let made: WorkerToken = visitor.rest().post(&visitor.api("/worker-tokens"), body).await?;
    Ok(show(&visitor, Some(&made)).await?.into_response())
}

/// The page with a new token has the URL of its form. A later request for that URL gets the page without the token.
pub(crate) async fn after_token(visitor: Visitor) -> Redirect {
    Redirect::to(&visitor.page("/access"))
}

async fn show(visitor: &Visitor, made: Option<&WorkerToken>) -> Result<Html<String>, Failure> {
    let tokens = match visitor.may_administrate() {
        true => Some(visitor.rest().get::<WorkerTokens>(&visitor.api("/worker-tokens")).await?.worker_tokens),
        false => None,
    };
    let body = html! {
        div.head { h1 { "Access" } }
        (own_tenant(visitor))
        @if let Some(made) = made { (new_token(made)) }
        section aria-labelledby="tokens-title" {
            div.head {
                h2 #tokens-title { "Worker tokens" }
                @if tokens.is_some() { div.head-actions { (form::opener("make-token", "New token", "primary")) } }
            }
            @match &tokens {
                None => p.muted { "Worker tokens are visible only to administrators; you are signed in as " (visitor.me.role) "." },
                Some(tokens) if tokens.is_empty() => (empty("No worker tokens", "A worker authenticates with a token. It is shown \
                    only once, when it is created.", None)),
                Some(tokens) => (table(visitor, tokens)),
            }
        }
        @if tokens.is_some() { (make_dialog(visitor)) }
    };
    Ok(page(visitor, Page { title: "Access", place: "/access", body }))
}

fn own_tenant(visitor: &Visitor) -> Markup {
    let Some(tenant) = &visitor.tenant else { return html! {} };
    html! {
        section aria-labelledby="tenant-title" {
            div.head {
                h2 #tenant-title { "Tenant" }
                div.head-actions { (tenant::maker(visitor, "")) }
            }
            dl.facts {
                (fact("Name", Some(html! { (document::inline(&tenant.name, 80)) })))
                (fact("Slug", Some(html! { code { (tenant.slug) } })))
                (fact("Id", Some(parts::whole_id(&tenant.id))))
                (fact("Created", Some(times::moment(tenant.created_ms))))
                (fact("Finished work is kept", Some(match tenant.retention_ms {
                    Some(ms) => html! { (times::duration(ms)) },
                    None => html! { "forever" },
                })))
                (fact("Signed in as", Some(html! { (document::inline(&visitor.me.subject, 80)) " (" (visitor.me.role) ")" })))
            }
            @if visitor.me.tenants.len() > 1 {
                p.muted { "Your other tenants: "
                    @for other in visitor.me.tenants.iter().filter(|other| other.id != tenant.id) {
                        a.tag href=(format!("/t/{}", crate::urls::encode(&other.slug))) { (document::name(&other.name)) } " "
                    }
                }
            } @else if visitor.is_server_admin() {
                p.muted { "This is the only tenant. Create another one with the button above, or from a terminal:" }
                div.command { code { (tenant::COMMAND) } (parts::copy(tenant::COMMAND)) }
            }
        }
    }
}

fn new_token(made: &WorkerToken) -> Markup {
    let token = made.token.as_deref().unwrap_or_default();
    html! {
        section.waiting.secret role="alert" {
            h2 { "The token of " (document::inline(&made.name, 60)) }
            p { "Copy it now: it cannot be shown again." }
            div.command { code { (token) } (parts::copy(token)) }
        }
    }
}

fn table(visitor: &Visitor, tokens: &[WorkerToken]) -> Markup {
    html! {
        div.scroll {
            table.rows {
                thead { tr { th { "Name" } th { "State" } th.wide-only { "Id" } th.wide-only { "Created" } th { "Expires" } th {} } }
                tbody {
                    @for token in tokens {
                        tr {
                            td.name { (document::inline(&token.name, 60)) }
                            td { @if token.revoked_ms.is_some() { (parts::status("REVOKED")) } @else { (parts::status("VALID")) } }
                            td.wide-only { (parts::id(&token.id)) }
                            td.wide-only { (times::moment(token.created_ms)) }
                            td { @match token.expires_ms {
                                Some(at) => (times::moment(at)),
                                None => span.muted { "never" },
                            } }
                            td.right { @if token.revoked_ms.is_none() { (revoke(visitor, token)) } }
                        }
                    }
                }
            }
        }
    }
}

fn revoke(visitor: &Visitor, token: &WorkerToken) -> Markup {
    let id = format!("revoke-{}", token.id);
    let about =
        html! { p.muted { "Workers that use this token are refused at once. This cannot be undone." } };
    let action = visitor.page(&format!("/access/tokens/{}/revoke", token.id));
    html! {
        (form::opener(&id, "Revoke", "small danger"))
        (form::dialog(visitor, &id, &format!("Revoke {}?", token.name), &action, "Revoke", about))
    }
}

/// Sent as a plain form, because the answer is a page with the token in it.
fn make_dialog(visitor: &Visitor) -> Markup {
    html! {
        div.dialog #make-token popover aria-label="New worker token" {
            form method="post" action=(visitor.page("/access/tokens")) {
                h2 { "New worker token" }
                (form::token(visitor))
                (form::field("name", "Name", "which worker it is for", true))
                div.dialog-buttons {
                    button.button type="button" popovertarget="make-token" popovertargetaction="hide" { "Close" }
                    button.button.primary type="submit" { "Create" }
                }
            }
        }
    }
}
