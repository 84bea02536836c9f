//! A database that is only read, even while a server has it open.
//!
//! SQLite lets any number of processes read while one process writes. Flovyn's locks only keep a second writer out, so
//! they are not needed here. Reads are short, so that they do not delay checkpoints.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use flovyn_engine::invariants::{InspectPage, Part};

use super::{connect, held, inspect, migrate, pool};
use crate::clock::{Clock, SystemClock};
use crate::inspect::Inspect;
use crate::port::{StoreError, StoreResult};

pub struct SqliteReader {
    readers: pool::Readers,
    clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for SqliteReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteReader").finish_non_exhaustive()
    }
}

impl SqliteReader {
    /// Opens an existing database. Fails if its schema is not that of this binary.
    pub fn open(path: impl AsRef<Path>) -> StoreResult<Self> {
        let path = path.as_ref();
        connect::check_library(rusqlite::version_number())?;
        if !path.is_file() {
            return Err(StoreError::Unavailable(format!("there is no database {}", path.display())));
        }
        held::refuse_other_name(path)?;
        migrate::check(&connect::open_reader(path)?)?;
        Ok(Self { readers: pool::Readers::open(path, 1, None, None)?, clock: Arc::new(SystemClock) })
    }
}

#[async_trait]
impl Inspect for SqliteReader {
    async fn inspect_page(&self, part: &Part, limit: usize) -> StoreResult<InspectPage> {
        let (clock, part) = (Arc::clone(&self.clock), part.clone());
        self.readers.read(move |conn| inspect::page(conn, clock.as_ref(), &part, limit)).await
    }
}
