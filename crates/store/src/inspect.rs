//! Reads for the checker. The database may be in use: each page has a bounded size and shows one moment.

use async_trait::async_trait;
use flovyn_engine::invariants::{InspectPage, Part};
use flovyn_engine::snapshot::Snapshot;
use flovyn_engine::state::Execution;
use uuid::Uuid;

use crate::port::StoreResult;

/// The most events in one page, unless a single execution has more.
const EVENTS: i64 = 20_000;

/// A database that can be checked. A check only reads.
#[async_trait]
pub trait Inspect: Send + Sync {
    /// Up to `limit` rows of the part, with the rows that belong to them and the rows needed to check them.
    async fn inspect_page(&self, part: &Part, limit: usize) -> StoreResult<InspectPage>;
}

/// A tenant and the id of an owner. Rows that belong to executions are read by ranges of these, so that rows whose
/// execution is missing are read too.
pub(crate) type Owner = (Uuid, Uuid);

/// The range of owners that one page of executions covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) after: Owner,
    pub(crate) up_to: Owner,
}

/// Keeps as many executions as the limit of events allows, and returns the range that the page covers. The last
/// page covers everything after its first key.
pub(crate) fn cut(after: Option<Owner>, executions: &mut Vec<Execution>, limit: usize) -> Range {
    let mut complete = executions.len() < limit;
    let mut events = 0_i64;
    let within = |row: &Execution| {
        events = events.saturating_add(row.last_sequence);
        events <= EVENTS
    };
    let kept = executions.iter().map(within).take_while(|within| *within).count().max(1);
    if kept < executions.len() {
        executions.truncate(kept);
        complete = false;
    }
    let last = executions.last().map(Execution::key).filter(|_| !complete);
    Range {
        after: after.unwrap_or((Uuid::nil(), Uuid::nil())),
        up_to: last.unwrap_or((Uuid::max(), Uuid::max())),
    }
}

/// Where the next page begins. `complete`: this page was the last of its part. `None` after the last part.
pub(crate) fn next(part: &Part, read: &Snapshot, complete: bool) -> Option<Part> {
    if complete { part.following() } else { part.after(read).or_else(|| part.following()) }
}

#[cfg(test)]
mod tests {
    use flovyn_engine::snapshot::Snapshot;

    use super::*;

    #[test]
    fn the_last_page_reaches_to_the_end() {
        let range = cut(None, &mut Vec::new(), 10);
        assert_eq!(range.up_to, (Uuid::max(), Uuid::max()));
        assert_eq!(next(&Part::Executions(None), &Snapshot::default(), false), Some(Part::Tasks(None)));
    }
}
