//! One task, standalone or of a workflow: its progress, attempts and log, live while it runs.

use axum::response::Html;
use flovyn_rest_types::{Attempt, Attempts, ExecutionTasks, LogLine, Logs, Task};
use maud::{Markup, html};

use super::task_actions;
use crate::extract::Path;
use crate::failure::Failure;
use crate::layout::{Page, page};
use crate::parts::{self, document, fact, times};
use crate::urls::encode;
use crate::visitor::Visitor;

/// The most log lines that are shown: the newest.
const LINES: usize = 500;
/// The most log pages that are read to find them.
const LOG_PAGES: usize = 20;
const LOG_PAGE: usize = 1_000;

/// A standalone task.
pub(crate) async fn get(
    visitor: Visitor,
    Path((_, name)): Path<(String, String)>,
) -> Result<Html<String>, Failure> {
    let task: Task = visitor.rest().get(&visitor.api(&format!("/tasks/{}", encode(&name)))).await?;
    show(&visitor, &task).await
}

/// A task of a workflow.
pub(crate) async fn of_execution(
    visitor: Visitor,
    Path((_, execution, name)): Path<(String, String, String)>,
) -> Result<Html<String>, Failure> {
    let missing = || Failure::not_found("the execution has no such task");
    // Tasks of an execution are listed by id, so this one follows the id before it.
    let before = before(&name).ok_or_else(missing)?;
    let path =
        visitor.api(&format!("/workflow-executions/{}/tasks?limit=1&cursor={before}", encode(&execution)));
    let found: ExecutionTasks = visitor.rest().get(&path).await?;
    let task = found.tasks.into_iter().find(|task| task.id == name).ok_or_else(missing)?;
    show(&visitor, &task).await
}

/// The id just before this one.
fn before(id: &str) -> Option<String> {
    let digits: String = id.chars().filter(|letter| *letter != '-').collect();
    let number = u128::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 32)?;
    Some(format!("{:032x}", number.checked_sub(1)?))
}

async fn show(visitor: &Visitor, task: &Task) -> Result<Html<String>, Failure> {
    let path = visitor.api(&format!("/tasks/{}", task.id));
    let attempts_path = format!("{path}/attempts");
    let rest = visitor.rest();
    let (attempts, lines) = futures::join!(rest.get::<Attempts>(&attempts_path), log(visitor, &path));
    let (attempts, lines) = (attempts?, lines?);
    let open = !task.has_ended();
    let live = visitor.page(&format!("/tasks/{}/live", task.id));
    let body = html! {
        div data-root data-follow=[open.then_some(live)] {
            div data-part="head" data-refresh=[open.then_some("2000")] { (head(visitor, task)) }
            div data-part="payloads" { (payloads(task)) }
            div data-part="attempts" { (attempts_section(task, &attempts.attempts)) }
            section.streamed hidden data-streamed aria-labelledby="streamed-title" {
                h2 #streamed-title { "Streamed" }
                pre.wrap tabindex="0" { code {} }
            }
            div data-part="log" data-stick { (log_section(&lines)) }
        }
    };
    let title = format!("{} {}", task.task_type, parts::short(&task.id));
    let place = if task.workflow_execution_id.is_some() { "/executions" } else { "/tasks" };
    Ok(page(visitor, Page { title: &title, place, body }))
}

/// The newest lines of the log.
async fn log(visitor: &Visitor, path: &str) -> Result<Vec<LogLine>, Failure> {
    let (mut lines, mut after): (Vec<LogLine>, i64) = (Vec::new(), 0);
    for _ in 0..LOG_PAGES {
        let path = format!("{path}/logs?after_line={after}&limit={LOG_PAGE}");
        let page: Logs = visitor.rest().get(&path).await?;
        let is_last = page.lines.len() < LOG_PAGE;
        after = page.lines.last().map_or(after, |line| line.line);
        lines.extend(page.lines);
        lines.drain(..lines.len().saturating_sub(LINES));
        if is_last {
            break;
        }
    }
    Ok(lines)
}

fn head(visitor: &Visitor, task: &Task) -> Markup {
    let started = task.started_ms;
    let took = started.map(|from| times::between(from, task.completed_ms));
    html! {
        nav.crumbs aria-label="Where this is" {
            @if let Some(execution) = &task.workflow_execution_id {
                a href=(visitor.page("/executions")) { "Executions" } span { "/" }
                a href=(visitor.page(&format!("/executions/{execution}"))) { code { (parts::short(execution)) } }
            } @else {
                a href=(visitor.page("/tasks")) { "Tasks" }
            }
            span { "/" } (parts::whole_id(&task.id))
        }
        div.head {
            h1 { (document::name(&task.task_type)) } (parts::status(&task.status))
            div.head-actions { (task_actions::buttons(visitor, task)) }
        }
        @if task.status == "RUNNING" || (task.progress > 0.0 && task.progress < 1.0) {
            div.progress {
                progress max="1" value=(format!("{:.4}", task.progress)) aria-label="Progress" {}
                span.figures { (format!("{:.0} %", task.progress * 100.0)) }
                @if let Some(details) = &task.progress_details { span.muted { (document::inline(details, 120)) } }
            }
        }
        @if let Some(waiting) = task.waiting_on.as_ref().filter(|waiting| waiting.kind != "RUNNING") {
            section.waiting aria-label="Why it waits" {
                ul {
                    li {
                        span.reason data-kind=(waiting.kind) { (parts::words(&waiting.kind)) }
                        span.reason-text {
                            (document::inline(&waiting.message, 300))
                            @if let Some(until) = waiting.until_ms { " · " (times::moment(until)) }
                        }
                    }
                }
            }
        }
        dl.facts {
            (fact("Queue", Some(html! { code { (document::name(&task.queue)) } })))
            (fact("Attempts", Some(html! { span.figures { (task.execution_count) " of " (task.max_retries.max(1)) } })))
            (fact("Created", Some(times::moment(task.created_ms))))
            (fact("Not before", task.scheduled_ms.map(times::moment)))
            (fact("Started", started.map(times::moment)))
            (fact("Finished", task.completed_ms.map(times::moment)))
            (fact(if task.has_ended() { "Took" } else { "So far" }, took.map(|ms| html! { span.figures { (times::duration(ms)) } })))
            (fact("Worker", task.worker_id.as_ref().map(|worker| html! { code { (document::inline(worker, 60)) } })))
            (fact("Failure", failure(task.failure_type.as_deref(), task.retryable)))
            (fact("Key", task.idempotency_key.as_ref().map(|key| html! { code { (document::inline(key, 80)) } })))
        }
    }
}

/// The type of a failure, and whether a retry cannot help. `None`: neither is known.
fn failure(failure_type: Option<&str>, retryable: Option<bool>) -> Option<Markup> {
    let is_last = retryable == Some(false);
    (failure_type.is_some() || is_last).then(|| {
        html! {
            @if let Some(name) = failure_type { span.tag { (document::inline(name, 80)) } }
            @if is_last { " " span.tag { "not retryable" } }
        }
    })
}

fn payloads(task: &Task) -> Markup {
    html! {
        section.pair aria-label="Input and outcome" {
            (document::json("Input", task.input.as_deref(), None))
            @if let Some(error) = &task.error {
                (document::text(if task.status == "FAILED" { "Error" } else { "Last error" }, error))
                @if let Some(details) = &task.failure_details { (document::json("Details", Some(details), None)) }
            } @else if task.output.is_some() {
                (document::json("Output", task.output.as_deref(), None))
            } @else {
                figure.document.pending { figcaption { span { "Output" } } p.muted { "Not finished yet" } }
            }
        }
    }
}

fn attempts_section(task: &Task, attempts: &[Attempt]) -> Markup {
    html! {
        section aria-labelledby="attempts-title" {
            h2 #attempts-title { "Attempts" }
            @if attempts.is_empty() {
                p.muted { @if task.status == "RUNNING" { "The first one is running." } @else { "None has ended yet." } }
            }
            ol.attempts {
                @for attempt in attempts.iter().rev() {
                    li {
                        div.attempt {
                            span.figures.attempt-number { "#" (attempt.attempt) }
                            (parts::status(&attempt.status))
                            span { (times::moment(attempt.started_ms)) }
                            span.figures.muted { (times::duration(attempt.duration_ms)) }
                            @if let Some(worker) = &attempt.worker_id { code.muted { (document::inline(worker, 40)) } }
                            @if let Some(failure) = failure(attempt.failure_type.as_deref(), attempt.retryable) { (failure) }
                        }
                        @if let Some(error) = &attempt.error { (document::text("Error", error)) }
                        @if let Some(details) = &attempt.failure_details { (document::json("Details", Some(details), None)) }
                    }
                }
            }
        }
    }
}

fn log_section(lines: &[LogLine]) -> Markup {
    html! {
        section aria-labelledby="log-title" {
            h2 #log-title { "Log" }
            @if lines.is_empty() {
                p.muted { "Nothing was logged. In a task, " code { "ctx.log(..)" } " writes here." }
            } @else {
                div.lines tabindex="0" role="log" aria-label="Log of the task" {
                    @for line in lines {
                        div.line data-level=(document::flat(&line.level)) {
                            span.figures.muted { (times::clock(line.time_ms)) }
                            span.level { (document::inline(&line.level, 20)) }
                            span.line-text { (document::inline(&line.message, 2_000)) }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::before;

    #[test]
    fn the_id_before() {
        let id = "0198f3a2-7c1e-7b7e-9d3a-5b1c7a9e0000";
        assert_eq!(before(id).as_deref(), Some("0198f3a27c1e7b7e9d3a5b1c7a9dffff"));
        assert_eq!(before("00000000-0000-0000-0000-000000000000"), None);
        assert_eq!(before("x"), None);
        assert_eq!(before("1"), None);
    }
}
