//! What SQLite's errors mean for a batch or a read.

use rusqlite::{ErrorCode, ffi};

use crate::port::StoreError;
use crate::value::ReadError;

pub(super) fn store_error(error: rusqlite::Error) -> StoreError {
    let text = error.to_string();
    let Some(sqlite) = error.sqlite_error() else { return StoreError::Refused(text) };
    match sqlite.code {
        ErrorCode::ConstraintViolation => match sqlite.extended_code {
            ffi::SQLITE_CONSTRAINT_PRIMARYKEY | ffi::SQLITE_CONSTRAINT_UNIQUE => StoreError::Conflict(text),
            _ => StoreError::Refused(text),
        },
        ErrorCode::DiskFull => StoreError::Unavailable(format!("disk full: {text}")),
        ErrorCode::DatabaseBusy
        | ErrorCode::DatabaseLocked
        | ErrorCode::OutOfMemory
        | ErrorCode::CannotOpen
        | ErrorCode::PermissionDenied => StoreError::Unavailable(text),
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => StoreError::Damaged(text),
        ErrorCode::SystemIoFailure | ErrorCode::ReadOnly | ErrorCode::FileLockingProtocolFailed => {
            StoreError::Fatal(text)
        }
        _ => StoreError::Refused(text),
    }
}

/// A row that cannot be read fails the request that needs it, but not others.
pub(super) fn unreadable(error: ReadError) -> StoreError {
    StoreError::Refused(error.to_string())
}
