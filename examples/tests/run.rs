//! Runs every example against a real server like a user would: as a process, in a directory with credentials.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails right there")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use flovyn_auth::hash_api_key;
use flovyn_server::config::{ApiKeyConfig, TenantConfig, WorkerTokenConfig};
use flovyn_server::{Config, Server, ServerOptions};
use flovyn_testkit::{TestDatabase, fresh_database};
use tempfile::TempDir;

const TOKEN: &str = "fwt_examples-0123456789abcdef0123456789ab";
const API_KEY: &str = "flv_examples-0123456789abcdef";

#[derive(Clone, Copy)]
enum Database {
    Sqlite,
    Postgres,
}

/// A server, the working directory and the database, for the duration of the test.
struct Place {
    server: Server,
    folder: TempDir,
    _database: Option<TestDatabase>,
}

async fn start(database: Database) -> Place {
    let folder = tempfile::tempdir().unwrap();
    let database = match database {
        Database::Sqlite => None,
        Database::Postgres => Some(fresh_database().await),
    };
    let embedded = || format!("sqlite:{}", folder.path().join("flovyn.db").display());
    let mut config = Config::local(database.as_ref().map_or_else(embedded, |database| database.url.clone()));
    config.tenants = vec![TenantConfig {
        id: None,
        slug: "test".into(),
        name: None,
        retention_ms: None,
        worker_tokens: vec![WorkerTokenConfig { name: "test".into(), token: TOKEN.into() }],
    }];
    config.auth.api_keys = vec![ApiKeyConfig {
        name: "test".into(),
        sha256: hash_api_key(API_KEY).iter().map(|byte| format!("{byte:02x}")).collect(),
        tenants: vec!["test".into()],
        role: "operator".into(),
        expires_at: None,
    }];
    let server = Server::start(ServerOptions::new(config)).await.unwrap();
    let credentials = serde_json::json!({
        "tenant": "test",
        "grpc_url": format!("http://{}", server.grpc_addr()),
        "http_url": format!("http://{}", server.http_addr()),
        "worker_token": TOKEN,
        "api_token": API_KEY,
    });
    std::fs::create_dir(folder.path().join(".flovyn")).unwrap();
    std::fs::write(folder.path().join(".flovyn/credentials.json"), credentials.to_string()).unwrap();
    Place { server, folder, _database: database }
}

fn execute(binary: &str, arguments: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(binary);
    command.args(arguments).current_dir(folder);
    command.env_remove("FLOVYN_GRPC_URL").env_remove("FLOVYN_WORKER_TOKEN");
    command.output().unwrap()
}

/// Runs the example and requires success and these lines, in this order.
async fn runs(database: Database, binary: &'static str, arguments: &'static [&str], lines: &[&str]) {
    let place = start(database).await;
    let path = place.folder.path().to_owned();
    let output = tokio::task::spawn_blocking(move || execute(binary, arguments, &path)).await.unwrap();
    let (printed, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{printed}\n{errors}", output.status);
    let mut rest = printed.lines();
    for line in lines {
        assert!(rest.any(|found| found == *line), "{line:?} is not, or not there, in:\n{printed}");
    }
    place.server.stop().await;
}

/// One test for each example and database.
macro_rules! examples {
    ($($name:ident: $binary:literal $(with $argument:literal)?, [$($line:literal),+ $(,)?];)*) => {$(
        mod $name {
            use super::*;

            const BINARY: &str = env!(concat!("CARGO_BIN_EXE_", $binary));

            #[tokio::test(flavor = "multi_thread")]
            async fn on_sqlite() {
                runs(Database::Sqlite, BINARY, &[$($argument)?], &[$($line),+]).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn on_postgres() {
                runs(Database::Postgres, BINARY, &[$($argument)?], &[$($line),+]).await;
            }
        }
    )*};
}

examples! {
    hello: "hello", ["result    Hello, Ada!", "history   1 WORKFLOW_STARTED"];
    order_saga: "order_saga", [
        "result    a lamp is on its way to 1 Main Street",
        "undo      refund a chair",
        "undo      release a chair",
        "result    failed: nobody lives there",
        "undo      refund a table",
        "undo      release a table",
        "result    cancelled: changed my mind",
    ];
    fan_out: "fan_out", ["task      add [1, 2, 3, 4, 5, 6, 7, 8]", "result    36 words"];
    approval: "approval", ["result    approved by Grace", "result    declined: nobody answered in time"];
    reminder: "reminder", [
        "task      mail: Ada, this is reminder 2",
        "result    Ada has paid 250",
        "task      mail: Bob, this is reminder 3",
        "result    Bob does not pay: over to the lawyers",
    ];
    standalone_tasks: "standalone_tasks", ["task      image 3, attempt 2", "result    all 5 images are done"];
    code_change: "pattern" with "code_change", [
        "deployed  version 2, with version 1 for what is open",
        "result    a vase packed",
        "result    a glass wrapped packed",
    ];
    fan_out_2000: "pattern" with "fan_out_2000", ["result    2668667000"];
    interpreter: "pattern" with "interpreter", [
        r#"result    {"cents":30,"count":2,"large":false,"price":60}"#,
        r#"result    {"by":"Grace","cents":30,"count":9,"large":true,"price":270}"#,
    ];
    money_transfer: "pattern" with "money_transfer", [
        "result    300 cents from Ada to Grace",
        "result    there is no account Nobody",
        "balances  Ada Some(700), Grace Some(300)",
    ];
    polling: "pattern" with "polling", [
        "task      start a job for holidays",
        "task      ask for job",
        "task      ask for job",
        "task      ask for job",
        "task      ask for job",
        "result    https://videos.example.com/1",
    ];
    rest_wait: "pattern" with "rest_wait", [
        "result    640 cents",
        "answer    not yet",
        "result    680 cents",
    ];
    select_loop: "pattern" with "select_loop", [
        "task      print a letter",
        "task      print a poem",
        "result    a letter, a poem",
    ];
    shopping_cart: "pattern" with "shopping_cart", [
        "carts     one of Ada: true, another one of Grace: true",
        r#"result    Receipt { items: {"lamp": 3}, checked_out: true }"#,
        "carts     a new one of Ada after the checkout: true",
    ];
    subscription: "pattern" with "subscription", [
        "task      charge Ada 600 cents, year 1",
        "result    goes on",
        "result    cancelled in period N of year N: too expensive",
    ];
    trip_saga: "pattern" with "trip_saga", [
        "result    flight reserved, hotel reserved, car reserved",
        "undo      release balloon",
        "undo      release hotel",
        "undo      release flight",
        "task      reserve castle",
        "undo      release castle",
        "undo      release train",
        "result    cancelled: it rains",
    ];
    typed_errors: "pattern" with "typed_errors", [
        "result    charged slow in attempt 2",
        "result    charged good in attempt 1",
        "result    CARD_STOLEN: the card was stolen, call the police",
        "result    NO_CARD_LEFT: none of the banks answered",
    ];
}

/// All patterns run in the tests above.
#[test]
fn a_pattern_without_a_name_says_which_there_are() {
    let folder = tempfile::tempdir().unwrap();
    let output = execute(env!("CARGO_BIN_EXE_pattern"), &["no such"], folder.path());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(errors.contains(&flovyn_examples::patterns::NAMES.join(", ")), "{errors}");
}

/// The worker of the guide runs until it is stopped. The tests of the guide cover its workflows.
#[tokio::test(flavor = "multi_thread")]
async fn shop() {
    let Place { server, folder, .. } = start(Database::Sqlite).await;
    let mut command = Command::new(env!("CARGO_BIN_EXE_shop"));
    command.current_dir(folder.path()).env("FLOVYN_GRPC_URL", format!("http://{}", server.grpc_addr()));
    command.env("FLOVYN_WORKER_TOKEN", TOKEN).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut said = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "working; press Ctrl-C to stop\n");
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let ended = tokio::task::spawn_blocking(move || child.wait().unwrap()).await.unwrap();
    assert!(ended.success(), "{ended}");
    server.stop().await;
}

#[test]
fn without_a_server_it_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let output = execute(env!("CARGO_BIN_EXE_hello"), &[], folder.path());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(errors.contains("cannot read .flovyn/credentials.json"), "{errors}");
    assert!(errors.contains("cargo run --release -- dev"), "{errors}");
}
