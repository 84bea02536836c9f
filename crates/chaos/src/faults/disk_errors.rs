//! The disk is full, or fails to write or to sync. A full disk is waited out; after a failure nobody knows what is on the disk,
//! so the server must end, say why, and start again from what is there.

use std::time::{Duration, Instant};

use flovyn_sim::rng::Rng;

use super::{Harm, Schedule};
use crate::told::Ledger;
use crate::world::World;

const FAULTS: [&str; 3] = ["full", "write-error", "sync-error"];
/// How long a disk stays full.
const FULL: Duration = Duration::from_millis(500);
/// A server whose disk fails has to end within this time; and go on within it when there is room again.
const WITHIN: Duration = Duration::from_secs(20);

pub(super) async fn run(
    world: &mut World,
    ledger: &Ledger,
    rng: &mut Rng,
    schedule: Schedule,
) -> Result<Harm, String> {
    let mut harm = Harm::default();
    while schedule.next(rng).await {
        let fault = FAULTS[harm.kills % FAULTS.len()];
        harm.count(ledger);
        let begin = Instant::now();
        world.disk_fails(fault)?;
        let took = if fault == "full" {
            tokio::time::sleep(FULL).await;
            world.disk_works()?;
            goes_on(world, ledger, schedule).await?
        } else {
            starts_again(world, fault).await?
        };
        eprintln!(
            "{fault}: served again after {:?}; {} acknowledged",
            begin.elapsed(),
            ledger.acknowledged()
        );
        harm.recovered(took);
    }
    Ok(harm)
}

/// There is room again: the same process goes on by itself. Once the load has ended nothing is acknowledged any more; whether it went
/// on is then told by what was accepted before and has to come to its end.
async fn goes_on(world: &mut World, ledger: &Ledger, schedule: Schedule) -> Result<Duration, String> {
    let (begin, acknowledged) = (Instant::now(), ledger.acknowledged());
    while ledger.acknowledged() == acknowledged {
        let server = &mut world.servers[0];
        let load_has_ended = Instant::now() >= schedule.until;
        if load_has_ended && server.is_running() {
            break;
        }
        if !server.is_running() || begin.elapsed() > WITHIN {
            return Err(format!("the server did not go on after a full disk:\n{}", server.log_tail()));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    says(world, "disk full")?;
    Ok(begin.elapsed())
}

async fn starts_again(world: &mut World, fault: &str) -> Result<Duration, String> {
    if !world.servers[0].ended(WITHIN).await {
        return Err(format!("the server goes on although its disk fails ({fault})"));
    }
    says(world, "storage has failed for good")?;
    world.disk_works()?;
    world.kill_server(0).await
}

fn says(world: &World, what: &str) -> Result<(), String> {
    let server = &world.servers[0];
    let said = server.log().contains(what);
    if said { Ok(()) } else { Err(format!("the log does not say '{what}':\n{}", server.log_tail())) }
}
