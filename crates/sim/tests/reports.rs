//! Two workers report on one task or workflow, with and without tokens, in random order: exactly one outcome is
//! acknowledged.

use std::sync::Arc;

use flovyn_sim::crossed;
use flovyn_sim::lockstep::{self, Rows};
use flovyn_sim::open::{self, Plain};
use flovyn_sim::reports::{self, Outcome};
use flovyn_store::memory::MemoryStore;

fn add(total: &mut Outcome, one: &Outcome) {
    total.claims += one.claims;
    total.acknowledged += one.acknowledged;
    total.repeated += one.repeated;
    total.refused += one.refused;
    total.ended += one.ended;
    total.late += one.late;
    total.heartbeats += one.heartbeats;
}

/// A run without refusals and repeats proves nothing.
fn assert_busy(total: &Outcome, runs: usize) {
    assert!(total.claims > 2 * runs, "{total:?}");
    // Late reports are rare: a few runs may have none.
    assert!(total.late > 0 || runs < 100, "{total:?}");
    assert!(total.heartbeats > runs / 4, "{total:?}");
    assert!(total.refused > runs && total.repeated > runs / 2 && total.ended > runs / 3, "{total:?}");
}

#[tokio::test]
async fn one_outcome_is_acknowledged_whatever_the_order_of_reports() {
    let mut total = Outcome::default();
    for seed in 0..400 {
        let clock = lockstep::clock();
        let store: Arc<dyn Rows> = Arc::new(Plain(MemoryStore::new(clock.clone())));
        let one = reports::run(seed, &clock, &[("memory", store)]).await;
        add(&mut total, &one.unwrap_or_else(|failure| panic!("{failure}")));
    }
    assert_busy(&total, 400);
}

#[tokio::test]
async fn reports_of_one_client_that_cross_leave_nothing_unseen() {
    let (mut crossed, mut refused) = (0, 0);
    for seed in 0..2_000 {
        let clock = lockstep::clock();
        let store: Arc<dyn Rows> = Arc::new(Plain(MemoryStore::new(clock.clone())));
        let one = crossed::run(seed, &clock, &[("memory", store)]).await;
        let one = one.unwrap_or_else(|failure| panic!("{failure}"));
        crossed += one.crossed;
        refused += one.refused;
    }
    assert!(crossed > 400 && refused > 400, "{crossed} crossed, {refused} refused");
}

#[tokio::test]
async fn three_stores_agree_whose_report_counts() {
    let mut total = Outcome::default();
    for seed in 0..40 {
        let clock = lockstep::clock();
        let directory = tempfile::tempdir().expect("a temporary folder");
        let database = flovyn_testkit::fresh_database().await;
        let stores: Vec<(&str, Arc<dyn Rows>)> = vec![
            ("memory", Arc::new(Plain(MemoryStore::new(clock.clone())))),
            ("sqlite", open::sqlite(directory.path(), clock.clone()).expect("SQLite opens")),
            ("postgres", open::postgres(&database.url, clock.clone()).await.expect("PostgreSQL opens")),
        ];
        let one = reports::run(seed, &clock, &stores).await;
        add(&mut total, &one.unwrap_or_else(|failure| panic!("{failure}")));
    }
    assert_busy(&total, 40);
}
