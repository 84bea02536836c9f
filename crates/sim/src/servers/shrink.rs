//! Shrinks a failing run: fewer kinds of faults, fewer faults, fewer operations, as long as the same check fails.

use super::{Plan, Run, run};

/// The most runs that shrinking may take.
const RUNS: usize = 60;

/// The smallest plan on which the check of this run still fails, and its run.
pub fn shrink(plan: &Plan, failed: Run) -> (Plan, Run) {
    let Some(check) = failed.violation.as_ref().map(|violation| violation.check) else {
        return (plan.clone(), failed);
    };
    let mut best = (plan.clone(), failed);
    let mut left = RUNS;
    let mut try_one = |best: &mut (Plan, Run), candidate: Plan| {
        if left == 0 {
            return false;
        }
        left -= 1;
        let run = run(&candidate);
        let fails = run.violation.as_ref().is_some_and(|violation| violation.check == check);
        if fails {
            *best = (candidate, run);
        }
        fails
    };
    for fault in plan.allowed.kinds.clone() {
        let mut candidate = best.0.clone();
        candidate.allowed.kinds.remove(&fault);
        try_one(&mut best, candidate);
    }
    for operations in [1, 2, 4] {
        let candidate = Plan { operations, ..best.0.clone() };
        if operations < best.0.operations && try_one(&mut best, candidate) {
            break;
        }
    }
    loop {
        let struck: usize = best.1.figures.faults.values().sum();
        let with_most = |most: usize| {
            let mut candidate = best.0.clone();
            candidate.allowed.most = most;
            candidate
        };
        let candidates: Vec<Plan> =
            [struck / 2, struck * 3 / 4, struck.saturating_sub(1)].map(with_most).into();
        let smaller = struck > 0 && candidates.into_iter().any(|candidate| try_one(&mut best, candidate));
        if !smaller {
            return best;
        }
    }
}
