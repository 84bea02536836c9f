//! Opens connections: checks the server and sets the session's settings.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres::tls::NoTlsStream;
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage, Socket};

use crate::port::{StoreError, StoreResult};
use crate::postgres::connection::{Backend, Connection, Traffic};
use crate::postgres::error;

/// Version 14 introduced the waiting `pg_terminate_backend`, which is needed to settle lost commits.
const SERVER_VERSION_MIN: i32 = 140_000;

/// A process that hangs in a transaction blocks other processes no longer than this.
const IDLE_IN_TRANSACTION_MS: u32 = 10_000;
/// Slightly longer, so that a process that waits for a hanging one gets the lock in time.
const LOCK_WAIT_MS: u32 = 15_000;
const STATEMENT_MS: u32 = 30_000;
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// A peer that disappeared without closing the connection is detected after about this time.
const SILENCE_LIMIT: Duration = Duration::from_secs(30);

pub(super) type RawConnection = tokio_postgres::Connection<Socket, NoTlsStream>;

/// The use of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Few statements, repeated often: planned once.
    Batches,
    /// All kinds of searches: planned for the values of each search.
    Reads,
    /// Migrations, which have no time limit.
    Migration,
    /// Hints. They may be lost, so their commits need not wait for the disk.
    Hints,
}

#[derive(Debug)]
pub(super) struct Connector {
    config: Config,
    pub(super) traffic: Arc<Traffic>,
}

impl Connector {
    pub(super) fn new(url: &str) -> StoreResult<Self> {
        let mut config = Config::from_str(url)
            .map_err(|error| StoreError::Refused(format!("cannot parse the PostgreSQL URL: {error}")))?;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_LIMIT);
        }
        config
            .application_name("flovyn")
            .target_session_attrs(TargetSessionAttrs::ReadWrite)
            .keepalives(true)
            .keepalives_idle(SILENCE_LIMIT / 2)
            .keepalives_interval(SILENCE_LIMIT / 6)
            .keepalives_retries(3)
            .tcp_user_timeout(SILENCE_LIMIT);
        Ok(Self { config, traffic: Arc::default() })
    }

    /// Opens a connection for batches or reads, and checks it.
    pub(super) async fn connect(&self, purpose: Purpose) -> StoreResult<Connection> {
        let (client, connection) = self.open(purpose).await?;
        spawn(connection);
        let backend = check(&client).await?;
        Ok(Connection::new(client, backend, Arc::clone(&self.traffic)))
    }

    /// Opens a bare client, for migrations and hints.
    pub(super) async fn open(&self, purpose: Purpose) -> StoreResult<(Client, RawConnection)> {
        let mut config = self.config.clone();
        let own = config.get_options().unwrap_or_default();
        let options = format!("{own} {}", settings(purpose));
        config.options(options.trim_start());
        config.connect(NoTls).await.map_err(|error| error::unavailable(&error, "connect to PostgreSQL"))
    }
}

/// Drives a connection until its client is dropped or the server closes it.
pub(super) fn spawn(connection: RawConnection) {
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(error = %error::describe(&error, "connection"), "a PostgreSQL connection ended");
        }
    });
}

/// Settings that are sent with the connection request, so that they cost no round trip. They override the settings of
/// the role and the database.
fn settings(purpose: Purpose) -> String {
    let (statement_ms, lock_ms) = match purpose {
        Purpose::Migration => (0, 0),
        Purpose::Batches | Purpose::Reads | Purpose::Hints => (STATEMENT_MS, LOCK_WAIT_MS),
    };
    let plans = if purpose == Purpose::Batches { "generic" } else { "custom" };
    let synchronous = if purpose == Purpose::Hints { "off" } else { "on" };
    let mut settings = vec![
        format!("synchronous_commit={synchronous}"),
        "timezone=UTC".to_owned(),
        "default_transaction_isolation=read\\ committed".to_owned(),
        format!("idle_in_transaction_session_timeout={IDLE_IN_TRANSACTION_MS}"),
        format!("statement_timeout={statement_ms}"),
        format!("lock_timeout={lock_ms}"),
        // All statements are short, so compiling them would take longer than running them.
        "jit=off".to_owned(),
        format!("plan_cache_mode=force_{plans}_plan"),
    ];
    // Every statement goes from a few keys to their rows by an index. But if the planner first sees a table while it
    // is empty, it keeps a plan that scans the whole table until the next ANALYZE.
    for node in ["seqscan", "hashjoin", "mergejoin"] {
        settings.push(format!("enable_{node}=off"));
    }
    settings.iter().map(|setting| format!("-c {setting}")).collect::<Vec<_>>().join(" ")
}

/// Checks the server and the setting that durability depends on. Returns the identity of the server process.
async fn check(client: &Client) -> StoreResult<Backend> {
    let facts = client
        .simple_query(
            "SELECT current_setting('server_version_num'), current_setting('server_version'), \
             current_setting('synchronous_commit'), pid, (extract(epoch FROM backend_start) * 1000000)::bigint \
             FROM pg_stat_activity WHERE pid = pg_backend_pid()",
        )
        .await
        .map_err(|error| error::unavailable(&error, "greet PostgreSQL"))?;
    let row = facts.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let column = |index: usize| row.and_then(|row| row.get(index)).unwrap_or_default();
    if number::<i32>(column(0))? < SERVER_VERSION_MIN {
        let found = column(1);
        return Err(StoreError::Fatal(format!(
            "PostgreSQL {found} is too old: Flovyn needs 14 or newer. Upgrade the server, or use the embedded \
             database"
        )));
    }
    if column(2) != "on" {
        let found = column(2);
        return Err(StoreError::Fatal(format!(
            "synchronous_commit is '{found}' although this session asked for 'on': an acknowledged commit could \
             be lost. Connect to PostgreSQL directly, not through a pooler that drops session settings"
        )));
    }
    Ok(Backend { pid: number(column(3))?, started_us: number(column(4))? })
}

fn number<N: FromStr>(text: &str) -> StoreResult<N> {
    text.parse()
        .map_err(|_| StoreError::Unavailable(format!("PostgreSQL answered '{text}' instead of a number")))
}
