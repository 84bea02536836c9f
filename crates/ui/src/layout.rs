//! The frame of every page.

use axum::response::Html;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::assets;
use crate::parts::{document, icons, times};
use crate::visitor::Visitor;

/// The navigation: last part of the path, label, key after `g`, icon.
const PLACES: &[(&str, &str, &str, &str)] = &[
    ("", "Overview", "o", icons::OVERVIEW),
    ("/executions", "Executions", "e", icons::EXECUTIONS),
    ("/tasks", "Tasks", "t", icons::TASKS),
    ("/queues", "Queues", "q", icons::QUEUES),
    ("/workers", "Workers", "w", icons::WORKERS),
    ("/access", "Access", "a", icons::ACCESS),
    ("/audit", "Audit log", "l", icons::AUDIT),
];

/// Keys that work on every page, with their meaning.
const KEYS: &[(&str, &str)] = &[
    ("/", "Search"),
    ("g o", "Overview"),
    ("g e", "Executions"),
    ("g t", "Tasks"),
    ("g q", "Queues"),
    ("g w", "Workers"),
    ("g a", "Access"),
    ("g l", "Audit log"),
    ("n", "Start a workflow"),
    ("j / k", "Next or previous row"),
    ("Enter", "Open the row"),
    ("d", "Light or dark"),
    ("?", "This help"),
    ("Esc", "Close"),
];

/// A page of a tenant.
#[derive(Debug)]
pub(crate) struct Page<'a> {
    pub(crate) title: &'a str,
    /// The current entry of the navigation: the last part of its path.
    pub(crate) place: &'a str,
    pub(crate) body: Markup,
}

pub(crate) fn page(visitor: &Visitor, page: Page<'_>) -> Html<String> {
    let tenant = visitor.tenant.as_ref();
    let title =
        tenant.map_or_else(|| page.title.to_owned(), |tenant| format!("{} · {}", page.title, tenant.name));
    let title = document::flat(&title);
    let body = html! {
        a.skip href="#main" { "Skip to content" }
        div.frame {
            header.side {
                a.brand href="/" { (PreEscaped(icons::BRAND)) span { "Flovyn" } }
                (tenants(visitor))
                @if tenant.is_some() { (navigation(visitor, page.place)) }
                (foot(visitor))
            }
            main #main tabindex="-1" { (page.body) }
        }
        (help())
        div #toasts role="status" aria-live="polite" {}
    };
    whole(&title, visitor.theme, body)
}

fn tenants(visitor: &Visitor) -> Markup {
    let Some(tenant) = &visitor.tenant else { return html! {} };
    let others = visitor.me.tenants.iter().filter(|other| other.id != tenant.id);
    html! {
        details.tenant {
            summary title=(tenant.id) { span.muted { "Tenant" } span.tenant-name { (document::name(&tenant.name)) } }
            ul {
                @for other in others {
                    li { a href=(format!("/t/{}", crate::urls::encode(&other.slug))) { (document::name(&other.name)) } }
                }
                @if visitor.me.tenants.len() < 2 { li.muted { "Your credential has no other tenant" } }
            }
        }
    }
}

fn navigation(visitor: &Visitor, here: &str) -> Markup {
    html! {
        nav aria-label="Pages" {
            ul {
                @for (path, name, key, icon) in PLACES {
                    li {
                        a href=(visitor.page(path)) aria-current=[(*path == here).then_some("page")] data-go=(key) {
                            (PreEscaped(icon)) span { (name) }
                        }
                    }
                }
            }
        }
    }
}

fn foot(visitor: &Visitor) -> Markup {
    html! {
        div.foot {
            div.who {
                span.who-name title="Signed in as" { (document::inline(&visitor.me.subject, 80)) }
                span.muted { (visitor.me.role) " · " (visitor.ui.options.version) }
            }
            div.foot-buttons {
                button.icon type="button" data-theme-switch aria-label="Light or dark" title="Light or dark (d)" {
                    (PreEscaped(icons::THEME))
                }
                button.icon type="button" popovertarget="help" aria-label="Keys" title="Keys (?)" { "?" }
                form method="post" action="/logout" {
                    input type="hidden" name="form_token" value=(visitor.session.form_token());
                    button.icon aria-label="Sign out" title="Sign out" { (PreEscaped(icons::LEAVE)) }
                }
            }
        }
    }
}

fn help() -> Markup {
    html! {
        div.dialog #help popover aria-label="Keys" {
            h2 { "Keys" }
            dl.keys {
                @for (keys, about) in KEYS {
                    dt { @for key in keys.split(' ') { kbd { (key) } " " } }
                    dd { (about) }
                }
            }
        }
    }
}

/// A page without navigation, for a visitor without a session.
pub(crate) fn bare(title: &str, body: Markup) -> Html<String> {
    whole(title, None, html! { main.bare #main { (body) } })
}

/// Makes the browser request the page again, this time from a page of this server.
pub(crate) fn again() -> Html<String> {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head { meta charset="utf-8"; meta http-equiv="refresh" content="0"; title { "Flovyn" } }
            body {}
        }
    };
    Html(page.into_string())
}

fn whole(title: &str, theme: Option<&str>, body: Markup) -> Html<String> {
    let page = html! {
        (DOCTYPE)
        html lang="en" data-theme=[theme] data-ahead=[times::ahead_ms()] {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Flovyn" }
                link rel="icon" type="image/svg+xml" href=(assets::path("icon.svg"));
                link rel="stylesheet" href=(assets::path("style.css"));
                link rel="stylesheet" href=(assets::path("pages.css"));
                script type="module" src=(assets::path("app.js")) {}
            }
            body { (body) }
        }
    };
    Html(page.into_string())
}
