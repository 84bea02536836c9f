//! Shows that the simulator finds bugs: with each planted bug, the check that is named for it fails.

use std::sync::Arc;

use flovyn_engine::planted::{Bug, plant};
use flovyn_store::memory::MemoryStore;

use super::{Plan, Violation, run};
use crate::lockstep::{self, Rows};
use crate::open::Plain;
use crate::reports;

/// Two workers and one task or workflow, in a random order: [`reports`].
const REPORTS: &str = "P4 reports";

/// The check that catches a bug.
pub fn check_for(bug: Bug) -> &'static str {
    match bug {
        Bug::VersionNotChecked => "P6",
        Bug::StaleReportAccepted => "P4 stale claim",
        Bug::TokenlessReportAccepted => REPORTS,
        Bug::StaleActivationAccepted => "P4 stale claim",
        Bug::TerminalEventTwice => "P3",
        Bug::TimerFiresEarly => "P8",
        Bug::KeyNotChecked => "P2 key",
        Bug::TenantLeftOutOfKey => "P2 key",
        Bug::RetryLost => "P6",
        Bug::WakeUpLost => "P6",
        Bug::EndedOverUnseenSignal => "P11",
        Bug::RetakenBySameBuild => "held back",
        Bug::RefusalHangs => "P12",
        Bug::KeyFreedWhileOpen => "P13",
        Bug::HandOffWithoutToken => "P4 claim",
        Bug::UnknownOutcomeRetried => "P5 start",
        Bug::AcknowledgedBeforeCommit => "P1 start",
    }
}

/// The result of searching for a planted bug.
#[derive(Debug)]
pub struct Hunt {
    pub bug: Bug,
    /// The first seed on which its check failed.
    pub caught: Option<u64>,
    /// Failures of other checks on the seeds before.
    pub others: Vec<(u64, Violation)>,
}

/// Runs up to `most` seeds with the bug, until its check fails.
pub fn hunt(bug: Bug, most: u64) -> Hunt {
    let mut hunt = Hunt { bug, caught: None, others: Vec::new() };
    plant(Some(bug));
    for seed in 1..=most {
        let violation = match check_for(bug) {
            REPORTS => reported(seed),
            _ => run(&Plan::new(seed)).violation,
        };
        match violation {
            Some(violation) if violation.check == check_for(bug) => {
                hunt.caught = Some(seed);
                break;
            }
            Some(violation) => hunt.others.push((seed, violation)),
            None => {}
        }
    }
    plant(None);
    hunt
}

/// Runs [`reports`] instead of whole servers. With whole servers, a stale report rarely arrives just
/// while another worker has the work.
fn reported(seed: u64) -> Option<Violation> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime needs nothing");
    let clock = lockstep::clock();
    let store: Arc<dyn Rows> = Arc::new(Plain(MemoryStore::new(clock.clone())));
    let ran = runtime.block_on(reports::run(seed, &clock, &[("memory", store)]));
    ran.err().map(|message| Violation { check: REPORTS, message })
}
