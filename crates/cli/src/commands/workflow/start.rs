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
Exit codes with --wait: 0 when it has completed, 7 when it has failed or was cancelled, 8 when
the time is up.

Examples:
  flovyn workflow start greeting --input '{\"name\": \"Ada\"}'
  flovyn workflow start order --input @order.json --label customer=ada --key order-4711
  flovyn workflow start greeting --input '{\"name\": \"Ada\"}' --wait
  ID=$(flovyn workflow start order --input @order.json)")]
pub(crate) struct Start {
    /// The workflow's kind, as workers know it.
    #[arg(value_parser = input::name)]
    kind: String,
    /// Input as JSON, or @FILE, or - for stdin.
    #[arg(long, short, value_name = "JSON", value_parser = input::json)]
    input: Option<Box<RawValue>>,
    /// Start once per key: the same key again finds the execution instead of starting another.
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// How long the key holds; 24 hours unless given.
    #[arg(long, value_name = "DURATION", requires = "key")]
    key_ttl: Option<Span>,
    /// A label to search by; may be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = input::label)]
    label: Vec<(String, String)>,
    /// The queue whose workers get it; `default` unless given.
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
    /// Only workers with this version of the workflow get it.
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
    /// Moves it in its queue, as if it had come so many seconds later; negative is sooner.
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    priority: Option<i64>,
    /// Not before this time, such as 2027-01-31T09:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = input::moment)]
    at: Option<String>,
    /// Not before so long from now, such as 10m.
    #[arg(long = "in", value_name = "DURATION", conflicts_with = "at")]
    after: Option<Span>,
    /// It fails when it takes longer than this.
    #[arg(long, value_name = "DURATION")]
    execution_timeout: Option<Span>,
    /// How long it may clean up after a cancel request; as long as it makes progress unless given.
    #[arg(long, value_name = "DURATION")]
    cancel_grace: Option<Span>,
    /// Wait until it has ended and print its output, as `flovyn workflow wait` does.
    #[arg(long)]
    wait: bool,
    /// Wait no longer than this. It goes on all the same.
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
            note("It was there already: the key belongs to it.");
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
