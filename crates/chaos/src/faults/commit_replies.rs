//! The database commits, but the server does not receive the reply.

use std::time::{Duration, Instant};

use flovyn_sim::rng::Rng;
use flovyn_testkit::CommitFault;

use super::{Harm, Schedule};
use crate::received::Ledger;
use crate::world::World;

pub(super) async fn run(
    world: &mut World,
    ledger: &Ledger,
    rng: &mut Rng,
    schedule: Schedule,
) -> Result<Harm, String> {
    let mut harm = Harm::default();
    let proxy = world.proxy.as_ref().ok_or("there is no proxy")?;
    while schedule.next(rng).await {
        let fault = rng.of([CommitFault::CutReply, CommitFault::CutReply, CommitFault::HoldCommitAndCut]);
        let mut ordered = proxy.at_next_commit(fault);
        let left = schedule.until.saturating_duration_since(Instant::now());
        if tokio::time::timeout(left, ordered.happened()).await.is_err() {
            break;
        }
        let begin = Instant::now();
        harm.count(ledger);
        if fault == CommitFault::HoldCommitAndCut {
            // The server checks its lost commit while the commit may still be running.
            tokio::time::sleep(Duration::from_millis(rng.below(50) as u64)).await;
            ordered.release().await;
        }
        // When another start is acknowledged, the clients of the lost batch have been answered.
        let acknowledged = ledger.acknowledged();
        while ledger.acknowledged() == acknowledged && Instant::now() < schedule.until {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        harm.recovered(begin.elapsed());
    }
    eprintln!("{} commits lost their reply; {} acknowledged", harm.kills, ledger.acknowledged());
    Ok(harm)
}
