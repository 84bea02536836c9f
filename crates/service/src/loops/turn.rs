//! Turns: jobs that only one of several processes on a database needs to do at a time.

use std::time::Duration;

use flovyn_engine::{Code, Refusal};

use crate::service::Service;

/// How often a process asks for the turn in each period, so that the turn of a process that died is taken soon.
const LOOKS: u32 = 10;

/// How long to sleep before asking again for a turn that comes once in `every`.
pub(super) fn look_every(service: &Service, every: Duration) -> Duration {
    // A process that is alone on its database has every turn.
    if service.store().is_shared() { every / LOOKS } else { every }
}

/// Whether it is this process's turn now.
pub(super) async fn take(service: &Service, name: &str, every: Duration) -> Result<bool, Refusal> {
    let every_ms = i64::try_from(every.as_millis()).unwrap_or(i64::MAX);
    let taken = service.store().turn_take(name, every_ms).await;
    taken.map_err(|error| Refusal::new(Code::StoreUnavailable, error.to_string()))
}
