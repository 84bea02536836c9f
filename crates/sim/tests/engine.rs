//! Random request sequences on the pure engine: the promises hold after every step, and equal seeds give equal runs.

use std::collections::BTreeSet;
use std::sync::Arc;

use flovyn_engine::Op;
use flovyn_sim::lockstep::{self, Report, Rows};
use flovyn_sim::open::Plain;
use flovyn_store::memory::MemoryStore;

async fn run(seed: u64, steps: usize) -> (Report, flovyn_engine::snapshot::Snapshot) {
    let clock = lockstep::clock();
    let store: Arc<dyn Rows> = Arc::new(Plain(MemoryStore::new(clock.clone())));
    let report = lockstep::run(seed, steps, &clock, &[("memory", store.clone())]).await;
    let report = report.unwrap_or_else(|failure| panic!("{failure}"));
    (report, store.snapshot().await.expect("memory always answers"))
}

#[tokio::test]
async fn promises_hold_after_every_step_of_random_runs() {
    let mut total = Report::default();
    for seed in 1..=60 {
        total.add(run(seed, 250).await.0);
    }
    let accepted: BTreeSet<&str> = total.accepted.keys().copied().collect();
    let missing: Vec<_> = Op::NAMES.iter().filter(|name| !accepted.contains(*name)).collect();
    assert!(missing.is_empty(), "never carried out: {missing:?}");
    assert!(total.refused.len() >= 20, "only these refusals occurred: {:?}", total.refused);
}

#[tokio::test]
async fn the_same_seed_gives_the_same_rows() {
    let (_, first) = run(4711, 200).await;
    let (_, second) = run(4711, 200).await;
    assert_eq!(first, second);
    assert!(first.events.len() > 50, "a run that does nothing proves nothing");
}
