//! The faults, one file for each kind: each causes faults until the time is over, and records them.

mod commit_replies;
mod disk_errors;
mod kill_all;
mod kill_server;
mod kill_worker;
mod many_servers;
mod postgres_restart;

use std::time::{Duration, Instant};

use flovyn_sim::rng::Rng;

use crate::received::Ledger;
use crate::test::Test;
use crate::world::World;

/// A record of the faults of a run.
#[derive(Debug, Default)]
pub(crate) struct Harm {
    pub(crate) kills: usize,
    pub(crate) kills_in_flight: usize,
    pub(crate) recovery_ms: Vec<u64>,
    /// Processes of workers, and when each fell silent.
    pub(crate) silenced: Vec<(u32, u64)>,
}

impl Harm {
    fn count(&mut self, ledger: &Ledger) {
        self.kills += 1;
        self.kills_in_flight += usize::from(ledger.is_busy());
    }

    fn recovered(&mut self, after: Duration) {
        self.recovery_ms.push(u64::try_from(after.as_millis()).unwrap_or(u64::MAX));
    }
}

/// The end of the faults, and their frequency.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Schedule {
    pub(crate) until: Instant,
    /// Bounds of the pause between two faults.
    pub(crate) pause_ms: (usize, usize),
}

impl Schedule {
    /// Waits for the next fault. `false`: the time is over.
    async fn next(&self, rng: &mut Rng) -> bool {
        self.next_after(rng, Duration::ZERO).await
    }

    /// Waits for the next fault; `spent` is the part of the pause that is over already.
    async fn next_after(&self, rng: &mut Rng, spent: Duration) -> bool {
        let (shortest, longest) = self.pause_ms;
        let pause = Duration::from_millis((shortest + rng.below(longest - shortest)) as u64);
        let pause = pause.saturating_sub(spent);
        tokio::time::sleep(pause.min(self.until.saturating_duration_since(Instant::now()))).await;
        Instant::now() < self.until
    }
}

pub(crate) async fn run(
    test: Test,
    world: &mut World,
    ledger: &Ledger,
    rng: &mut Rng,
    schedule: Schedule,
) -> Result<Harm, String> {
    match test {
        Test::ManyServers => many_servers::run(world, ledger, rng, schedule).await,
        Test::KillAll => kill_all::run(world, ledger, rng, schedule).await,
        Test::KillServer => kill_server::run(world, ledger, rng, schedule).await,
        Test::KillWorker => kill_worker::run(world, ledger, rng, schedule).await,
        Test::PostgresRestart => postgres_restart::run(world, ledger, rng, schedule).await,
        Test::CommitReplies => commit_replies::run(world, ledger, rng, schedule).await,
        Test::DiskErrors => disk_errors::run(world, ledger, rng, schedule).await,
        _ => Err(format!("{} causes its own faults", test.name())),
    }
}
