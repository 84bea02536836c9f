//! The disk is full, or fails to write or to sync. A server waits until a full disk has space again. After a failure
//! the content of the disk is unknown, so the server must end with a message, and start again from the stored data.

use std::time::{Duration, Instant};

use flovyn_sim::rng::Rng;

use super::{Harm, Schedule};
use crate::received::Ledger;
use crate::world::World;

const FAULTS: [&str; 3] = ["full", "write-error", "sync-error"];
/// How long a disk stays full.
const FULL: Duration = Duration::from_millis(500);
/// A server whose disk fails must end within this time. After a full disk has space again, it must continue within it.
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

/// The disk has space again: the same process must continue. After the end of the load nothing new is acknowledged;
/// then the check that accepted work completes shows whether the server has continued.
async fn goes_on(world: &mut World, ledger: &Ledger, schedule: Schedule) -> Result<Duration, String> {
    let (begin, acknowledged) = (Instant::now(), ledger.acknowledged());
    while ledger.acknowledged() == acknowledged {
        let server = &mut world.servers[0];
        let load_has_ended = Instant::now() >= schedule.until;
        if load_has_ended && server.is_running() {
            break;
        }
        if !server.is_running() || begin.elapsed() > WITHIN {
            return Err(format!("the server did not continue after a full disk:\n{}", server.log_tail()));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    says(world, "disk full")?;
    Ok(begin.elapsed())
}

async fn starts_again(world: &mut World, fault: &str) -> Result<Duration, String> {
    if !world.servers[0].ended(WITHIN).await {
        return Err(format!("the server continues although its disk fails ({fault})"));
    }
    says(world, "storage has failed permanently")?;
    world.disk_works()?;
    world.kill_server(0).await
}

fn says(world: &World, what: &str) -> Result<(), String> {
    let server = &world.servers[0];
    let said = server.log().contains(what);
    if said { Ok(()) } else { Err(format!("the log does not say '{what}':\n{}", server.log_tail())) }
}
