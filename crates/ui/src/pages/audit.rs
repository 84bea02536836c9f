//! The audit log: who changed what. For administrators.

use axum::response::Html;
use flovyn_rest_types::{Audit, AuditEntry};
use maud::{Markup, html};
use serde::Deserialize;

use crate::extract::Query;
use crate::failure::Failure;
use crate::layout::{Page, page};
use crate::parts::empty::empty;
use crate::parts::{self, document, times};
use crate::urls::query;
use crate::visitor::Visitor;

#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default)]
pub(crate) struct Chosen {
    actor: String,
    action: String,
    target: String,
    cursor: String,
}

impl Chosen {
    fn pairs(&self) -> [(&str, &str); 4] {
        let Self { actor, action, target, cursor } = self;
        [("actor", actor.trim()), ("action", action.trim()), ("target", target.trim()), ("cursor", cursor)]
    }

    fn link(&self, visitor: &Visitor, cursor: &str) -> String {
        let chosen = Self { cursor: cursor.to_owned(), ..self.clone() };
        visitor.page("/audit") + &query(chosen.pairs())
    }
}

pub(crate) async fn get(visitor: Visitor, Query(chosen): Query<Chosen>) -> Result<Html<String>, Failure> {
    let title = "Audit log";
    if !visitor.may_administrate() {
        let about = "The audit log shows who changed what. Sign in with a credential whose role is admin.";
        let body = html! { div.head { h1 { (title) } } (empty("For administrators", about, None)) };
        return Ok(page(&visitor, Page { title, place: "/audit", body }));
    }
    let found: Audit = visitor.rest().get(&(visitor.api("/audit") + &query(chosen.pairs()))).await?;
    let body = html! {
        div.head { h1 { (title) } }
        form.filters method="get" action=(visitor.page("/audit")) role="search" {
            input.search type="search" name="target" value=(chosen.target) data-search placeholder="Id or queue that was changed"
                aria-label="What was changed" autocomplete="off";
            input type="text" name="actor" value=(chosen.actor) placeholder="Who" aria-label="Who" autocomplete="off";
            input type="text" name="action" value=(chosen.action) placeholder="Action" aria-label="Action" autocomplete="off";
            button.button { "Search" }
        }
        div data-part="list" data-refresh="5000" {
            @if found.entries.is_empty() {
                (empty("Nothing here", "Cancels, retries, pauses, answers and all changes of tokens are recorded here, in \
                        the same commit as the change itself.", None))
            } @else {
                (table(&found.entries))
                nav.pages aria-label="Pages of the list" {
                    @if !chosen.cursor.is_empty() { a.button href=(chosen.link(&visitor, "")) { "Newest" } }
                    @if let Some(cursor) = &found.next_cursor {
                        a.button rel="next" href=(chosen.link(&visitor, cursor)) { "Older" }
                    }
                }
            }
        }
    };
    Ok(page(&visitor, Page { title, place: "/audit", body }))
}

fn table(entries: &[AuditEntry]) -> Markup {
    html! {
        div.scroll {
            table.rows.stacked {
                thead { tr { th { "When" } th { "Who" } th { "Action" } th { "What" } th.wide-only { "Details" } } }
                tbody {
                    @for entry in entries {
                        tr {
                            td { (times::moment(entry.time_ms)) }
                            td.below { (document::inline(&entry.actor.subject, 40)) " " span.muted { (entry.actor.credential.replace('_', " ")) } }
                            td.lead { code.tag { (entry.action) } }
                            td.below { span.id { code title=(document::flat(&entry.target)) { (document::inline(parts::short(&entry.target), 40)) } (parts::copy(&entry.target)) } }
                            td.wide-only.ellipsis { @if let Some(details) = &entry.details { code { (document::inline(details.get(), 120)) } } }
                        }
                    }
                }
            }
        }
    }
}
