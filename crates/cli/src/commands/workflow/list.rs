//! `flovyn workflow list`

use clap::{Args, ValueEnum};

use crate::client::answers::{Execution, Executions};
use crate::commands::list::{Listing, Page};
use crate::exit::Failure;
use crate::input;
use crate::remote::Session;
use crate::view::status_colour;
use crate::view::table::{Cell, cut, whole};
use crate::view::words::{age, duration};

#[derive(Args)]
#[command(after_help = "\
Examples:
  flovyn workflow list
  flovyn workflow list --status failed --since 2h
  flovyn workflow list --kind order --label customer=ada --limit 500
  flovyn workflow list --key cart-ada
  flovyn workflow list --status waiting -o json | jq -r '.[].id'")]
pub(crate) struct List {
    /// Only executions with this status.
    #[arg(long, value_enum, ignore_case = true)]
    status: Option<Status>,
    /// Only executions of this kind.
    #[arg(long)]
    kind: Option<String>,
    /// Only executions of this queue.
    #[arg(long)]
    queue: Option<String>,
    /// Only executions with this label.
    #[arg(long, value_name = "NAME=VALUE", value_parser = input::label)]
    label: Option<(String, String)>,
    /// Only executions with this workflow key or idempotency key.
    #[arg(long, value_parser = input::name)]
    key: Option<String>,
    /// Only children of this execution.
    #[arg(long, value_name = "ID")]
    parent: Option<String>,
    /// Only executions started after this time: a time, or a duration before now, such as 2h.
    #[arg(long, value_name = "TIME", value_parser = input::past_moment)]
    since: Option<String>,
    /// Only executions started before this time.
    #[arg(long, value_name = "TIME", value_parser = input::past_moment)]
    before: Option<String>,
    /// Maximum number of executions.
    #[arg(long, value_name = "NUMBER", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Status {
    Pending,
    Running,
    Waiting,
    Completed,
    Failed,
    Cancelled,
}

impl List {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let columns =
            [whole("ID"), cut("KIND"), whole("STATUS"), cut("QUEUE"), whole("STARTED"), whole("TOOK")];
        let none = "No executions. Start one with: flovyn workflow start KIND";
        let page = |limit, cursor| self.page(session, limit, cursor);
        Listing::new(session, columns)
            .run(self.limit, none, |one| row(one, session.client.now_ms()), page)
            .await
    }

    async fn page(
        &self,
        session: &Session,
        limit: String,
        cursor: Option<String>,
    ) -> Result<Page<Execution, String>, Failure> {
        let query = [
            ("status", self.status.map(|status| format!("{status:?}").to_uppercase())),
            ("kind", self.kind.clone()),
            ("taskQueue", self.queue.clone()),
            ("label", self.label.as_ref().map(|(name, value)| format!("{name}:{value}"))),
            ("key", self.key.clone()),
            ("parentId", self.parent.clone()),
            ("createdAfter", self.since.clone()),
            ("createdBefore", self.before.clone()),
            ("limit", Some(limit)),
            ("cursor", cursor),
        ];
        let page: Executions = session.client.get_with(&["workflow-executions"], &query).await?;
        Ok((page.executions, page.next_cursor))
    }
}

fn row(execution: &Execution, now_ms: i64) -> [Cell; 6] {
    let took = execution.finished_ms.map(|end| duration(end - execution.created_ms)).unwrap_or_default();
    [
        Cell::from(&execution.id),
        Cell::from(&execution.kind),
        Cell::painted(&execution.status, status_colour(&execution.status)),
        Cell::from(&execution.task_queue),
        Cell::from(age(execution.created_ms, now_ms)),
        Cell::from(took),
    ]
}
