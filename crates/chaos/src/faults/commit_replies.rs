//! The database commits, and the server does not hear of it.

use std::time::{Duration, Instant};

use flovyn_sim::rng::Rng;
use flovyn_testkit::CommitFault;

use super::{Harm, Schedule};
use crate::told::Ledger;
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
            // The server looks after its lost commit while that is still on its way.
            tokio::time::sleep(Duration::from_millis(rng.below(50) as u64)).await;
            ordered.release().await;
        }
        // Whoever waited for the batch has been answered when another start is.
        let acknowledged = ledger.acknowledged();
        while ledger.acknowledged() == acknowledged && Instant::now() < schedule.until {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        harm.recovered(begin.elapsed());
    }
    eprintln!("{} commits lost their reply; {} acknowledged", harm.kills, ledger.acknowledged());
    Ok(harm)
}
