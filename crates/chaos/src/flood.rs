//! One tenant sends as many requests as it can. A quiet tenant is timed before the flood and during it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use flovyn_sdk::{Client, StartOptions};
use futures::future::join_all;
use serde_json::json;

use crate::Options;
use crate::check::Findings;
use crate::report::{Figures, percentile};
use crate::world::{OTHER_TOKEN, Plan, TOKEN, World};

const QUIET_CLIENTS: usize = 4;
const FLOODERS: usize = 64;
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) async fn run(options: &Options, binary: &Path) -> Result<(Figures, Findings), String> {
    let mut world = World::start(binary, options.store, Plan::default()).await?;
    world.start_worker_of(0, TOKEN).await?;
    world.start_worker_of(0, OTHER_TOKEN).await?;
    let url = world.servers[0].grpc_url.clone();
    let client = |token| Client::new(&url, token).map_err(|error| error.to_string());
    let (quiet, flooding) = (client(TOKEN)?, client(OTHER_TOKEN)?);
    let half = Duration::from_secs(options.seconds) / 2;
    let mut found = Findings::default();
    let before = timed(&quiet, half, &mut found).await;
    eprintln!("alone: {} workflows", before.len());
    let (stop, flooded) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let flood =
        tokio::spawn(join_all((0..FLOODERS).map(|_| flood(flooding.clone(), stop.clone(), flooded.clone()))));
    let meanwhile = timed(&quiet, half, &mut found).await;
    stop.store(true, Ordering::Relaxed);
    flood.await.map_err(|error| error.to_string())?;
    let flooded = flooded.load(Ordering::Relaxed);
    eprintln!("beside {flooded} of the other tenant: {} workflows", meanwhile.len());
    let mut figures =
        Figures { acknowledged: before.len() + meanwhile.len() + flooded, ..Figures::default() };
    figures.more = vec![
        ("alone_p50_ms", percentile(&before, 50)),
        ("alone_p99_ms", percentile(&before, 99)),
        ("flooded_p50_ms", percentile(&meanwhile, 50)),
        ("flooded_p99_ms", percentile(&meanwhile, 99)),
        ("flood_workflows", json!(flooded)),
    ];
    drop(world.end().await?);
    found.doctor(world.doctor().await?);
    Ok((figures, found))
}

/// How long each workflow of the quiet tenant took, in milliseconds.
async fn timed(client: &Client, span: Duration, found: &mut Findings) -> Vec<u64> {
    let until = Instant::now() + span;
    let one = async || {
        let mut took = Vec::new();
        while Instant::now() < until {
            let begin = Instant::now();
            let input = json!({ "number": 1 });
            let done = client.execute_raw("noop", input, StartOptions::default(), PATIENCE).await;
            took.push(done.map(|_| u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX)));
        }
        took
    };
    let all = join_all((0..QUIET_CLIENTS).map(|_| one())).await.into_iter().flatten();
    let mut took = Vec::new();
    for one in all {
        match one {
            Ok(ms) => took.push(ms),
            Err(error) => found.stuck(format!("the quiet tenant received the error '{error}'")),
        }
    }
    took
}

async fn flood(client: Client, stop: Arc<AtomicBool>, done: Arc<AtomicUsize>) {
    while !stop.load(Ordering::Relaxed) {
        let input = json!({ "number": 1 });
        // Refusals are expected during a flood.
        if client.execute_raw("fanout", input, StartOptions::default(), PATIENCE).await.is_ok() {
            done.fetch_add(1, Ordering::Relaxed);
        }
    }
}
