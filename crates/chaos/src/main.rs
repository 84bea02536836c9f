//! Real servers and workers as processes, random work, and harm: killed, stopped and cut off. Then the database is held
//! against what clients were told. One JSON line on stdout, progress on stderr; any broken promise is a failure.

mod booted_together;
mod check;
mod faults;
mod load;
mod programs;
mod report;
mod runs;
mod told;
mod worker;
mod world;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, Parser, Subcommand, ValueEnum};
use flovyn_sdk::Client;
use flovyn_sim::rng::Rng;
use serde_json::json;

use crate::check::Findings;
use crate::faults::Schedule;
use crate::load::Load;
use crate::programs::Shape;
use crate::report::{Figures, Minimum};
use crate::runs::Runs;
use crate::told::Ledger;
use crate::world::{Plan, World};

/// Short, so that a run sees many leases end; heartbeats come three times as often.
pub(crate) const WORKER_LEASE_MS: u64 = 3_000;
/// How long work may take once nobody does harm any more.
const SETTLE: Duration = Duration::from_secs(60);
/// Looks in a row that must find no open work: it may change its status between two questions of one look.
const CLEAN_LOOKS: usize = 3;

#[derive(Parser)]
#[command(
    about = "Kills, stops and cuts off Flovyn's processes, and checks that nothing that was promised is broken"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Do harm for a while, then check.
    Run(Options),
    /// A worker of a run.
    #[command(hide = true)]
    Worker {
        #[arg(long)]
        url: String,
        #[arg(long)]
        token: String,
        #[arg(long)]
        folder: PathBuf,
        #[arg(long)]
        slots: u32,
    },
}

#[derive(Args)]
struct Options {
    #[arg(long, value_enum)]
    test: Test,
    /// PostgreSQL needs FLOVYN_TEST_POSTGRES, which `cargo xtask chaos` sets.
    #[arg(long, value_enum, default_value_t = Database::Sqlite)]
    store: Database,
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Repeats the choices of an earlier run: shapes, pauses, victims. Which request meets which fault is up to the machine.
    #[arg(long)]
    seed: Option<u64>,
    /// Pieces of work under way at once.
    #[arg(long, default_value_t = 48)]
    in_flight: usize,
    /// Tasks of dead workers, for `booted-together`.
    #[arg(long, default_value_t = 10_000)]
    tasks: usize,
    /// The server to run; by default the one beside this program.
    #[arg(long)]
    binary: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Test {
    /// kill -9 of the server every few seconds.
    KillServer,
    /// Workers killed, or stopped past their lease.
    KillWorker,
    /// Three servers on one PostgreSQL; kill -9 of one every 3 seconds.
    ManyServers,
    /// PostgreSQL restarted, in order or as after a crash.
    PostgresRestart,
    /// Replies to COMMIT that never arrive.
    CommitReplies,
    /// Ten servers start at the same instant on tasks of dead workers.
    BootedTogether,
}

impl Test {
    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    fn needs_postgres(self) -> bool {
        !matches!(self, Self::KillServer | Self::KillWorker)
    }

    fn plan(self) -> Plan {
        let plan = Plan { servers: 1, workers: 2, session_lease_ms: WORKER_LEASE_MS, proxied: false };
        match self {
            Self::ManyServers => Plan { servers: 3, workers: 3, ..plan },
            Self::KillWorker => Plan { workers: 3, ..plan },
            Self::CommitReplies => Plan { proxied: true, ..plan },
            _ => plan,
        }
    }

    /// Bounds of the pause between two faults. Short runs cannot wait as long.
    fn pause_ms(self, seconds: u64) -> (usize, usize) {
        let short = seconds < 30;
        match self {
            Self::KillServer if short => (500, 2_000),
            Self::KillServer => (2_000, 5_000),
            Self::ManyServers if short => (1_000, 2_000),
            Self::ManyServers => (2_900, 3_100),
            Self::KillWorker => (300, 1_500),
            Self::PostgresRestart if short => (2_000, 4_000),
            Self::PostgresRestart => (5_000, 15_000),
            Self::CommitReplies | Self::BootedTogether => (50, 300),
        }
    }

    /// Below this a run shows nothing: a tenth of what a slow machine does.
    fn minimum(self, seconds: u64) -> Minimum {
        let (_, longest) = self.pause_ms(seconds);
        let faults = usize::try_from(seconds * 1_000).unwrap_or(usize::MAX) / (longest * 10);
        Minimum {
            acknowledged: usize::try_from(seconds).unwrap_or(usize::MAX).max(20),
            kills_in_flight: faults.max(2),
            refused: u64::from(self == Self::KillWorker),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Database {
    Sqlite,
    Postgres,
}

#[tokio::main]
async fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Worker { url, token, folder, slots } => worker::run(&url, &token, &folder, slots).await,
        Command::Run(options) => run(options).await,
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("{what}");
            ExitCode::FAILURE
        }
    }
}

async fn run(options: Options) -> Result<(), String> {
    let test = options.test;
    if test.needs_postgres() && options.store == Database::Sqlite {
        return Err(format!("{} needs --store postgres", test.name()));
    }
    let binary = options.binary.clone().map_or_else(beside_this_one, Ok)?;
    let seed = options.seed.unwrap_or_else(runs::now_ms);
    eprintln!("{} on {:?} for {} s, seed {seed}", test.name(), options.store, options.seconds);
    let (figures, found, minimum) = if test == Test::BootedTogether {
        let patience = Duration::from_secs(options.seconds.max(60));
        let (figures, found) = booted_together::run(&binary, options.store, options.tasks, patience).await?;
        (figures, found, Minimum { acknowledged: options.tasks, kills_in_flight: 2, refused: 0 })
    } else {
        let (figures, found) = disturb(&options, &binary, seed).await?;
        (figures, found, test.minimum(options.seconds))
    };
    let head = [
        ("chaos", json!(test.name())),
        ("store", json!(format!("{:?}", options.store).to_lowercase())),
        ("seconds", json!(options.seconds)),
        ("seed", json!(seed)),
    ];
    print_line(&figures.line(&head, &found));
    found.messages.iter().for_each(|message| eprintln!("{message}"));
    match (found.count(), figures.shortfall(minimum)) {
        (0, None) => Ok(()),
        (0, Some(short)) => Err(format!("the run does not count: {short}")),
        (count, _) => Err(format!("{count} broken promises; run it again with --seed {seed}")),
    }
}

/// Work, harm, and what is left of it.
async fn disturb(options: &Options, binary: &Path, seed: u64) -> Result<(Figures, Findings), String> {
    let test = options.test;
    let mut world = World::start(binary, options.store, test.plan()).await?;
    let until = Instant::now() + Duration::from_secs(options.seconds);
    let ledger = Arc::new(Ledger::default());
    let load = Load { in_flight: options.in_flight, work_ms: 300, settle: SETTLE };
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
    let (told, runs) = (ledger.all(), Runs::read(world.folder())?);
    let found = check::check(&snapshot, now, &told, &runs);
    let figures = Figures {
        acknowledged: ledger.acknowledged(),
        unanswered: told.len() - ledger.acknowledged(),
        runs: runs.count(),
        kills: harm.kills,
        kills_in_flight: harm.kills_in_flight,
        refused: world.refused,
        recovery_ms: harm.recovery_ms,
        redelivery_ms: runs.redeliveries_ms(&harm.silenced),
    };
    if found.count() > 0 {
        eprintln!("the files of this run are in {}", world.keep().display());
    }
    Ok((figures, found))
}

/// Waits for work whose start nobody answered: it may run all the same.
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

fn beside_this_one() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let binary = own.with_file_name("flovyn");
    let missing = || format!("{} is not there: run `cargo build` first", binary.display());
    if binary.exists() { Ok(binary) } else { Err(missing()) }
}

#[expect(clippy::print_stdout, reason = "the figures are the program's output")]
fn print_line(line: &str) {
    println!("{line}");
}
