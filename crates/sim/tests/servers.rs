//! Servers, workers and clients in virtual time, with faults: a short version of `cargo xtask sim --seeds N`.

use flovyn_sim::servers::{Fault, Figures, Plan, run};

fn run_all(seeds: [u64; 5]) -> Figures {
    let mut total = Figures::default();
    for seed in seeds {
        let run = run(&Plan::new(seed));
        if let Some(violation) = run.violation {
            let from = run.trace.len().saturating_sub(60);
            panic!("seed {seed}: {violation}\n{}", run.trace[from..].join("\n"));
        }
        total.add(&run.figures);
    }
    let missing: Vec<_> =
        Fault::ALL.iter().filter(|fault| !total.faults.contains_key(fault.name())).collect();
    assert!(missing.is_empty(), "these faults never occurred: {missing:?}");
    assert!(total.acknowledged > 50 * seeds.len(), "{total:?}");
    assert!(total.stale > 0, "{total:?}");
    total
}

#[test]
fn promises_hold_where_rows_are_locked() {
    run_all([2, 4, 6, 8, 10]);
}

#[test]
fn promises_hold_where_versions_alone_keep_writers_apart() {
    let total = run_all([1, 3, 5, 7, 9]);
    assert!(total.met > 0, "{total:?}");
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in [4, 5] {
        let (first, second) = (run(&Plan::new(seed)), run(&Plan::new(seed)));
        let differs = first.trace.iter().zip(&second.trace).position(|(one, other)| one != other);
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!(first, second);
        assert!(first.trace.len() > 200, "a run that does nothing shows nothing");
    }
}
