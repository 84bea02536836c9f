//! The corpus: recorded histories, each with the workflow it is replayed against and the expected result.
//! `tests/histories` has one file for each. A file that is not used, or a workflow that no file uses, fails the test.
//!
//! To update the files after an intended change: `UPDATE_HISTORIES=1 cargo test -p flovyn-sdk --test replay corpus`,
//! then review the diff.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::corpus_workflows::{WORKFLOWS, find};
use crate::runs::{environment_in_order, replay_strictly};

/// The workflow that produced a history, and the workflows it is replayed against.
const RECORDED: &[(&str, &[&str])] = &[
    ("operation", &["operation-renamed"]),
    ("operation-dropped-at-the-end", &[]),
    ("state", &["state-other-key", "state-other-value", "state-cleared-first"]),
    (
        "task",
        &[
            "task-other-type",
            "task-other-input",
            "task-removed",
            "task-added-before",
            "task-added-behind",
            "task-other-output",
            "task-waits-on",
            "task-fails",
            "task-panics",
            "task-awaits-something-else",
        ],
    ),
    ("failing-task", &[]),
    ("task-cancelled", &["task-not-cancelled"]),
    ("timer", &["timer-other-time", "timer-late", "timers-together"]),
    ("timer-cancelled", &[]),
    ("promise", &["promise-renamed", "promise-other-timeout"]),
    ("child", &["child-renamed", "child-other-kind"]),
    ("child-cancelled", &[]),
    ("cancelled", &[]),
    ("mix", &[]),
    ("loop", &["loop-shortened", "loop-lengthened"]),
];

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/histories")
}

async fn record(name: &str) -> Value {
    let mut run = environment_in_order().start_fn("corpus", find(name).unwrap(), Value::Null);
    run.settle().await.unwrap();
    // A workflow ignores the events that it does not need.
    let _ = run.signal("go", &1).await;
    if name == "cancelled" {
        run.cancel("too late").await.unwrap();
    }
    run.settle().await.unwrap();
    let _ = run.resolve_promise("p", &2).await;
    run.finish().await.unwrap();
    assert!(!run.is_waiting(), "{name}");
    run.recording()
}

async fn replayed(name: &str, history: &Value) -> Value {
    match replay_strictly("corpus", find(name).unwrap(), history).await {
        Ok(()) => Value::Null,
        Err(error) => json!(error.to_string()),
    }
}

async fn write_the_corpus() {
    for (recorded, others) in RECORDED {
        let history = record(recorded).await;
        for workflow in std::iter::once(recorded).chain(*others) {
            let mut file = history.clone();
            file["workflow"] = json!(workflow);
            file["violation"] = replayed(workflow, &history).await;
            let text = serde_json::to_string_pretty(&file).unwrap() + "\n";
            fs::write(folder().join(format!("{workflow}.json")), text).unwrap();
        }
    }
}

#[tokio::test]
async fn every_history_is_replayed_and_gives_what_it_says() {
    let mut used = BTreeSet::new();
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let file: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let name = file["workflow"].as_str().unwrap_or_default().to_owned();
        assert!(find(&name).is_some(), "{} is not used: there is no workflow {name:?}", path.display());
        assert_eq!(path.file_stem().unwrap().to_str().unwrap(), name);
        assert_eq!(replayed(&name, &file).await, file["violation"], "{name}");
        used.insert(name);
    }
    let known: BTreeSet<String> = WORKFLOWS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(used, known);
}

#[tokio::test]
async fn what_was_recorded_then_is_what_is_recorded_now() {
    if std::env::var_os("UPDATE_HISTORIES").is_some() {
        write_the_corpus().await;
    }
    for (recorded, _) in RECORDED {
        let path = folder().join(format!("{recorded}.json"));
        let file: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        assert_eq!(record(recorded).await["events"], file["events"], "{recorded}");
        assert_eq!(file["violation"], Value::Null, "{recorded}");
    }
}
