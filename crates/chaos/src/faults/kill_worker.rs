//! Workers that die, and workers that are stopped for longer than their lease and then continue.

use std::time::Duration;

use flovyn_sim::rng::Rng;
use flovyn_testkit::send_signal;

use super::{Harm, Schedule};
use crate::WORKER_LEASE_MS;
use crate::received::Ledger;
use crate::runs::now_ms;
use crate::world::World;

/// How much longer than its lease a worker is stopped, at most. If it wakes up early, others are still doing its work.
const BEYOND_LEASE_MS: usize = 600;

pub(super) async fn run(
    world: &mut World,
    ledger: &Ledger,
    rng: &mut Rng,
    schedule: Schedule,
) -> Result<Harm, String> {
    let mut harm = Harm::default();
    while schedule.next(rng).await {
        let index = rng.below(world.workers.len());
        let id = world.workers[index].id;
        harm.count(ledger);
        harm.silenced.push((id, now_ms()));
        // The first two faults are one of each kind, so that a short run has both.
        let stops = if harm.kills <= 2 { harm.kills == 1 } else { rng.chance(50) };
        if stops {
            send_signal(id, "STOP").await;
            let beyond = Duration::from_millis(rng.below(BEYOND_LEASE_MS) as u64);
            tokio::time::sleep(Duration::from_millis(WORKER_LEASE_MS) + beyond).await;
            send_signal(id, "CONT").await;
        } else {
            let killed = world.workers.swap_remove(index);
            let nature = killed.nature;
            killed.kill().await;
            world.start_worker_as(index, nature).await?;
        }
        let what = if stops { "stopped beyond its lease" } else { "killed" };
        eprintln!("worker {id} was {what}; {} acknowledged", ledger.acknowledged());
    }
    Ok(harm)
}
