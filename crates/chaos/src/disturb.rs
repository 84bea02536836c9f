//! Random work with repeated faults, and a check of the result.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flovyn_sdk::Client;
use flovyn_sim::rng::Rng;
use serde_json::json;

use crate::check::{self, Findings};
use crate::faults::{self, Schedule};
use crate::load::{self, Load};
use crate::outcomes::Outcomes;
use crate::programs::Shape;
use crate::received::Ledger;
use crate::report::Figures;
use crate::runs::Runs;
use crate::world::{Plan, World};
use crate::{Options, measured};

/// How long work may take after the last fault.
const SETTLE: Duration = Duration::from_secs(60);
/// How many checks in a row must find no open work. Work may change its status between two queries of one check.
const CLEAN_LOOKS: usize = 3;

/// Runs the load and the faults, then checks the result.
pub(crate) async fn run(options: &Options, binary: &Path, seed: u64) -> Result<(Figures, Findings), String> {
    let test = options.test;
    let plan = Plan { plain_percent: options.plain_percent(), ..test.plan(options.store) };
    let mut world = World::start(binary, options.store, plan).await?;
    let until = Instant::now() + Duration::from_secs(options.seconds);
    let ledger = Arc::new(Ledger::default());
    let load = Load { in_flight: options.in_flight, work_ms: test.work_ms(), settle: SETTLE };
    let clients = world.clients()?;
    let loading = tokio::spawn(load::run(load, clients.clone(), ledger.clone(), seed, until));
    let schedule = Schedule { until, pause_ms: test.pause_ms(options.seconds) };
    let mut rng = Rng::new(seed.wrapping_add(1));
    let harm = faults::run(test, &mut world, &ledger, &mut rng, schedule).await?;
    loading.await.map_err(|error| error.to_string())?;
    settle(&clients[0], until + SETTLE).await;
    let store = world.end().await?;
    let snapshot = store.snapshot().await.map_err(|error| error.to_string())?;
    let now = store.now().await.map_err(|error| error.to_string())?;
    drop(store);
    let (received, runs) = (ledger.all(), Runs::read(world.folder())?);
    let outcomes = Outcomes::read(world.folder(), world.plain.clone())?;
    let mut found = check::check(&snapshot, now, &received, &runs, &outcomes);
    found.doctor(world.doctor().await?);
    let figures = Figures {
        acknowledged: ledger.acknowledged(),
        unanswered: received.len() - ledger.acknowledged(),
        runs: runs.count(),
        kills: harm.kills,
        kills_in_flight: harm.kills_in_flight,
        refused: world.refused,
        plain_outcomes: outcomes.count_plain(),
        recovery_ms: harm.recovery_ms,
        redelivery_ms: measured::redeliveries_ms(&snapshot, &harm.silenced),
        timer_late_ms: measured::timers_late_ms(&snapshot),
        more: vec![
            ("plain_workers_percent", json!(plan.plain_percent)),
            ("outcomes_acknowledged", json!(outcomes.count())),
            ("of_them_without_tokens", json!(outcomes.count_plain())),
            ("counted_for_a_later_claim", json!(found.for_later_claim)),
            ("reports_lost_and_not_repeated", json!(outcomes.lost_reports)),
        ],
    };
    if found.count() > 0 {
        eprintln!("the files of this run are in {}", world.keep().display());
    }
    Ok((figures, found))
}

/// Waits for work whose start was not answered: it may have started.
async fn settle(client: &Client, until: Instant) {
    let mut clean = 0;
    while clean < CLEAN_LOOKS && Instant::now() < until {
        clean = if is_open(client).await { 0 } else { clean + 1 };
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn is_open(client: &Client) -> bool {
    for shape in Shape::ALL.iter().filter(|shape| shape.ends_alone() && **shape != Shape::Task) {
        for status in ["PENDING", "RUNNING", "WAITING"] {
            if client.list(Some(shape.kind()), Some(status), 1).await.is_ok_and(|found| !found.is_empty()) {
                return true;
            }
        }
    }
    false
}
