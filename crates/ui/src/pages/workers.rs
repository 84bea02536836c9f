//! Workers, whether they are alive, and what they can run.

use axum::response::Html;
use flovyn_rest_types::{Worker, Workers};
use maud::{Markup, html};

use crate::failure::Failure;
use crate::layout::{Page, page};
use crate::parts::empty::empty;
use crate::parts::{self, document, times};
use crate::visitor::Visitor;

pub(crate) async fn get(visitor: Visitor) -> Result<Html<String>, Failure> {
    let mut workers = visitor.rest().get::<Workers>(&visitor.api("/workers")).await?.workers;
    workers.sort_by(|one, other| (!one.alive, &one.name).cmp(&(!other.alive, &other.name)));
    let alive = workers.iter().filter(|worker| worker.alive).count();
    let body = html! {
        div.head { h1 { "Workers" } span.muted.figures data-part="alive" { (alive) " alive" } }
        div data-part="list" data-refresh="3000" {
            @if workers.is_empty() {
                (empty("No worker has connected", "Workers run your workflows and tasks. They connect over gRPC with a worker \
                        token; the examples have one to start with.", Some("cargo run -p flovyn-examples --bin hello")))
            } @else {
                div.cards { @for worker in &workers { (card(worker)) } }
            }
        }
    };
    Ok(page(&visitor, Page { title: "Workers", place: "/workers", body }))
}

fn card(worker: &Worker) -> Markup {
    html! {
        article.card {
            div.card-head {
                h2 { (document::inline(&worker.name, 60)) }
                @if worker.alive { (parts::status("ALIVE")) } @else { (parts::status("GONE")) }
            }
            dl.facts {
                (fact("Id", Some(parts::id(&worker.id))))
                (fact("Queue", Some(html! { code { (document::name(worker.task_queue.as_deref().unwrap_or("any"))) } })))
                (fact("Host", (!worker.host.is_empty()).then(|| html! { (document::inline(&worker.host, 40)) })))
                (fact("Process", (!worker.process_id.is_empty()).then(|| html! { code { (document::inline(&worker.process_id, 40)) } })))
                (fact("Build", (!worker.build_id.is_empty()).then(|| html! { code { (document::inline(&worker.build_id, 24)) } })))
                (fact("Since", Some(times::moment(worker.registered_ms))))
                (fact("Last heard", Some(times::real_moment(worker.last_heartbeat_ms))))
            }
            (kinds("Workflows", &worker.workflows))
            (kinds("Tasks", &worker.tasks))
        }
    }
}

fn fact(name: &str, value: Option<Markup>) -> Markup {
    parts::fact(name, value)
}

fn kinds(title: &str, names: &[String]) -> Markup {
    html! {
        @if !names.is_empty() {
            p.kinds { span.muted { (title) } span { @for name in names { code.tag { (document::inline(name, 60)) } } } }
        }
    }
}
