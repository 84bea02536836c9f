//! Waiting for an execution to finish: held here, so that nobody has to ask again and again.

use std::time::Duration;

use flovyn_engine::Code;
use flovyn_engine::ids::ExecutionId;
use flovyn_engine::state::Execution;
use tokio::time::Instant;
use tonic::Status;

use super::call::Call;
use super::executions;
use super::status::refuse;

/// On a database that other processes write to, the row is looked at this often: their commits tell us nothing.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The execution once it has finished, or as it is when the time is up.
pub(super) async fn finished(call: &Call, id: ExecutionId, wait: Duration) -> Result<Execution, Status> {
    let until = Instant::now() + wait;
    let service = call.api().service();
    let mut watch = service.watch(call.tenant_id(), id);
    let shared = service.store().is_shared();
    loop {
        let row = executions::find(call, id).await?;
        let now = Instant::now();
        if row.status.is_terminal() || now >= until {
            return Ok(row);
        }
        let look_at = if shared { until.min(now + LOOK_EVERY) } else { until };
        tokio::select! {
            () = watch.changed() => {}
            () = tokio::time::sleep_until(look_at) => {}
            () = call.api().drains() => {
                return Err(refuse(Code::ShuttingDown, "the server is stopping"));
            }
        }
    }
}
