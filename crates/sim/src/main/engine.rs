//! `flovyn-sim engine`: random requests to the engine, alone or on several databases in lockstep.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use flovyn_sim::lockstep::{self, Report, Rows};
use flovyn_sim::open::{self, Plain};
use flovyn_store::memory::MemoryStore;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Stop after this many seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// First seed; later runs use the following seeds.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Batches in each run.
    #[arg(long, default_value_t = 300)]
    steps: usize,
    /// Databases to run beside the memory oracle.
    #[arg(long, value_enum, default_value_t = Databases::Memory)]
    store: Databases,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Databases {
    Memory,
    Sqlite,
    Postgres,
    All,
}

#[tokio::main]
pub(crate) async fn run(arguments: &Arguments) -> ExitCode {
    let Arguments { seconds, seed, steps, store } = *arguments;
    let begin = Instant::now();
    let mut total = Report::default();
    let mut runs = 0;
    while begin.elapsed() < Duration::from_secs(seconds) {
        match one_run(seed + runs, steps, store).await {
            Ok(report) => total.add(report),
            Err(what) => {
                eprintln!("{what}");
                let store =
                    store.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned());
                let flags = format!("--seconds 1 --seed {} --steps {steps} --store {store}", seed + runs);
                eprintln!("repeat with: cargo xtask sim --engine {flags}");
                return ExitCode::FAILURE;
            }
        }
        runs += 1;
        eprint!("\r{runs} runs, {} requests, {:.0} s", total.requests, begin.elapsed().as_secs_f64());
    }
    eprintln!();
    print_figures(seed, runs, &total, begin.elapsed());
    ExitCode::SUCCESS
}

#[expect(clippy::print_stdout, reason = "the figures are the program's output")]
fn print_figures(seed: u64, runs: u64, total: &Report, elapsed: Duration) {
    let accepted: usize = total.accepted.values().sum();
    println!(
        "{{\"test\":\"engine\",\"seed\":{seed},\"runs\":{runs},\"steps\":{},\"requests\":{},\"accepted\":{accepted},\
         \"operations\":{},\"refusal_codes\":{},\"violations\":0,\"seconds\":{:.1}}}",
        total.steps,
        total.requests,
        total.accepted.len(),
        total.refused.len(),
        elapsed.as_secs_f64(),
    );
}

async fn one_run(seed: u64, steps: usize, databases: Databases) -> Result<Report, String> {
    let clock = lockstep::clock();
    let mut stores: Vec<(&str, Arc<dyn Rows>)> =
        vec![("memory", Arc::new(Plain(MemoryStore::new(clock.clone()))))];
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    if matches!(databases, Databases::Sqlite | Databases::All) {
        stores.push(("sqlite", open::sqlite(directory.path(), clock.clone())?));
    }
    let mut database = None;
    if matches!(databases, Databases::Postgres | Databases::All) {
        let fresh = flovyn_testkit::fresh_database().await;
        stores.push(("postgres", open::postgres(&fresh.url, clock.clone()).await?));
        database = Some(fresh);
    }
    let report = lockstep::run(seed, steps, &clock, &stores).await.map_err(|failure| failure.to_string());
    drop(stores);
    drop(database);
    report
}
