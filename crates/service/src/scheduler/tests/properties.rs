//! Properties that hold for any events in any order. Batches are answered in order where the policy asks for it; no
//! request is lost or in two batches; no tenant starves; nothing runs beside a provisional start.

use super::model::Model;
use super::*;

const SEEDS: u64 = 60;
const STEPS: usize = 400;

/// Returns the number of second batches and of provisional starts.
fn run<P: Policy + 'static>(policy: impl Fn() -> P) -> (usize, usize) {
    let (mut second_batches, mut notified) = (0, 0);
    for seed in 1..=SEEDS {
        let mut model = Model::new(policy(), seed);
        let said = std::panic::AssertUnwindSafe(|| {
            for _ in 0..STEPS {
                model.step();
            }
            let model = model.stop();
            (model.second_batches, model.notified)
        });
        match std::panic::catch_unwind(said) {
            Ok((second, early)) => {
                second_batches += second;
                notified += early;
            }
            Err(_) => panic!("seed {seed}"),
        }
    }
    (second_batches, notified)
}

#[test]
fn in_this_process() {
    let (second_batches, notified) = run(in_process);
    assert!(second_batches > 30 && notified > 50, "{second_batches}, {notified}");
}

#[test]
fn with_a_database_elsewhere() {
    let (second_batches, notified) = run(elsewhere);
    assert!(second_batches > 30 && notified == 0, "{second_batches}, {notified}");
}

#[test]
fn without_any_trick() {
    let tricks = Tricks::without("claim_turns,first_steps,adaptive_pace,stay_awake").unwrap();
    assert_eq!(run(|| InProcess { from: None, tricks, ..in_process() }), (0, 0));
}
