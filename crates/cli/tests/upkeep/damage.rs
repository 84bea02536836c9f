//! Damaged databases.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rusqlite::Connection;
use serde_json::Value;

use crate::{assert_code, fixture, flovyn, run};

const PAGE: u64 = 4_096;
/// Much longer than a check takes, even on a busy machine.
const WITHIN: Duration = Duration::from_secs(60);

/// Overwrites a page in the middle of a table's tree: the page that SQLite names first below the root.
fn damage(path: &Path, table: &str) -> u32 {
    let conn = Connection::open(path).unwrap();
    let page: u32 = conn
        .query_row("SELECT max(pageno) FROM dbstat WHERE name = ?1 AND pagetype = 'leaf'", [table], |row| {
            row.get(0)
        })
        .unwrap();
    drop(conn);
    let file = fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(&[0xA5; PAGE as usize], u64::from(page - 1) * PAGE).unwrap();
    page
}

#[tokio::test]
async fn the_doctor_names_the_table_and_the_page_and_no_server_starts() {
    let folder = tempfile::tempdir().unwrap();
    let path = fixture::sqlite(folder.path());
    let url = fixture::sqlite_url(&path);
    let data_dir = folder.path().to_str().unwrap();
    assert_code(0, &run(&["migrate", "--database-url", &url]).await);
    assert_code(0, &run(&["doctor", "--database-url", &url]).await);
    let page = damage(&path, "workflow_event");

    let found = run(&["doctor", "--database-url", &url]).await;
    assert_code(1, &found);
    assert!(found.1.contains(&format!("FLV0079 table workflow_event, page {page}")), "{}", found.1);
    assert!(found.1.contains("guide/backup.md#a-damaged-database"), "{}", found.1);
    assert!(!found.2.contains("no problems found"), "{}", found.2);
    let listed = run(&["doctor", "--database-url", &url, "--output", "json"]).await;
    assert_code(1, &listed);
    let document: Value = serde_json::from_str(&listed.1).unwrap();
    let finding = &document["findings"][0];
    assert_eq!((&finding["code"], &finding["page"]), (&"FLV0079".into(), &page.into()), "{document}");
    assert_eq!(document["left"], document["findings"].as_array().unwrap().len());

    for command in [
        &["dev", "--data-dir", data_dir, "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"][..],
        &["migrate", "--database-url", &url],
        &["doctor", "--database-url", &url, "--repair"],
    ] {
        let refused = run(command).await;
        assert_ne!(refused.0, Some(0), "{command:?}: {}", refused.2);
        let said = refused.1 + &refused.2;
        assert!(
            said.contains("table workflow_event, page") && said.contains("FLV0079"),
            "{command:?}: {said}"
        );
    }
}

/// Larger than the part that is checked before the database is used.
#[tokio::test]
async fn a_server_that_finds_damage_later_ends_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = fixture::sqlite(folder.path());
    let url = fixture::sqlite_url(&path);
    assert_code(0, &run(&["migrate", "--database-url", &url]).await);
    let conn = Connection::open(&path).unwrap();
    // A table that the server does not read.
    conn.execute_batch(
        "CREATE TABLE ballast (x BLOB); WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9000) \
         INSERT INTO ballast SELECT randomblob(3000) FROM n; PRAGMA wal_checkpoint(TRUNCATE)",
    )
    .unwrap();
    drop(conn);
    damage(&path, "ballast");
    let arguments = |quick: bool| {
        let config = folder.path().join("server.toml");
        let check = if quick { "[database]\ncheck = 'quick'\n" } else { "" };
        let addresses = "[grpc]\naddress = '127.0.0.1:0'\n[http]\naddress = '127.0.0.1:0'\n";
        fs::write(&config, format!("database_url = '{url}'\n{check}{addresses}")).unwrap();
        ["server".to_owned(), "--config".to_owned(), config.to_str().unwrap().to_owned()]
    };
    for begins in ["serving", "the database cannot be opened"] {
        let arguments = arguments(begins != "serving");
        let mut command = flovyn(&arguments.each_ref().map(String::as_str));
        let child = command.stdin(Stdio::null()).spawn().unwrap();
        let ended = tokio::task::spawn_blocking(move || child.wait_with_output());
        let output = tokio::time::timeout(WITHIN, ended).await.expect("it ends by itself").unwrap().unwrap();
        let said =
            String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(begins) && said.contains("table ballast, page"), "{said}");
        assert!(said.contains("FLV0079"), "{said}");
    }
    assert!(folder.path().join("flovyn.db-damaged").exists());
}

/// By the extension, which the check creates and rolls back.
#[tokio::test]
async fn on_postgres_an_index_out_of_order_is_found() {
    let database = fixture::postgres().await;
    let url = database.url.as_str();
    assert_code(0, &run(&["migrate", "--database-url", url]).await);
    let sound = run(&["doctor", "--database-url", url]).await;
    assert_code(0, &sound);
    assert!(sound.2.contains("data checksums are") && !sound.2.contains("skipped"), "{}", sound.2);
    assert!(sound.2.contains("tables and indexes"), "{}", sound.2);
    // Changes an order without updating the index.
    let order = |sign: &str| {
        format!(
            "CREATE OR REPLACE FUNCTION upside(a int4, b int4) RETURNS int4 LANGUAGE sql IMMUTABLE AS \
             $$ SELECT CASE WHEN a = b THEN 0 WHEN a {sign} b THEN 1 ELSE -1 END $$;"
        )
    };
    let table = "CREATE TABLE odd (x int4); \
                 CREATE OPERATOR CLASS upside_ops FOR TYPE int4 USING btree AS OPERATOR 1 < (int4, int4), OPERATOR 2 <= (int4, int4), \
                 OPERATOR 3 = (int4, int4), OPERATOR 4 >= (int4, int4), OPERATOR 5 > (int4, int4), FUNCTION 1 upside(int4, int4); \
                 CREATE INDEX odd_by_x ON odd USING btree (x upside_ops); INSERT INTO odd SELECT generate_series(1, 1000);";
    fixture::execute(url, &(order(">") + table)).await;
    assert_code(0, &run(&["doctor", "--database-url", url]).await);
    fixture::execute(url, &order("<")).await;
    let found = run(&["doctor", "--database-url", url]).await;
    assert_code(1, &found);
    assert!(found.1.contains("FLV0079 index odd_by_x of table odd, page "), "{}", found.1);
    let left =
        fixture::connect(url).await.query("SELECT 1 FROM pg_extension WHERE extname = 'amcheck'", &[]).await;
    assert!(left.unwrap().is_empty(), "the doctor leaves nothing behind");
    // A user without permission is refused.
    fixture::execute(url, &order(">")).await;
    let name = format!("looker_{}", std::process::id());
    let role = format!(
        "CREATE ROLE {name} LOGIN; GRANT USAGE ON SCHEMA public TO {name}; \
         GRANT SELECT ON ALL TABLES IN SCHEMA public TO {name}"
    );
    fixture::execute(url, &role).await;
    let (scheme, rest) = url.split_once("://").unwrap();
    let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
    let joint = if place.contains('?') { '&' } else { '?' };
    let theirs = match rest.contains('@') {
        true => format!("{scheme}://{name}@{place}"),
        false => format!("{url}{joint}user={name}"),
    };
    let looked = run(&["doctor", "--database-url", &theirs]).await;
    let dropped = format!("DROP OWNED BY {name}; DROP ROLE {name}");
    fixture::execute(url, &dropped).await;
    assert_code(0, &looked);
    assert!(looked.2.contains("skipped: ") && looked.2.contains("CREATE EXTENSION amcheck"), "{}", looked.2);
}
