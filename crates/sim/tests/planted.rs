//! Each planted bug is caught by the check that is named for it.

use flovyn_engine::planted::Bug;
use flovyn_sim::servers::planted::{check_for, hunt};

const SEEDS: u64 = 80;

#[test]
fn every_planted_bug_is_caught_by_its_check() {
    let missed: Vec<String> = Bug::ALL
        .iter()
        .map(|bug| hunt(*bug, SEEDS))
        .filter(|hunt| hunt.caught.is_none())
        .map(|hunt| format!("{}: {} never failed", hunt.bug.name(), check_for(hunt.bug)))
        .collect();
    assert!(missed.is_empty(), "{missed:?}");
}
