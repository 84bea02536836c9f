//! The common parts of list pages: search, statuses to choose from, and pages. All choices are part of the URL.

use maud::{Markup, html};
use serde::Deserialize;

use crate::parts::{self, empty::empty};
use crate::urls::query;
use crate::visitor::Visitor;

#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default)]
pub(crate) struct Chosen {
    /// The search text.
    pub(super) q: String,
    pub(super) status: String,
    pub(super) queue: String,
    /// Only for executions.
    pub(super) since: String,
    pub(super) cursor: String,
}

impl Chosen {
    fn pairs(&self) -> [(&'static str, &str); 5] {
        let Self { q, status, queue, since, cursor } = self;
        [("q", q), ("status", status), ("queue", queue), ("since", since), ("cursor", cursor)]
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.pairs().iter().all(|(_, text)| text.is_empty())
    }
}

/// A list page with its choices.
#[derive(Debug, Clone, Copy)]
pub(super) struct List<'a> {
    pub(super) visitor: &'a Visitor,
    /// The path below the tenant, such as `/tasks`.
    pub(super) place: &'static str,
    pub(super) chosen: &'a Chosen,
}

impl List<'_> {
    /// The URL with a changed choice, at the first page.
    fn link(&self, change: impl FnOnce(&mut Chosen)) -> String {
        let mut chosen = Chosen { cursor: String::new(), ..self.chosen.clone() };
        change(&mut chosen);
        self.visitor.page(self.place) + &query(chosen.pairs())
    }

    /// `search` is the search field, `more` the other choices.
    pub(super) fn filters(&self, search: Markup, more: Markup, statuses: &[&str]) -> Markup {
        let chosen = self.chosen;
        html! {
            form.filters method="get" action=(self.visitor.page(self.place)) role="search" {
                (search)
                input type="text" name="queue" value=(chosen.queue) placeholder="Queue" aria-label="Queue"
                    autocomplete="off";
                (more)
                @if !chosen.status.is_empty() { input type="hidden" name="status" value=(chosen.status); }
                button.button { "Search" }
            }
            nav.chips aria-label="Status" {
                a href=(self.link(|chosen| chosen.status.clear()))
                    aria-current=[chosen.status.is_empty().then_some("true")] { "All" }
                @for status in statuses {
                    a href=(self.link(|chosen| chosen.status = (*status).to_owned()))
                        aria-current=[(chosen.status == *status).then_some("true")] { (parts::status(status)) }
                }
            }
        }
    }

    /// The links to other pages of the list.
    pub(super) fn pages(&self, next_cursor: Option<&String>) -> Markup {
        html! {
            nav.pages aria-label="Pages of the list" {
                @if !self.chosen.cursor.is_empty() { a.button href=(self.link(|_| {})) { "Newest" } }
                @if let Some(cursor) = next_cursor {
                    a.button rel="next" href=(self.link(|chosen| chosen.cursor.clone_from(cursor))) { "Older" }
                }
            }
        }
    }

    pub(super) fn nothing_matches(&self, about: &str) -> Markup {
        html! {
            (empty("Nothing matches", about, None))
            p.center { a.button href=(self.visitor.page(self.place)) { "Show all" } }
        }
    }
}
