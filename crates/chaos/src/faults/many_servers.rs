//! SIGKILL for one of several servers, sometimes while another server is frozen and holds locks, claims and
//! connections.

use std::time::{Duration, Instant};

use flovyn_sim::rng::Rng;

use super::{Harm, Schedule};
use crate::received::Ledger;
use crate::world::World;

/// In percent: how often another server is frozen meanwhile.
const STOPPED: usize = 33;
/// How long the frozen server stays frozen after the killed one is ready, at most.
const STANDS_STILL_MS: usize = 2_000;

pub(super) async fn run(
    world: &mut World,
    ledger: &Ledger,
    rng: &mut Rng,
    schedule: Schedule,
) -> Result<Harm, String> {
    let mut harm = Harm::default();
    let mut spent = Duration::ZERO;
    while schedule.next_after(rng, spent).await {
        let begin = Instant::now();
        let killed = rng.below(world.servers.len());
        // The second fault of a run freezes a server, so that a short run has one.
        let stops = harm.kills == 1 || rng.chance(STOPPED);
        let stopped = (killed + 1) % world.servers.len();
        if stops {
            harm.count(ledger);
            world.servers[stopped].signal("STOP").await;
        }
        harm.count(ledger);
        let took = world.kill_server(killed).await;
        if stops {
            tokio::time::sleep(Duration::from_millis(rng.below(STANDS_STILL_MS) as u64)).await;
            world.servers[stopped].signal("CONT").await;
        }
        let took = took?;
        let meanwhile = if stops { format!(", server {stopped} was frozen") } else { String::new() };
        let acknowledged = ledger.acknowledged();
        eprintln!(
            "server {killed} was killed and is ready after {took:?}{meanwhile}; {acknowledged} acknowledged"
        );
        harm.recovered(took);
        spent = begin.elapsed();
    }
    Ok(harm)
}
