//! kill -9 of a server, sometimes while it is still starting.

use std::time::Duration;

use flovyn_sim::rng::Rng;

use super::{Harm, Schedule};
use crate::received::Ledger;
use crate::world::World;

/// In percent: how often a restarted server is killed before it is ready.
const AT_START: usize = 20;

pub(super) async fn run(
    world: &mut World,
    ledger: &Ledger,
    rng: &mut Rng,
    schedule: Schedule,
) -> Result<Harm, String> {
    let mut harm = Harm::default();
    while schedule.next(rng).await {
        let index = rng.below(world.servers.len());
        harm.count(ledger);
        if rng.chance(AT_START) {
            let server = &mut world.servers[index];
            server.kill().await;
            server.start().map_err(|error| error.to_string())?;
            tokio::time::sleep(Duration::from_millis(rng.below(100) as u64)).await;
            harm.count(ledger);
        }
        let took = world.kill_server(index).await?;
        eprintln!(
            "server {index} was killed and is ready after {took:?}; {} acknowledged",
            ledger.acknowledged()
        );
        harm.recovered(took);
    }
    Ok(harm)
}
