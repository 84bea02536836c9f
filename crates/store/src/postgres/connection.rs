//! One connection: prepared statements, and rounds of statements that cost one round trip each.

use std::borrow::Cow;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use futures::future::{BoxFuture, MaybeDone, maybe_done};
use rustc_hash::FxHashMap;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row, Statement};

use crate::port::{StoreError, StoreResult};
use crate::postgres::codec::Parameter;
use crate::postgres::error;
use crate::postgres::sql::{TableSql, Verb};

/// Longer than any statement may take on the server. If there is no answer by then, the server has gone.
const ROUND_LIMIT: Duration = Duration::from_secs(40);

/// Listings have many combinations of filters. Beyond this number, the prepared statements with free text are dropped.
const TEXTS_LIMIT: usize = 200;

/// The SQL of a request.
#[derive(Debug, Clone)]
pub(super) enum Sql {
    /// `BEGIN` and similar statements that are not worth preparing.
    Plain(&'static str),
    Table(TableSql),
    Text(Cow<'static, str>),
}

impl Sql {
    fn is_prepared(&self) -> bool {
        !matches!(self, Self::Plain(_))
    }

    fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Plain(text) => Cow::Borrowed(*text),
            Self::Table(sql) => Cow::Owned((sql.text)()),
            Self::Text(text) => Cow::Borrowed(&**text),
        }
    }

    /// The name for error messages.
    fn name(&self) -> String {
        match self {
            Self::Plain(text) => (*text).to_owned(),
            Self::Table(sql) => format!("{} {}", sql.verb.name(), sql.table),
            Self::Text(_) => "read".to_owned(),
        }
    }
}

#[derive(Debug)]
pub(super) struct Request<'a> {
    pub(super) sql: Sql,
    pub(super) parameters: Vec<Parameter<'a>>,
}

impl<'a> Request<'a> {
    pub(super) fn plain(text: &'static str) -> Self {
        Self { sql: Sql::Plain(text), parameters: Vec::new() }
    }

    pub(super) fn text(text: impl Into<Cow<'static, str>>, parameters: Vec<Parameter<'a>>) -> Self {
        Self { sql: Sql::Text(text.into()), parameters }
    }

    pub(super) fn table(sql: TableSql, parameters: Vec<Parameter<'a>>) -> Self {
        Self { sql: Sql::Table(sql), parameters }
    }

    pub(super) fn name(&self) -> String {
        self.sql.name()
    }
}

/// Counters of what was sent over the wire, for tests and metrics.
#[derive(Debug, Default)]
pub struct Traffic {
    round_trips: AtomicU64,
    statements: AtomicU64,
}

impl Traffic {
    /// The number of waits for answers. A round of several statements counts once.
    pub fn round_trips(&self) -> u64 {
        self.round_trips.load(Ordering::Relaxed)
    }

    pub fn statements(&self) -> u64 {
        self.statements.load(Ordering::Relaxed)
    }

    fn count(&self, statements: usize) {
        self.round_trips.fetch_add(1, Ordering::Relaxed);
        self.statements.fetch_add(statements as u64, Ordering::Relaxed);
    }
}

/// The server process behind a connection. Process ids are reused, but a process id together with its start time is
/// unique.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Backend {
    pub(super) pid: i32,
    pub(super) started_us: i64,
}

#[derive(Default)]
struct Statements {
    tables: FxHashMap<(&'static str, Verb), Statement>,
    texts: FxHashMap<Cow<'static, str>, Statement>,
}

impl Statements {
    fn get(&self, sql: &Sql) -> Option<Statement> {
        match sql {
            Sql::Plain(_) => None,
            Sql::Table(sql) => self.tables.get(&(sql.table, sql.verb)).cloned(),
            Sql::Text(text) => self.texts.get(text).cloned(),
        }
    }

    fn put(&mut self, sql: &Sql, statement: Statement) {
        match sql {
            Sql::Plain(_) => {}
            Sql::Table(sql) => {
                self.tables.insert((sql.table, sql.verb), statement);
            }
            Sql::Text(text) => {
                if self.texts.len() >= TEXTS_LIMIT {
                    self.texts.clear();
                }
                self.texts.insert(text.clone(), statement);
            }
        }
    }
}

pub(super) type Answer = Result<Vec<Row>, Error>;
pub(super) type Pending<'a> = MaybeDone<BoxFuture<'a, Answer>>;

pub(super) struct Connection {
    client: Client,
    pub(super) backend: Backend,
    statements: Mutex<Statements>,
    traffic: Arc<Traffic>,
}

impl Connection {
    pub(super) fn new(client: Client, backend: Backend, traffic: Arc<Traffic>) -> Self {
        Self { client, backend, statements: Mutex::default(), traffic }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Sends all requests and waits for all answers: one round trip, and another one if the connection has to prepare
    /// new statements. Fails with the error of the first request that failed.
    pub(super) async fn round(&self, requests: &[Request<'_>]) -> StoreResult<Vec<Vec<Row>>> {
        bounded(self.round_unbounded(requests)).await?
    }

    async fn round_unbounded(&self, requests: &[Request<'_>]) -> StoreResult<Vec<Vec<Row>>> {
        let answers = in_order(self.prepared(requests).await?).await;
        let named = answers.into_iter().zip(requests);
        named
            .map(|(answer, request)| answer.map_err(|error| error::from_driver(&error, &request.name())))
            .collect()
    }

    pub(super) async fn one(&self, request: Request<'_>) -> StoreResult<Vec<Row>> {
        let mut answers = self.round(&[request]).await?;
        Ok(answers.pop().unwrap_or_default())
    }

    /// Requests that are ready to be sent. Each is sent when it is first polled.
    pub(super) async fn prepared<'a>(&'a self, requests: &'a [Request<'_>]) -> StoreResult<Vec<Pending<'a>>> {
        let statements = self.statements(requests).await?;
        self.traffic.count(requests.len());
        let ready = requests.iter().zip(statements);
        Ok(ready.map(|(request, statement)| maybe_done(self.send(request, statement))).collect())
    }

    /// Sent when first polled. Without a statement, only the text is sent.
    pub(super) fn send<'a>(
        &'a self,
        request: &'a Request<'_>,
        statement: Option<Statement>,
    ) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let Some(statement) = statement else {
                self.client.batch_execute(&request.sql.text()).await?;
                return Ok(Vec::new());
            };
            let parameters: Vec<&(dyn ToSql + Sync)> =
                request.parameters.iter().map(|parameter| parameter as &(dyn ToSql + Sync)).collect();
            self.client.query(&statement, &parameters).await
        })
    }

    /// The prepared statement of each request that is worth preparing. Missing statements are prepared together.
    async fn statements(&self, requests: &[Request<'_>]) -> StoreResult<Vec<Option<Statement>>> {
        let mut found: Vec<Option<Statement>> = {
            let known = self.known();
            requests.iter().map(|request| known.get(&request.sql)).collect()
        };
        let is_missing = |index: &usize| found[*index].is_none() && requests[*index].sql.is_prepared();
        let missing: Vec<usize> = (0..requests.len()).filter(is_missing).collect();
        if missing.is_empty() {
            return Ok(found);
        }
        self.traffic.count(missing.len());
        let texts: Vec<Cow<'_, str>> = missing.iter().map(|index| requests[*index].sql.text()).collect();
        let prepares = texts.iter().map(|text| maybe_done(Box::pin(self.client.prepare(text)))).collect();
        for (prepared, index) in in_order(prepares).await.into_iter().zip(missing) {
            let request = &requests[index];
            let statement = prepared.map_err(|error| error::from_driver(&error, &request.name()))?;
            self.known().put(&request.sql, statement.clone());
            found[index] = Some(statement);
        }
        Ok(found)
    }

    fn known(&self) -> MutexGuard<'_, Statements> {
        self.statements.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("backend", &self.backend).finish_non_exhaustive()
    }
}

pub(super) async fn bounded<T>(work: impl Future<Output = T>) -> StoreResult<T> {
    let silent = |_| StoreError::Unavailable(format!("no answer within {} s", ROUND_LIMIT.as_secs()));
    tokio::time::timeout(ROUND_LIMIT, work).await.map_err(silent)
}

/// Waits for all. A request is sent when it is first polled, and they are polled in order. So this is their order on
/// the wire, which correctness depends on (locks before reads, COMMIT last).
pub(super) async fn in_order<F: Future + Unpin>(mut pending: Vec<MaybeDone<F>>) -> Vec<F::Output> {
    poll_fn(|context| {
        let mut all_done = true;
        for request in &mut pending {
            all_done &= Pin::new(request).poll(context).is_ready();
        }
        if all_done { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    let take = |mut request: MaybeDone<F>| Pin::new(&mut request).take_output();
    pending.into_iter().map(|request| take(request).expect("every request is done")).collect()
}
