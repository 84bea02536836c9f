//! Children of an execution and their children. Each level is read when it is opened.

use axum::response::Html;
use flovyn_rest_types::Executions;
use maud::{Markup, html};

use crate::extract::Path;
use crate::failure::Failure;
use crate::parts::{self, document, times};
use crate::urls::encode;
use crate::visitor::Visitor;

/// One level, without the layout around it.
pub(crate) async fn get(
    visitor: Visitor,
    Path((_, name)): Path<(String, String)>,
) -> Result<Html<String>, Failure> {
    let path = visitor.api(&format!("/workflow-executions/{}/children?limit=50", encode(&name)));
    let found: Executions = visitor.rest().get(&path).await?;
    Ok(Html(level(&visitor, &found).into_string()))
}

pub(super) fn section(visitor: &Visitor, children: &Executions) -> Markup {
    if children.executions.is_empty() {
        return html! {};
    }
    html! {
        section aria-labelledby="children-title" {
            h2 #children-title { "Children" }
            (level(visitor, children))
        }
    }
}

fn level(visitor: &Visitor, found: &Executions) -> Markup {
    html! {
        @if found.executions.is_empty() { p.muted.tree-none { "No children" } }
        ul.tree {
            @for row in &found.executions {
                @let own = visitor.page(&format!("/executions/{}", row.id));
                @let took = times::between(row.created_ms, row.finished_ms);
                li {
                    details data-branch=(format!("{own}/children")) {
                        summary {
                            (parts::status(&row.status))
                            a href=(own) { (document::name(&row.kind)) }
                            (parts::id(&row.id))
                            span.muted.figures { (times::duration(took)) }
                        }
                        div.branch { p.muted { "…" } }
                    }
                }
            }
        }
        @if found.next_cursor.is_some() { p.muted { "The newest " (found.executions.len()) } }
    }
}
