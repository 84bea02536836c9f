//! What became of a batch whose COMMIT was not answered.
//!
//! Looking is not enough: the COMMIT may still be on its way. So the old server process is ended, and the batch's
//! id, which the batch itself also inserts, is inserted as a tombstone. Whichever of the two rows is there decides,
//! and for good: the other can never come.

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

/// Waits until the process is gone.
const TERMINATE: &str = "SELECT pg_terminate_backend(pid, $3) FROM pg_stat_activity \
                         WHERE pid = $1::bigint AND (extract(epoch FROM backend_start) * 1000000)::bigint = $2";

/// Waits for a transaction that has inserted the same id and has not ended.
const TOMBSTONE: &str = "INSERT INTO batch (id, committed_ms, written) \
                         VALUES ($1, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, 0) \
                         ON CONFLICT DO NOTHING";

/// Not the number of inserted rows: our own tombstone may be there already, its reply lost as well.
const WRITTEN: &str = "SELECT written FROM batch WHERE id = $1";

/// `Ok`: the batch is committed. `Conflict`: it is not and never will be.
pub(super) async fn settle(
    connector: &Connector,
    backend: Backend,
    batch_id: Uuid,
    why: &str,
) -> StoreResult<()> {
    tracing::warn!(%batch_id, why, "the outcome of a commit is unknown; settling it");
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
    // One after the other, each a transaction of its own.
    connection.one(terminate).await?;
    connection.one(Request::text(TOMBSTONE, id())).await?;
    let rows = connection.one(Request::text(WRITTEN, id())).await?;
    let row = rows.first().ok_or_else(|| StoreError::Unavailable("the batch's id is gone".to_owned()))?;
    Ok(codec::get::<i16>(row, 0)? == 1)
}
