//! Opening a store by its URL.

use std::path::Path;
use std::sync::Arc;

use crate::inspect::Inspect;
use crate::integrity::{Integrity, OnProgress};
use crate::port::{Store, StoreError, StoreResult};
use crate::postgres::{PostgresOptions, PostgresStore};
use crate::sqlite::{FileCheck, Options, SqliteReader, SqliteStore, check};

/// Opens `sqlite:PATH` or `postgres://...`, and brings the schema up to date. A SQLite file is created if it does
/// not exist.
pub async fn store(url: &str) -> StoreResult<Arc<dyn Store>> {
    store_with(url, Options::default()).await
}

/// Opens a store like [`store`]. The options are for SQLite and have no effect on PostgreSQL.
pub async fn store_with(url: &str, options: Options) -> StoreResult<Arc<dyn Store>> {
    if let Some(path) = url.strip_prefix("sqlite:") {
        if let Some(folder) = Path::new(path).parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(|error| {
                StoreError::Unavailable(format!("cannot create the folder {}: {error}", folder.display()))
            })?;
        }
        return Ok(Arc::new(SqliteStore::open(path, options)?));
    }
    if is_postgres(url) {
        return Ok(Arc::new(PostgresStore::connect(PostgresOptions::new(url)).await?));
    }
    Err(no_url(url))
}

/// Lets the database check all its stored data, page by page. Servers may use the database meanwhile.
pub async fn integrity(url: &str, on_progress: OnProgress) -> StoreResult<Integrity> {
    match url.strip_prefix("sqlite:") {
        Some(path) => {
            let path = Path::new(path).to_owned();
            let checked = tokio::task::spawn_blocking(move || check(&path, &on_progress)).await;
            checked.map_err(|error| StoreError::Refused(format!("the check panicked: {error}")))?
        }
        None if is_postgres(url) => PostgresStore::integrity(url, &on_progress).await,
        None => Err(no_url(url)),
    }
}

/// Opens a database to check it. The database must exist and have the schema of this binary. It may be in use, and
/// it is not changed.
pub async fn inspect(url: &str) -> StoreResult<Arc<dyn Inspect>> {
    match url.strip_prefix("sqlite:") {
        Some(path) => Ok(Arc::new(SqliteReader::open(path)?)),
        None => as_is(url).await.map(|store| store as Arc<dyn Inspect>),
    }
}

/// Opens an existing database to repair it, without a migration. It must have the schema of this binary. A SQLite
/// database must not be in use.
pub async fn as_is(url: &str) -> StoreResult<Arc<dyn Store>> {
    if let Some(path) = url.strip_prefix("sqlite:") {
        SqliteReader::open(path)?;
        // A repair begins with a check of the whole file, so opening repeats only the quick check.
        let options = Options { check: FileCheck::Quick, ..Options::default() };
        return Ok(Arc::new(SqliteStore::open(path, options)?));
    }
    if is_postgres(url) {
        return Ok(Arc::new(PostgresStore::connect_as_is(PostgresOptions::new(url)).await?));
    }
    Err(no_url(url))
}

fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres://") || url.starts_with("postgresql://")
}

fn no_url(url: &str) -> StoreError {
    let shown = without_password(url);
    StoreError::Unavailable(format!("'{shown}' is not a database URL: use sqlite:PATH or postgres://..."))
}

/// The URL without its password, for messages and logs.
pub fn without_password(url: &str) -> String {
    let (url, query) = url.split_once('?').unwrap_or((url, ""));
    let shown = mask_user(url);
    let hides = query.split('&').any(|part| part.starts_with("password="));
    match (query.is_empty(), hides) {
        (true, _) => shown,
        (false, false) => format!("{shown}?{query}"),
        (false, true) => format!("{shown}?..."),
    }
}

fn mask_user(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let Some((credentials, place)) = rest.rsplit_once('@') else { return url.to_owned() };
    let user = credentials.split(':').next().unwrap_or("");
    format!("{scheme}://{user}@{place}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        assert_eq!(without_password("postgres://me:secret@host/db"), "postgres://me@host/db");
        assert_eq!(without_password("postgres://me@host/db"), "postgres://me@host/db");
        assert_eq!(without_password("postgres://host/db?user=me&password=secret"), "postgres://host/db?...");
        assert_eq!(without_password("postgres://host/db?user=me"), "postgres://host/db?user=me");
        assert_eq!(without_password("sqlite:file.db"), "sqlite:file.db");
    }
}
