//! Checks a database against the promises, page by page, and repairs orphans. The engine's invariants decide whether
//! something is wrong, and the engine's rules decide how to repair it.
//!
//! The check needs no server and starts none. The database may be in use.

use std::sync::{Arc, Mutex, PoisonError};

use flovyn_engine::invariants::{self, Part, Promised, Violation};
use flovyn_engine::reply::Mended;
use flovyn_engine::request::Mend;
use flovyn_engine::{Batch, Decided, Limits, Reply, Request};
use flovyn_store::{Inspect, Store, StoreError, StoreResult, TransactOptions};
use uuid::Uuid;

/// Rows of a part that are read in one page.
const PAGE_ROWS: usize = 200;

/// How often a repair is tried again when another writer changed a row first.
const MEND_TRIES: usize = 5;

/// Checks a database, one page after the other.
pub struct Doctor {
    database: Arc<dyn Inspect>,
    next: Option<Part>,
    page_rows: usize,
}

impl std::fmt::Debug for Doctor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Doctor").field("next", &self.next).finish_non_exhaustive()
    }
}

/// The rows that were checked, and the problems found.
#[derive(Debug)]
pub struct Examined {
    /// The part's name, such as `executions`.
    pub part: &'static str,
    pub rows: usize,
    pub findings: Vec<Violation>,
}

impl Doctor {
    pub fn new(database: Arc<dyn Inspect>) -> Self {
        Self::with_page_rows(database, PAGE_ROWS)
    }

    /// Like [`Self::new`], with another page size.
    pub fn with_page_rows(database: Arc<dyn Inspect>, page_rows: usize) -> Self {
        Self { database, next: Some(Part::FIRST), page_rows: page_rows.max(1) }
    }

    /// Checks the next page. `None`: the whole database has been checked.
    ///
    /// # Errors
    /// Fails if the database cannot be read.
    pub async fn next(&mut self) -> StoreResult<Option<Examined>> {
        let Some(part) = self.next.take() else { return Ok(None) };
        let mut page = self.database.inspect_page(&part, self.page_rows).await?;
        let mut findings = invariants::check_page(&page);
        if !findings.is_empty() {
            // The page is read a second time. A finding that has gone was work in progress.
            page = self.database.inspect_page(&part, self.page_rows).await?;
            let again = invariants::check_page(&page);
            findings = again
                .into_iter()
                .filter(|found| findings.iter().any(|first| is_same(first, found)))
                .collect();
        }
        self.next = page.next.clone();
        Ok(Some(Examined { part: part.name(), rows: page.rows(&part), findings }))
    }
}

/// Whether both findings are about the same problem. Their messages may differ, because the subject may have changed.
fn is_same(first: &Violation, second: &Violation) -> bool {
    (first.promise, first.tenant_id, &first.subject) == (second.promise, second.tenant_id, &second.subject)
}

/// Whether a finding can be repaired safely. Only an orphan can: it receives a new cause for its next step.
pub fn can_mend(finding: &Violation) -> bool {
    finding.promise == Promised::P6
}

/// Repairs a finding in its own transaction, and returns the repairs. The list is empty if the problem has gone
/// meanwhile.
///
/// # Errors
/// Fails if the database does not accept the change.
pub async fn mend(store: &dyn Store, limits: &Arc<Limits>, finding: &Violation) -> StoreResult<Vec<Mended>> {
    let request = Mend { subject: finding.subject.clone() };
    let request = Arc::new(Request::new(finding.tenant_id, Uuid::new_v4().as_u64_pair().0, request));
    let mut tries = 0;
    loop {
        tries += 1;
        let batch = Arc::new(Mutex::new(Batch::new(vec![Arc::clone(&request)], Arc::clone(limits))));
        let options = TransactOptions { batch_id: Uuid::new_v4(), wait_for_locks: true };
        match store.transact(batch.clone(), options).await {
            Err(StoreError::Conflict(_)) if tries < MEND_TRIES => continue,
            done => done?,
        }
        let decided = batch.lock().unwrap_or_else(PoisonError::into_inner).decided().first().cloned();
        return match decided {
            Some(Decided::Reply(Reply::Mended(done))) => Ok(done),
            other => Err(StoreError::Refused(format!("the repair was not made: {other:?}"))),
        };
    }
}
