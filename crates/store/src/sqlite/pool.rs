//! A few connections that only read. Each read runs on a blocking thread in a short transaction of its own, so it
//! sees one state of the database and holds no checkpoint up.

use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::connect::open_reader;
use super::error::store_error;
use crate::port::{StoreError, StoreResult};

pub(super) struct Readers {
    /// One per connection.
    permits: Arc<Semaphore>,
    pool: Arc<Pool>,
}

struct Pool {
    idle: Mutex<Vec<Connection>>,
    /// Reads may outlive the store that began them: the file stays locked until the last connection is closed. Whoever
    /// only reads holds no lock.
    _lock: Option<Arc<File>>,
}

impl Readers {
    pub(super) fn open(path: &Path, count: usize, lock: Option<Arc<File>>) -> StoreResult<Self> {
        let count = count.max(1);
        let idle = (0..count).map(|_| open_reader(path)).collect::<StoreResult<Vec<_>>>()?;
        let pool = Arc::new(Pool { idle: Mutex::new(idle), _lock: lock });
        Ok(Self { permits: Arc::new(Semaphore::new(count)), pool })
    }

    pub(super) async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let stopped = || StoreError::Unavailable("the readers have stopped".into());
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| stopped())?;
        let pool = Arc::clone(&self.pool);
        let work = move || {
            let lease = Lease::take(pool).ok_or_else(stopped)?;
            let result = lease.run(query);
            drop(lease);
            drop(permit);
            result
        };
        let done = tokio::task::spawn_blocking(work).await;
        done.map_err(|error| StoreError::Refused(format!("a read panicked: {error}")))?
    }
}

/// A connection that goes back when the read ends, even by a panic.
struct Lease {
    conn: Option<Connection>,
    pool: Arc<Pool>,
}

impl Lease {
    fn take(pool: Arc<Pool>) -> Option<Self> {
        let conn = pool.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        Some(Self { conn: Some(conn), pool })
    }

    fn run<T>(&self, query: impl FnOnce(&Connection) -> StoreResult<T>) -> StoreResult<T> {
        let conn = self.conn.as_ref().ok_or_else(|| StoreError::Unavailable("no connection".into()))?;
        // Ends when dropped; there is nothing to commit.
        let transaction = conn.unchecked_transaction().map_err(store_error)?;
        query(&transaction)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut idle = self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.extend(self.conn.take());
    }
}
