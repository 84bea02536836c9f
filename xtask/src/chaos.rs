//! `cargo xtask chaos`: builds and runs the server and the chaos tests, with the databases that they need.

use std::process::{Command, ExitCode};

use clap::{Args, ValueEnum};

use crate::Outcome;
use crate::postgres::{self, Binaries, Cluster};
use crate::run;

#[derive(Args)]
pub(crate) struct ChaosArgs {
    /// Which test to run
    #[arg(long, value_enum)]
    test: Test,
    /// Which database to run on; a throw-away cluster is started for PostgreSQL
    #[arg(long, value_enum)]
    store: Option<Store>,
    /// How many seconds to run
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u64,
    /// Seed, to repeat the choices of a run; random by default
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// How many of the workers speak the public protocol and send no tokens. By default half of them in kill-server, kill-worker,
    /// many-servers, postgres-restart and kill-all, and none elsewhere
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(..=100))]
    plain_workers: Option<u8>,
    /// Build with optimizations, like a release
    #[arg(long)]
    release: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Test {
    KillServer,
    KillWorker,
    ManyServers,
    PostgresRestart,
    KillAll,
    CommitReplies,
    BootedTogether,
    PowerLoss,
    PowerLossProof,
    DiskErrors,
    Entities,
    Poison,
    Reconnect,
    Flood,
}

impl Test {
    /// The database of the test, unless the caller chooses one.
    fn usual_store(self) -> Store {
        match self {
            Test::ManyServers
            | Test::PostgresRestart
            | Test::KillAll
            | Test::CommitReplies
            | Test::BootedTogether => Store::Postgres,
            _ => Store::Sqlite,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Store {
    Sqlite,
    Postgres,
}

impl Store {
    pub(crate) fn name(self) -> String {
        name(self)
    }
}

fn name(value: impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// The tests that `cargo xtask test` runs, long enough for several faults of each kind.
const SHORT: &[(Test, Store, u64)] = &[
    (Test::KillServer, Store::Sqlite, 8),
    (Test::KillServer, Store::Postgres, 8),
    (Test::KillWorker, Store::Sqlite, 12),
    (Test::ManyServers, Store::Postgres, 10),
    (Test::CommitReplies, Store::Postgres, 5),
    (Test::BootedTogether, Store::Postgres, 60),
    (Test::PowerLoss, Store::Sqlite, 3),
    (Test::PowerLossProof, Store::Sqlite, 1),
    (Test::DiskErrors, Store::Sqlite, 6),
    (Test::Entities, Store::Sqlite, 8),
    (Test::Entities, Store::Postgres, 8),
    (Test::Poison, Store::Sqlite, 60),
];
/// Number of tasks of dead workers in the short version of `booted-together`; the long version has 10,000.
const SHORT_TASKS: &str = "500";

/// The parameters of a run of `flovyn-chaos`.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    test: &'a str,
    store: Store,
    seconds: u64,
    seed: Option<u64>,
    plain_workers: Option<u8>,
    release: bool,
}

pub(crate) fn run(args: &ChaosArgs) -> Outcome<ExitCode> {
    let store = args.store.unwrap_or(args.test.usual_store());
    let test = name(args.test);
    let ChaosArgs { seconds, seed, plain_workers, release, .. } = *args;
    run_one(Wanted { test: &test, store, seconds, seed, plain_workers, release })
}

#[derive(Args)]
pub(crate) struct SoakArgs {
    /// Which database to run on; a throw-away cluster is started for PostgreSQL
    #[arg(long, value_enum)]
    store: Store,
    /// How many seconds to run
    #[arg(long, value_name = "N", default_value_t = 180)]
    seconds: u64,
    /// Build with optimizations, like a release
    #[arg(long)]
    release: bool,
}

pub(crate) fn soak(args: &SoakArgs) -> Outcome<ExitCode> {
    let (store, seconds, release) = (args.store, args.seconds, args.release);
    run_one(Wanted { test: "soak", store, seconds, seed: None, plain_workers: None, release })
}

fn run_one(wanted: Wanted<'_>) -> Outcome<ExitCode> {
    let mut what = vec!["--bin", "flovyn", "--bin", "flovyn-chaos"];
    if wanted.release {
        what.push("--release");
    }
    build(&what)?;
    let cluster = match wanted.store {
        Store::Postgres => Some(Cluster::start(&Binaries::find_or_install()?)?),
        Store::Sqlite => None,
    };
    let mut command = chaos(wanted);
    if let Some(cluster) = &cluster {
        name_cluster(&mut command, cluster);
    }
    let status = run::run_unattended(&mut command)?;
    if let Some(cluster) = cluster {
        cluster.stop()?;
    }
    Ok(run::exit_code_of(status))
}

/// Runs the short tests, one after the other, on a running cluster. Stops at the first failure.
pub(crate) fn run_short(cluster: &Cluster) -> Outcome<()> {
    // Built with the tests, because `cargo xtask test` has built nearly all of this already.
    build(&["--bins", "--tests"])?;
    for (test, store, seconds) in SHORT {
        let test = name(*test);
        let wanted = Wanted {
            test: &test,
            store: *store,
            seconds: *seconds,
            seed: None,
            plain_workers: None,
            release: false,
        };
        let mut command = chaos(wanted);
        command.args(["--tasks", SHORT_TASKS]);
        name_cluster(&mut command, cluster);
        run::say(&format!("\n{test}"));
        run::require_success(&mut command)?;
    }
    Ok(())
}

/// Builds both programs, of which one runs the other from the same folder, and the preloaded library. Builds the whole
/// workspace: a selection of packages enables other features, and nearly everything would be built again for it.
pub(crate) fn build(what: &[&str]) -> Outcome<()> {
    run::require_success(run::cargo(["build", "--locked", "--workspace", "--lib"]).args(what))
}

fn chaos(wanted: Wanted<'_>) -> Command {
    let profile = if wanted.release { "release" } else { "debug" };
    let mut command = Command::new(run::target().join(profile).join("flovyn-chaos"));
    command.args(["run", "--test", wanted.test, "--store", &name(wanted.store)]);
    command.args(["--seconds", &wanted.seconds.to_string()]);
    if let Some(seed) = wanted.seed {
        command.args(["--seed", &seed.to_string()]);
    }
    if let Some(percent) = wanted.plain_workers {
        command.args(["--plain-workers", &percent.to_string()]);
    }
    command
}

pub(crate) fn name_cluster(command: &mut Command, cluster: &Cluster) {
    command.env(postgres::URL_VARIABLE, cluster.url());
    command.env("FLOVYN_TEST_POSTGRES_DATA", cluster.data());
    command.env("FLOVYN_TEST_POSTGRES_PROGRAMS", cluster.programs());
}
