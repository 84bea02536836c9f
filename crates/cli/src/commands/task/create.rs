//! `flovyn task create`

use clap::Args;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::client::answers::{Answer, Task};
use crate::exit::Failure;
use crate::input::{self, Span};
use crate::remote::Session;
use crate::view::note;

#[derive(Args)]
#[command(after_help = "\
Examples:
  flovyn task create send-email --input '{\"to\": \"ada@example.com\", \"subject\": \"Hello\"}'
  flovyn task create send-email --input @mail.json --in 10m --max-retries 5
  flovyn task create report --key report-2027-01 --queue slow --timeout 1h")]
pub(crate) struct Create {
    /// The task's type, as registered by workers.
    #[arg(value_parser = input::name)]
    task_type: String,
    /// Input as JSON, @FILE, or - for stdin.
    #[arg(long, short, value_name = "JSON", value_parser = input::json)]
    input: Option<Box<RawValue>>,
    /// Idempotency key: a second create with the same key returns the first task.
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Lifetime of the key. Default: 24 hours.
    #[arg(long, value_name = "DURATION", requires = "key")]
    key_ttl: Option<Span>,
    /// The queue of the task. Default: `default`.
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
    /// Maximum number of attempts. Default: 3.
    #[arg(long, value_name = "NUMBER")]
    max_retries: Option<u32>,
    /// Shift in the queue by this many seconds; negative runs sooner.
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    priority: Option<i64>,
    /// Start no earlier than this time, such as 2027-01-31T09:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = input::moment)]
    at: Option<String>,
    /// Start after this duration, such as 10m.
    #[arg(long = "in", value_name = "DURATION", conflicts_with = "at")]
    after: Option<Span>,
    /// Time limit of one attempt.
    #[arg(long, value_name = "DURATION")]
    timeout: Option<Span>,
    /// Time limit of all attempts together, delays included.
    #[arg(long, value_name = "DURATION")]
    total_timeout: Option<Span>,
    /// Maximum time between heartbeats of an attempt.
    #[arg(long, value_name = "DURATION")]
    heartbeat_timeout: Option<Span>,
}

#[derive(Serialize)]
struct Body<'a> {
    task_type: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key_ttl: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_retries: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority_seconds: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scheduled_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_timeout_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    heartbeat_timeout_ms: Option<i64>,
}

impl Create {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let ms = |span: Option<Span>| span.map(|Span(ms)| ms);
        let after = self.after.map(|Span(ms)| input::from_now(ms)).transpose();
        let body = Body {
            task_type: &self.task_type,
            input: self.input.as_deref(),
            idempotency_key: self.key.as_deref(),
            idempotency_key_ttl: self.key_ttl.map(Span::seconds),
            queue: self.queue.as_deref(),
            max_retries: self.max_retries,
            priority_seconds: self.priority,
            scheduled_at: self.at.clone().or(after.map_err(Failure::usage)?),
            timeout_ms: ms(self.timeout),
            total_timeout_ms: ms(self.total_timeout),
            heartbeat_timeout_ms: ms(self.heartbeat_timeout),
        };
        let task: Answer<Task> = session.client.post(&["tasks"], &body).await?;
        if session.out.is_json() {
            return session.out.json(&task.sent);
        }
        let id = &task.value.id;
        session.out.line(id)?;
        note(&format!("Follow it with: flovyn task show --follow {id}"));
        Ok(())
    }
}
