//! Finds out whether a batch was committed if its COMMIT was not answered.
//!
//! Reading is not enough, because the COMMIT may still arrive. So the old server process is terminated, and the
//! batch's id is inserted as a tombstone. The batch itself inserts the same id. The row that exists then is the final
//! outcome, because the other row can never be inserted.

use std::time::{Duration, Instant};

use uuid::Uuid;

use crate::port::{StoreError, StoreResult};
use crate::postgres::backoff::Backoff;
use crate::postgres::codec;
use crate::postgres::connect::{Connector, Purpose};
use crate::postgres::connection::{Backend, Request};
use crate::value::Value;

const LIMIT: Duration = Duration::from_secs(30);
const TERMINATE_WAIT_MS: i64 = 5_000;

/// Waits until the server process has ended.
const TERMINATE: &str = "SELECT pg_terminate_backend(pid, $3) FROM pg_stat_activity \
                         WHERE pid = $1::bigint AND (extract(epoch FROM backend_start) * 1000000)::bigint = $2";

/// Waits for a transaction that has inserted the same id and has not ended.
const TOMBSTONE: &str = "INSERT INTO batch (id, committed_ms, written) \
                         VALUES ($1, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, 0) \
                         ON CONFLICT DO NOTHING";

/// The number of inserted rows is not used, because our own tombstone may exist already, if only its reply was lost.
const WRITTEN: &str = "SELECT written FROM batch WHERE id = $1";

/// Returns `Ok` if the batch is committed, and `Conflict` if it is not and never will be.
pub(super) async fn settle(
    connector: &Connector,
    backend: Backend,
    batch_id: Uuid,
    why: &str,
) -> StoreResult<()> {
    tracing::warn!(%batch_id, why, "the outcome of a commit is unknown; checking whether the batch was written");
    let deadline = Instant::now() + LIMIT;
    let mut backoff = Backoff::default();
    loop {
        let problem = match is_committed(connector, backend, batch_id).await {
            Ok(true) => return Ok(()),
            Ok(false) => {
                return Err(StoreError::Conflict(format!(
                    "the connection was lost before the commit: {why}"
                )));
            }
            Err(problem) => problem,
        };
        let delay = backoff.next_delay();
        if Instant::now() + delay > deadline {
            return Err(StoreError::OutcomeUnknown(format!("{why}; and then: {problem}")));
        }
        tokio::time::sleep(delay).await;
    }
}

async fn is_committed(connector: &Connector, backend: Backend, batch_id: Uuid) -> StoreResult<bool> {
    let connection = connector.connect(Purpose::Reads).await?;
    let identity =
        [Value::Int(backend.pid.into()), Value::Int(backend.started_us), Value::Int(TERMINATE_WAIT_MS)];
    let terminate = Request::text(TERMINATE, identity.map(Into::into).into());
    let id = || vec![Value::Uuid(batch_id).into()];
    // These run one after the other, each in a separate transaction.
    connection.one(terminate).await?;
    connection.one(Request::text(TOMBSTONE, id())).await?;
    let rows = connection.one(Request::text(WRITTEN, id())).await?;
    let row =
        rows.first().ok_or_else(|| StoreError::Unavailable("the batch's id has disappeared".to_owned()))?;
    Ok(codec::get::<i16>(row, 0)? == 1)
}
