//! Somebody who reads a database and never ends: what is replaced meanwhile cannot be cleaned away.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use tokio_postgres::{Client, NoTls};

/// Holds the database as it was until it is released.
#[derive(Debug)]
pub struct Pin(Kind);

enum Kind {
    Sqlite(Connection),
    Postgres(Client),
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Sqlite(_) => "Sqlite",
            Self::Postgres(_) => "Postgres",
        })
    }
}

/// A snapshot is taken with the first read, so one is made.
const BEGIN_SQLITE: &str = "BEGIN; SELECT count(*) FROM sqlite_schema;";
const BEGIN_POSTGRES: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class;";
const END: &str = "COMMIT";

impl Pin {
    /// A reader of an embedded database.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn sqlite(path: &Path) -> Result<Self, String> {
        let begin = || {
            let conn = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
            conn.execute_batch(BEGIN_SQLITE)?;
            Ok(conn)
        };
        let conn = begin().map_err(|error: rusqlite::Error| error.to_string())?;
        Ok(Self(Kind::Sqlite(conn)))
    }

    /// A transaction that sees the database as it was when it began.
    ///
    /// # Errors
    /// When there is no connection to be had.
    pub async fn postgres(url: &str) -> Result<Self, String> {
        let (client, connection) =
            tokio_postgres::connect(url, NoTls).await.map_err(|error| error.to_string())?;
        tokio::spawn(connection);
        client.batch_execute(BEGIN_POSTGRES).await.map_err(|error| error.to_string())?;
        Ok(Self(Kind::Postgres(client)))
    }

    /// Ends it.
    ///
    /// # Errors
    /// When it had ended before: it did not pin anything all that time.
    pub async fn release(self) -> Result<(), String> {
        match self.0 {
            Kind::Sqlite(conn) => conn.execute_batch(END).map_err(|error| error.to_string()),
            Kind::Postgres(client) => client.batch_execute(END).await.map_err(|error| error.to_string()),
        }
    }
}
