//! The limit that the database itself sets: the row changes of the same workload, in batches of 256. The bare driver
//! writes them with prepared statements, and nothing else is done.

mod changes;
mod postgres;
mod sqlite;

use std::time::{Duration, Instant};

use crate::target::Database;
use changes::Changes;
pub(crate) use postgres::written_bytes;

/// Workflows in one batch.
const BATCH: usize = 256;

pub(crate) enum Raw {
    Sqlite(Box<sqlite::RawSqlite>),
    Postgres(Box<postgres::RawPostgres>),
}

impl Raw {
    pub(crate) async fn open(database: Database) -> Result<Self, String> {
        Ok(match database {
            Database::Sqlite => Self::Sqlite(Box::new(sqlite::RawSqlite::open()?)),
            Database::Postgres => Self::Postgres(Box::new(postgres::RawPostgres::open().await?)),
        })
    }

    /// Writes the changes in one transaction.
    async fn commit(&mut self, changes: &Changes) -> Result<(), String> {
        match self {
            Self::Sqlite(raw) => raw.commit(changes),
            Self::Postgres(raw) => raw.commit(changes).await,
        }
    }
}

pub(crate) struct Throughput {
    pub(crate) rate: f64,
    pub(crate) rows_per_workflow: f64,
}

/// Workflows per second if only their row changes are written.
pub(crate) async fn throughput(raw: &mut Raw, duration: Duration) -> Result<Throughput, String> {
    let mut busy = Duration::ZERO;
    let mut count = 0;
    let mut rows = 0;
    while busy < duration {
        // Deciding what to write is not the driver's work, so it is not timed.
        let steps = changes::of_workflows(BATCH);
        rows += steps.iter().map(Changes::len).sum::<usize>();
        let begin = Instant::now();
        for step in &steps {
            raw.commit(step).await?;
        }
        busy += begin.elapsed();
        count += BATCH;
    }
    Ok(Throughput { rate: count as f64 / busy.as_secs_f64(), rows_per_workflow: rows as f64 / count as f64 })
}

/// How long one commit of one start's rows takes.
pub(crate) async fn lone_start(raw: &mut Raw) -> Result<Duration, String> {
    let start = changes::of_start();
    let begin = Instant::now();
    raw.commit(&start).await?;
    Ok(begin.elapsed())
}
