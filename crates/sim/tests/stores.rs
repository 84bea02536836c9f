//! Equal requests to memory, SQLite and PostgreSQL: replies and full snapshots are equal after every step.

use std::collections::BTreeSet;
use std::sync::Arc;

use flovyn_engine::Op;
use flovyn_sim::lockstep::{self, Report, Rows};
use flovyn_sim::open::{self, Plain};
use flovyn_store::memory::MemoryStore;

const RUNS: u64 = 24;
const STEPS: usize = 200;

async fn run(seed: u64) -> Report {
    let clock = lockstep::clock();
    let directory = tempfile::tempdir().expect("a temporary folder");
    let database = flovyn_testkit::fresh_database().await;
    let stores: Vec<(&str, Arc<dyn Rows>)> = vec![
        ("memory", Arc::new(Plain(MemoryStore::new(clock.clone())))),
        ("sqlite", open::sqlite(directory.path(), clock.clone()).expect("SQLite opens")),
        ("postgres", open::postgres(&database.url, clock.clone()).await.expect("PostgreSQL opens")),
    ];
    let report = lockstep::run(seed, STEPS, &clock, &stores).await;
    report.unwrap_or_else(|failure| panic!("{failure}"))
}

#[tokio::test]
async fn three_stores_give_equal_answers_and_equal_rows() {
    let mut total = Report::default();
    for seed in 0..RUNS {
        total.add(run(1_000 + seed).await);
    }
    let accepted: BTreeSet<&str> = total.accepted.keys().copied().collect();
    let missing: Vec<_> = Op::NAMES.iter().filter(|name| !accepted.contains(*name)).collect();
    assert!(missing.is_empty(), "never carried out: {missing:?}");
    assert!(total.refused.len() >= 15, "only these refusals occurred: {:?}", total.refused);
}
