//! One empty PostgreSQL database per test. It is dropped with its guard.

use std::sync::atomic::{AtomicU32, Ordering};

use tokio_postgres::NoTls;

/// `cargo xtask test` sets this variable to a server on which databases may be created.
const URL_VARIABLE: &str = "FLOVYN_TEST_POSTGRES";

static CREATED: AtomicU32 = AtomicU32::new(0);

/// A database that only this test uses.
#[derive(Debug)]
pub struct TestDatabase {
    pub url: String,
    name: String,
    server_url: String,
}

/// Creates an empty database.
///
/// # Panics
/// Panics if there is no usable server, because a test that needs one must not pass without it.
pub async fn fresh_database() -> TestDatabase {
    let server_url = std::env::var(URL_VARIABLE)
        .unwrap_or_else(|_| panic!("set {URL_VARIABLE} or run `cargo xtask test`"));
    let name = format!("flovyn_test_{}_{}", std::process::id(), CREATED.fetch_add(1, Ordering::Relaxed));
    // A killed run with the same process number may have left this database behind.
    execute(&server_url, &format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await;
    execute(&server_url, &format!("CREATE DATABASE {name}")).await;
    TestDatabase { url: with_database(&server_url, &name), name, server_url }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        // This runs in a separate thread: `drop` may be called inside a runtime, where blocking on a future
        // is not allowed.
        let (url, sql) = (self.server_url.clone(), format!("DROP DATABASE {} WITH (FORCE)", self.name));
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime can be made").block_on(execute(&url, &sql));
        });
        // If the database cannot be dropped, the result of the test is still shown.
        let _ = dropped.join();
    }
}

async fn execute(url: &str, sql: &str) {
    let (client, connection) = tokio_postgres::connect(url, NoTls)
        .await
        .unwrap_or_else(|error| panic!("{URL_VARIABLE} is {url}, which cannot be reached: {error}"));
    let driver = tokio::spawn(connection);
    if let Err(error) = client.batch_execute(sql).await {
        panic!("{sql}: {error:?}");
    }
    drop(client);
    // The way the connection ended no longer matters.
    let _ = driver.await;
}

/// Replaces the database in a URL: `postgres://user@host:port/NAME?options`.
fn with_database(url: &str, name: &str) -> String {
    let (address, options) = match url.split_once('?') {
        Some((address, options)) => (address, format!("?{options}")),
        None => (url, String::new()),
    };
    let server = match address.split_once("://").map(|(scheme, rest)| (scheme, rest.split('/').next())) {
        Some((scheme, Some(host))) => format!("{scheme}://{host}"),
        _ => panic!("{URL_VARIABLE} is {url}, which is not a URL"),
    };
    format!("{server}/{name}{options}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_database_is_replaced() {
        let replaced = with_database("postgres://me@127.0.0.1:5432/postgres?a=b", "other");
        assert_eq!(replaced, "postgres://me@127.0.0.1:5432/other?a=b");
        assert_eq!(with_database("postgres://me@h", "other"), "postgres://me@h/other");
    }
}
