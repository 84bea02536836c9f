//! `flovyn workflow start`

use std::collections::BTreeMap;

use clap::Args;
use serde::Serialize;
use serde_json::value::RawValue;

use super::wait;
use crate::client::answers::{Answer, Started};
use crate::exit::Failure;
use crate::input::{self, Span};
use crate::remote::Session;
use crate::view::note;

#[derive(Args)]
#[command(after_help = "\
Exit codes with --wait: 0 if the execution completed, 7 if it failed or was cancelled, 8 if
the timeout expired.

Examples:
  flovyn workflow start greeting --input '{\"name\": \"Ada\"}'
  flovyn workflow start order --input @order.json --label customer=ada --key order-4711
  flovyn workflow start greeting --input '{\"name\": \"Ada\"}' --wait
  ID=$(flovyn workflow start order --input @order.json)")]
pub(crate) struct Start {
    /// The workflow's kind, as registered by workers.
    #[arg(value_parser = input::name)]
    kind: String,
    /// Input as JSON, @FILE, or - for stdin.
    #[arg(long, short, value_name = "JSON", value_parser = input::json)]
    input: Option<Box<RawValue>>,
    /// Idempotency key: a second start with the same key returns the first execution.
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Lifetime of the key. Default: 24 hours.
    #[arg(long, value_name = "DURATION", requires = "key")]
    key_ttl: Option<Span>,
    /// A label to search by; may be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = input::label)]
    label: Vec<(String, String)>,
    /// The queue of the execution. Default: `default`.
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
    /// Only workers with this version of the workflow run it.
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
    /// Shift in the queue by this many seconds; negative runs sooner.
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    priority: Option<i64>,
    /// Start no earlier than this time, such as 2027-01-31T09:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = input::moment)]
    at: Option<String>,
    /// Start after this duration, such as 10m.
    #[arg(long = "in", value_name = "DURATION", conflicts_with = "at")]
    after: Option<Span>,
    /// Time limit of the execution. It fails if it takes longer.
    #[arg(long, value_name = "DURATION")]
    execution_timeout: Option<Span>,
    /// Total time for clean-up after a cancel request. Default: no limit while it makes progress.
    #[arg(long, value_name = "DURATION")]
    cancel_grace: Option<Span>,
    /// Wait for the end and print the output, like `flovyn workflow wait`.
    #[arg(long)]
    wait: bool,
    /// Stop waiting after this time. The execution continues.
    #[arg(long, value_name = "DURATION", requires = "wait")]
    timeout: Option<Span>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<&'a str>,
    #[serde(rename = "idempotencyKeyTTL", skip_serializing_if = "Option::is_none")]
    idempotency_key_ttl: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<&'a str, &'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_queue: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority_seconds: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scheduled_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    execution_timeout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cancel_grace: Option<String>,
}

impl Start {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let after = self.after.map(|Span(ms)| input::from_now(ms)).transpose();
        let body = Body {
            input: self.input.as_deref(),
            idempotency_key: self.key.as_deref(),
            idempotency_key_ttl: self.key_ttl.map(Span::seconds),
            labels: self.label.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
            task_queue: self.queue.as_deref(),
            version: self.version.as_deref(),
            priority_seconds: self.priority,
            scheduled_at: self.at.clone().or(after.map_err(Failure::usage)?),
            execution_timeout: self.execution_timeout.map(Span::seconds),
            cancel_grace: self.cancel_grace.map(Span::seconds),
        };
        let path = ["workflows", self.kind.as_str(), "trigger"];
        let started: Answer<Started> = session.client.post(&path, &body).await?;
        let id = &started.value.workflow_execution_id;
        if started.value.idempotency_key_used && !started.value.idempotency_key_new {
            note("The execution exists already: it was started with this key.");
        }
        if self.wait {
            note(&format!("Started {} as {id}.", self.kind));
            return wait::until_end(session, id, self.timeout).await;
        }
        if session.out.is_json() {
            return session.out.json(&started.sent);
        }
        session.out.line(id)?;
        note(&format!("Follow it with: flovyn workflow show --follow {id}"));
        Ok(())
    }
}
