//! A reader whose transaction stays open. While it is open, the database cannot clean up replaced rows.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use tokio_postgres::{Client, NoTls};

/// Keeps a snapshot of the database open until it is released.
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

/// The first read takes the snapshot, so each statement reads once.
const BEGIN_SQLITE: &str = "BEGIN; SELECT count(*) FROM sqlite_schema;";
const BEGIN_POSTGRES: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class;";
const END: &str = "COMMIT";

impl Pin {
    /// Opens a snapshot of a SQLite database.
    ///
    /// # Errors
    /// Fails if the database cannot be read.
    pub fn sqlite(path: &Path) -> Result<Self, String> {
        let begin = || {
            let conn = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
            conn.execute_batch(BEGIN_SQLITE)?;
            Ok(conn)
        };
        let conn = begin().map_err(|error: rusqlite::Error| error.to_string())?;
        Ok(Self(Kind::Sqlite(conn)))
    }

    /// Opens a snapshot of a PostgreSQL database.
    ///
    /// # Errors
    /// Fails if no connection can be made.
    pub async fn postgres(url: &str) -> Result<Self, String> {
        let (client, connection) =
            tokio_postgres::connect(url, NoTls).await.map_err(|error| error.to_string())?;
        tokio::spawn(connection);
        client.batch_execute(BEGIN_POSTGRES).await.map_err(|error| error.to_string())?;
        Ok(Self(Kind::Postgres(client)))
    }

    /// Ends the snapshot.
    ///
    /// # Errors
    /// Fails if the snapshot had already ended. In that case it did not pin the database the whole
    /// time.
    pub async fn release(self) -> Result<(), String> {
        match self.0 {
            Kind::Sqlite(conn) => conn.execute_batch(END).map_err(|error| error.to_string()),
            Kind::Postgres(client) => client.batch_execute(END).await.map_err(|error| error.to_string()),
        }
    }
}
