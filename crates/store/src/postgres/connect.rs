//! Opening connections: what the server must be, and the settings every session has.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres::tls::NoTlsStream;
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage, Socket};

use crate::port::{StoreError, StoreResult};
use crate::postgres::connection::{Backend, Connection, Traffic};
use crate::postgres::error;

/// `pg_terminate_backend` that waits, which settles lost commits, came with 14.
const SERVER_VERSION_MIN: i32 = 140_000;

/// A process that stands still in a transaction keeps others from its rows no longer than this.
const IDLE_IN_TRANSACTION_MS: u32 = 10_000;
/// A little longer, so that whoever waits for such a process outlasts it.
const LOCK_WAIT_MS: u32 = 15_000;
const STATEMENT_MS: u32 = 30_000;
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// A peer that has vanished without a word is noticed after about this time.
const SILENCE_LIMIT: Duration = Duration::from_secs(30);

pub(super) type RawConnection = tokio_postgres::Connection<Socket, NoTlsStream>;

/// What a session is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The same few statements again and again: planned once.
    Batches,
    /// Searches of all kinds: planned for what they search.
    Reads,
    /// Migrations may take as long as they need.
    Migration,
    /// Hints: nothing is lost with them, so their commits need not wait for the disk.
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
            .map_err(|error| StoreError::Refused(format!("the PostgreSQL URL cannot be read: {error}")))?;
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

    /// A connection for work, checked.
    pub(super) async fn connect(&self, purpose: Purpose) -> StoreResult<Connection> {
        let (client, connection) = self.open(purpose).await?;
        spawn(connection);
        let backend = check(&client).await?;
        Ok(Connection::new(client, backend, Arc::clone(&self.traffic)))
    }

    /// A bare client, for migrations and hints.
    pub(super) async fn open(&self, purpose: Purpose) -> StoreResult<(Client, RawConnection)> {
        let mut config = self.config.clone();
        let own = config.get_options().unwrap_or_default();
        let options = format!("{own} {}", settings(purpose));
        config.options(options.trim_start());
        config.connect(NoTls).await.map_err(|error| error::unavailable(&error, "connect to PostgreSQL"))
    }
}

/// Drives a connection until its client is dropped or the server goes away.
pub(super) fn spawn(connection: RawConnection) {
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(error = %error::describe(&error, "connection"), "a PostgreSQL connection ended");
        }
    });
}

/// Sent with the connection request: no round trip. They outrank what is set for the role or the database.
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
        // Every statement is short: compiling it would take longer than running it.
        "jit=off".to_owned(),
        format!("plan_cache_mode=force_{plans}_plan"),
    ];
    // Every statement goes from a few keys to their rows by an index. The planner knows that too, unless it first
    // sees a table while that is empty: the plan it then keeps would scan whole tables until the next ANALYZE.
    for node in ["seqscan", "hashjoin", "mergejoin"] {
        settings.push(format!("enable_{node}=off"));
    }
    settings.iter().map(|setting| format!("-c {setting}")).collect::<Vec<_>>().join(" ")
}

/// Checks the server and the setting on which durability rests, and learns who serves us.
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
    text.parse().map_err(|_| StoreError::Unavailable(format!("PostgreSQL greeted us with '{text}'")))
}
