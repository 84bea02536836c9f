//! A bounded number of connections, each used by one caller at a time. Only a connection that is known to be idle
//! returns to the pool.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::port::{StoreError, StoreResult};
use crate::postgres::connect::{Connector, Purpose};
use crate::postgres::connection::Connection;

/// How long a caller waits for a connection to become free.
const WAIT_LIMIT: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct Pool {
    connector: Arc<Connector>,
    purpose: Purpose,
    idle: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
}

impl Pool {
    pub(super) fn new(connector: Arc<Connector>, purpose: Purpose, size: usize) -> Arc<Self> {
        let permits = Arc::new(Semaphore::new(size.max(1)));
        Arc::new(Self { connector, purpose, idle: Mutex::default(), permits })
    }

    pub(super) async fn take(self: &Arc<Self>) -> StoreResult<Pooled> {
        let permit = tokio::time::timeout(WAIT_LIMIT, Arc::clone(&self.permits).acquire_owned())
            .await
            .map_err(|_| StoreError::Unavailable("all database connections are busy".to_owned()))?
            .map_err(|_| StoreError::Unavailable("the connection pool is closed".to_owned()))?;
        let connection = match self.take_idle() {
            Some(connection) => connection,
            None => self.connector.connect(self.purpose).await?,
        };
        let pool = Arc::clone(self);
        Ok(Pooled { connection: Some(connection), reusable: true, pool, _permit: permit })
    }

    /// Closes idle connections, because their prepared statements are no longer valid.
    pub(super) fn forget_idle(&self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The connection that was used last: its statements are prepared, and connections that are not needed stay idle.
    fn take_idle(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|connection| !connection.is_closed());
        idle.pop()
    }
}

/// A connection in use. When dropped, it returns to the pool, unless it may be in the middle of a transaction.
#[derive(Debug)]
pub(super) struct Pooled {
    connection: Option<Connection>,
    reusable: bool,
    pool: Arc<Pool>,
    _permit: OwnedSemaphorePermit,
}

impl Pooled {
    /// Sets whether the connection may be reused in its current state. Set it to false before a transaction begins,
    /// and to true after the transaction has certainly ended. If anything goes wrong in between, the connection is
    /// closed.
    pub(super) fn set_reusable(&mut self, reusable: bool) {
        self.reusable = reusable;
    }
}

impl std::ops::Deref for Pooled {
    type Target = Connection;
    fn deref(&self) -> &Connection {
        self.connection.as_ref().expect("the connection is present until `Pooled` is dropped")
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        let returned = self.connection.take().filter(|connection| self.reusable && !connection.is_closed());
        if let Some(connection) = returned {
            self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        }
    }
}
