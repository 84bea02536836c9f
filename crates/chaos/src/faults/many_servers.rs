//! kill -9 of one server of several, now and then while another one stands still: it holds locks, claims and connections.

use std::time::{Duration, Instant};

use flovyn_sim::rng::Rng;

use super::{Harm, Schedule};
use crate::told::Ledger;
use crate::world::World;

/// In percent: how often another server is stopped meanwhile.
const STOPPED: usize = 33;
/// How much longer than the other's restart it stands still, at most.
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
        // The second fault of a run is a stop: a short run, too, has one.
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
        let meanwhile = if stops { format!(", server {stopped} stood still") } else { String::new() };
        let acknowledged = ledger.acknowledged();
        eprintln!(
            "server {killed} was killed and is ready after {took:?}{meanwhile}; {acknowledged} acknowledged"
        );
        harm.recovered(took);
        spent = begin.elapsed();
    }
    Ok(harm)
}
