//! What the driver's errors mean for a batch or a read.

use std::error::Error as _;

use tokio_postgres::Error;
use tokio_postgres::error::Severity;

use crate::port::StoreError;

/// The SQLSTATE of division by zero, with which our own statements report a missing row.
const SHORTFALL: &str = "22012";

/// The SQLSTATE of rows that do not match the row type of their table, because the table has changed since: see
/// `is_outdated`.
const ROWS_DIFFER: &str = "42804";

pub(super) fn from_driver(error: &Error, doing: &str) -> StoreError {
    match error.code() {
        Some(state) => from_sqlstate(state.code(), describe(error, doing)),
        None if is_connection_loss(error) => StoreError::Unavailable(describe(error, doing)),
        // The driver could not encode or decode a value.
        None => StoreError::Refused(describe(error, doing)),
    }
}

pub(super) fn unavailable(error: &Error, doing: &str) -> StoreError {
    StoreError::Unavailable(describe(error, doing))
}

fn from_sqlstate(state: &str, text: String) -> StoreError {
    match state {
        SHORTFALL | ROWS_DIFFER => StoreError::Conflict(text),
        // A unique key was taken (for example by a batch's tombstone), or a lock was not obtained in time.
        "23505" | "55P03" => StoreError::Conflict(text),
        // Damaged data or index.
        "XX001" | "XX002" => StoreError::Damaged(text),
        _ => match &state[..2] {
            "40" => StoreError::Conflict(text),
            // Invalid data, too long index entries, or statements that do not match the schema: a retry does not help.
            "0A" | "21" | "22" | "23" | "42" | "54" => StoreError::Refused(text),
            _ => StoreError::Unavailable(text),
        },
    }
}

fn is_connection_loss(error: &Error) -> bool {
    error.is_closed() || error.source().is_some_and(|source| source.is::<std::io::Error>())
}

/// Whether the server answered and the connection still works.
pub(super) fn is_statement_error(error: &Error) -> bool {
    let severity = error.as_db_error().and_then(|error| error.parsed_severity());
    severity == Some(Severity::Error)
}

/// Whether the table has got a new column since the connection prepared the statement, so that rows no longer match. A
/// connection that prepares the statement again is not affected.
pub(super) fn is_outdated(error: &Error) -> bool {
    error.code().is_some_and(|state| state.code() == ROWS_DIFFER)
}

/// Describes the error without the server's DETAIL, which quotes stored data.
pub(super) fn describe(error: &Error, doing: &str) -> String {
    match error.as_db_error() {
        Some(server) if server.code().code() == SHORTFALL => {
            format!("{doing}: a row has been changed or deleted, or already exists")
        }
        Some(server) => format!("{doing}: {} ({})", server.message(), server.code().code()),
        None => match error.source() {
            Some(source) => format!("{doing}: {error}: {source}"),
            None => format!("{doing}: {error}"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_mean_what_the_service_does_next() {
        let meaning = |state: &str| from_sqlstate(state, String::new());
        for state in ["22012", "23505", "40001", "40P01", "42804", "55P03"] {
            assert!(matches!(meaning(state), StoreError::Conflict(_)), "{state}");
        }
        for state in ["22021", "22003", "23502", "54000", "42P01"] {
            assert!(matches!(meaning(state), StoreError::Refused(_)), "{state}");
        }
        for state in ["53100", "57P01", "57014", "58030", "08006", "25006", "XX000"] {
            assert!(matches!(meaning(state), StoreError::Unavailable(_)), "{state}");
        }
        assert!(matches!(meaning("XX001"), StoreError::Damaged(_)));
    }
}
