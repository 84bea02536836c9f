//! A few connections that only read. Each read runs on a blocking thread in its own short transaction. So it sees one
//! consistent state of the database and does not delay checkpoints.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::connect::{give_up_pages, open_reader};
use super::error::store_error;
use super::held::Held;
use crate::integrity::FileHealth;
use crate::port::{StoreError, StoreResult};

/// Up to this number of reads between two calls of `rest` count as idle, because the loops read from time to time.
const FEW_READS: usize = 16;

pub(super) struct Readers {
    /// One permit per connection.
    permits: Arc<Semaphore>,
    pool: Arc<Pool>,
}

pub(super) struct Pool {
    path: PathBuf,
    /// Connections that are not in use. The others are in use, or closed until they are needed.
    idle: Mutex<Vec<Connection>>,
    /// The number of reads since the last call of `rest`.
    reads: AtomicUsize,
    /// Whether there were many reads before the last call of `rest`.
    was_busy: AtomicBool,
    /// A read may outlive the store that began it, so the file stays locked until the last connection is closed.
    /// `None` for a reader without a lock.
    _held: Option<Arc<Held>>,
    /// Records damage that a read finds. `None` if no server has to stop because of damage.
    health: Option<Arc<FileHealth>>,
}

impl Readers {
    /// `held` and `health` belong to the store of these readers. `None` if they only read a file that another process
    /// may hold.
    pub(super) fn open(
        path: &Path,
        count: usize,
        held: Option<Arc<Held>>,
        health: Option<Arc<FileHealth>>,
    ) -> StoreResult<Self> {
        let idle = Mutex::new(vec![open_reader(path)?]);
        let pool = Pool {
            path: path.to_owned(),
            idle,
            reads: AtomicUsize::new(0),
            was_busy: AtomicBool::new(false),
            _held: held,
            health,
        };
        Ok(Self { permits: Arc::new(Semaphore::new(count.max(1))), pool: Arc::new(pool) })
    }

    /// For the thread that calls `rest`.
    pub(super) fn pool(&self) -> Weak<Pool> {
        Arc::downgrade(&self.pool)
    }

    pub(super) async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let stopped = || StoreError::Unavailable("the readers have stopped".into());
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| stopped())?;
        let pool = Arc::clone(&self.pool);
        let work = move || {
            let health = pool.health.clone();
            let lease = Lease::take(pool)?;
            let result = lease.run(query);
            drop(lease);
            drop(permit);
            if let (Err(error), Some(health)) = (&result, health) {
                health.report(error);
            }
            result
        };
        let done = tokio::task::spawn_blocking(work).await;
        done.map_err(|error| StoreError::Refused(format!("a read panicked: {error}")))?
    }
}

impl Pool {
    /// Called from time to time. Frees the memory of past reads. Returns `false`, and frees nothing, while there are
    /// many reads.
    pub(super) fn rest(&self) -> bool {
        let is_busy = self.reads.swap(0, Ordering::Relaxed) > FEW_READS;
        let was_busy = self.was_busy.swap(is_busy, Ordering::Relaxed);
        if is_busy {
            return false;
        }
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle.len().min(1);
        let closed = idle.split_off(kept);
        if was_busy {
            // Only after a busy time: the loops use few statements, and would otherwise prepare them again and again.
            idle.iter().for_each(Connection::flush_prepared_statement_cache);
        }
        idle.iter().for_each(give_up_pages);
        drop(idle);
        drop(closed);
        true
    }
}

/// A connection in use. It returns to the pool when the read ends, even if the read panics.
struct Lease {
    conn: Option<Connection>,
    pool: Arc<Pool>,
}

impl Lease {
    fn take(pool: Arc<Pool>) -> StoreResult<Self> {
        let idle = pool.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let conn = idle.map_or_else(|| open_reader(&pool.path), Ok)?;
        pool.reads.fetch_add(1, Ordering::Relaxed);
        Ok(Self { conn: Some(conn), pool })
    }

    fn run<T>(&self, query: impl FnOnce(&Connection) -> StoreResult<T>) -> StoreResult<T> {
        let conn = self.conn.as_ref().ok_or_else(|| StoreError::Unavailable("no connection".into()))?;
        // The transaction ends when it is dropped, because there is nothing to commit.
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

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use rusqlite::StatementStatus;

    use super::*;
    use crate::sqlite::connect::open_writer;

    #[tokio::test]
    async fn readers_rest_once_there_is_little_to_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("test.db");
        let writer = open_writer(&path).unwrap();
        writer.execute_batch("CREATE TABLE t (n INTEGER); INSERT INTO t VALUES (7)").unwrap();
        let readers = Readers::open(&path, 2, None, None).unwrap();
        // Returns how often the statement has run before.
        let read = || {
            readers.read(|conn| {
                let mut statement = conn.prepare_cached("SELECT n FROM t").map_err(store_error)?;
                let before = statement.get_status(StatementStatus::Run) as usize;
                assert_eq!(statement.query_row([], |row| row.get::<_, i64>(0)).map_err(store_error)?, 7);
                Ok(before)
            })
        };
        assert!(readers.pool.rest(), "nothing has been read");
        for before in 0..=FEW_READS {
            assert_eq!(read().await.unwrap(), before);
        }
        assert!(!readers.pool.rest(), "much is being read");
        assert_eq!(read().await.unwrap(), FEW_READS + 1);
        assert!(readers.pool.rest(), "hardly anything has been read since");
        assert_eq!(read().await.unwrap(), 0, "it is prepared anew");
        assert!(readers.pool.rest());
        assert_eq!(read().await.unwrap(), 1, "one that is needed now and then stays");
        // Two reads run at once, so one connection is opened again. Later one connection is enough.
        let both = Arc::new(Barrier::new(2));
        let wait = |both: Arc<Barrier>| readers.read(move |_| Ok(both.wait().is_leader()));
        let (one, other) = tokio::join!(wait(Arc::clone(&both)), wait(both));
        assert_ne!(one.unwrap(), other.unwrap());
        assert_eq!(readers.pool.idle.lock().unwrap().len(), 2);
        assert!(readers.pool.rest());
        assert_eq!(readers.pool.idle.lock().unwrap().len(), 1);
    }
}
