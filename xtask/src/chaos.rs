//! `cargo xtask chaos`: the server and its tormentor, built and run, with the database they ask for.

use std::env;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::{Args, ValueEnum};

use crate::Outcome;
use crate::postgres::{self, Binaries, Cluster};
use crate::run;

#[derive(Args)]
pub(crate) struct ChaosArgs {
    /// What goes wrong
    #[arg(long, value_enum)]
    test: Test,
    /// Which database to run on; a throw-away cluster is started for PostgreSQL
    #[arg(long, value_enum)]
    store: Option<Store>,
    /// How long to go on
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u64,
    /// Where to start, to repeat the choices of a run; chosen when it is not given
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Build for speed, as releases are
    #[arg(long)]
    release: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Test {
    KillServer,
    KillWorker,
    ManyServers,
    PostgresRestart,
    CommitReplies,
    BootedTogether,
}

impl Test {
    /// Where it can be shown, unless the caller chooses.
    fn usual_store(self) -> Store {
        match self {
            Test::KillServer | Test::KillWorker => Store::Sqlite,
            _ => Store::Postgres,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Store {
    Sqlite,
    Postgres,
}

fn name(value: impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

pub(crate) fn run(args: &ChaosArgs) -> Outcome<ExitCode> {
    let store = args.store.unwrap_or(args.test.usual_store());
    build(args.release)?;
    let cluster = match store {
        Store::Postgres => Some(Cluster::start(&Binaries::find_or_install()?)?),
        Store::Sqlite => None,
    };
    let mut command = chaos(args.test, store, args.seconds, args.seed, args.release);
    if let Some(cluster) = &cluster {
        name_cluster(&mut command, cluster);
    }
    let status = run::run_unattended(&mut command)?;
    if let Some(cluster) = cluster {
        cluster.stop()?;
    }
    Ok(run::exit_code_of(status))
}

/// Both programs: the one runs the other from the same folder. Of the whole workspace: a choice of packages has its own
/// choice of features, and nearly everything would be built once more for it.
fn build(release: bool) -> Outcome<()> {
    let mut command =
        run::cargo(["build", "--locked", "--workspace", "--bin", "flovyn", "--bin", "flovyn-chaos"]);
    if release {
        command.arg("--release");
    }
    run::require_success(&mut command)
}

fn chaos(test: Test, store: Store, seconds: u64, seed: Option<u64>, release: bool) -> Command {
    let target =
        env::var_os("CARGO_TARGET_DIR").map_or_else(|| run::repository().join("target"), PathBuf::from);
    let profile = if release { "release" } else { "debug" };
    let mut command = Command::new(target.join(profile).join("flovyn-chaos"));
    command.args(["run", "--test", &name(test), "--store", &name(store)]);
    command.args(["--seconds", &seconds.to_string()]);
    if let Some(seed) = seed {
        command.args(["--seed", &seed.to_string()]);
    }
    command
}

fn name_cluster(command: &mut Command, cluster: &Cluster) {
    command.env(postgres::URL_VARIABLE, cluster.url());
    command.env("FLOVYN_TEST_POSTGRES_DATA", cluster.data());
    command.env("FLOVYN_TEST_POSTGRES_PROGRAMS", cluster.programs());
}
