//! `cargo xtask fuzz`: sends requests to the real server that schemathesis generates from its OpenAPI document, and
//! hostile request bodies. Needs Linux (for the server's memory), Python 3 and, the first time, the network to download
//! schemathesis.

mod report;
mod server;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;

use self::report::Report;
use self::server::Server;
use crate::Outcome;
use crate::run::{self, Steps};

/// Pinned, so that a finding can be repeated.
const SCHEMATHESIS: &str = "schemathesis==4.32.5";

/// Cases per operation, phase and round. Rounds are repeated until the time is over.
const MAX_EXAMPLES: &str = "50";

#[derive(Args)]
pub(crate) struct FuzzArgs {
    /// How many seconds schemathesis runs
    #[arg(long, value_name = "N", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Seed of schemathesis, to repeat a run
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
}

/// The paths of a run, inside the target directory.
struct Place {
    directory: PathBuf,
    flovyn: PathBuf,
}

impl Place {
    fn make() -> Outcome<Self> {
        let target = run::target();
        let directory = target.join("fuzz");
        fs::create_dir_all(&directory)
            .map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
        Ok(Self { directory, flovyn: target.join("debug/flovyn") })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// A program of the Python environment. Its output goes to stderr, because stdout is for the result.
    fn python_program(&self, name: &str) -> Command {
        let mut command = Command::new(self.directory.join("venv/bin").join(name));
        command.current_dir(&self.directory).stdout(Stdio::from(io::stderr()));
        command
    }

    /// One of our scripts. Its first arguments name the server.
    fn script(&self, name: &str, server: &Server) -> Command {
        let mut command = self.python_program("python");
        command.arg(run::repository().join("xtask/src/fuzz").join(name)).arg(server.url()).arg(server.data());
        // Compiled files stay out of the sources.
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }
}

pub(crate) fn run(args: &FuzzArgs) -> Outcome<ExitCode> {
    let mut steps = Steps::default();
    let outcome = all(args, &mut steps);
    run::say(&steps.summary());
    let report = outcome?;
    run::say(&report.summary());
    // If stdout is closed, nobody wants the report.
    let _ = writeln!(io::stdout(), "{}", report.json());
    Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn all(args: &FuzzArgs, steps: &mut Steps) -> Outcome<Report> {
    // Any seed will do, because it is reported.
    let seed = args
        .seed
        .unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()));
    let place = Place::make()?;
    steps.step("build", || run::require_success(&mut run::cargo(["build", "-p", "flovyn"])))?;
    steps.step("schemathesis", || install(&place))?;
    let data = place.file("data");
    let mut server = steps.step("server", || {
        server::run_demo(&place.flovyn, &data)?;
        Server::start(&place.flovyn, &data, &place.file("server.log"))
    })?;
    let settings = place.file("schemathesis.toml");
    steps.step("fill", || run::require_success(place.script("fill.py", &server).arg(&settings)))?;
    let before_kib = server.memory_kib("VmRSS")?;
    let (requests, bodies) = (place.file("requests.json"), place.file("bodies.json"));
    for old in [&requests, &bodies] {
        // There is nothing to remove the first time.
        let _ = fs::remove_file(old);
    }
    // Findings of one part must not prevent the other part from running: the reports count, not the exit codes.
    steps.step("generated requests", || {
        run::run_unattended(&mut schemathesis((args.seconds, seed), &place, &server, &settings, &requests))
            .map(drop)
    })?;
    // `bodies.py` resets the peak. A server that has ended has no memory, which is a finding below.
    let peak_kib = server.memory_kib("VmHWM").unwrap_or(0);
    steps.step("hostile bodies", || {
        let process = server.process().to_string();
        run::run_unattended(place.script("bodies.py", &server).arg(process).arg(&bodies)).map(drop)
    })?;
    let survived = server.check_it_lives();
    let peak_kib = peak_kib.max(server.memory_kib("VmHWM").unwrap_or(0));
    Report::read(seed, &requests, &bodies, (before_kib, peak_kib), survived.err())
}

fn install(place: &Place) -> Outcome<()> {
    let environment = place.file("venv");
    if !environment.join("bin/python").exists() {
        run::require_success(Command::new("python3").args(["-m", "venv"]).arg(environment))?;
    }
    run::require_success(place.python_program("pip").args(["install", "-q", SCHEMATHESIS]))
}

fn schemathesis(
    (seconds, seed): (u64, u64),
    place: &Place,
    server: &Server,
    settings: &Path,
    report: &Path,
) -> Command {
    let mut command = place.python_program("schemathesis");
    command.arg("--config-file").arg(settings).arg("run");
    command.arg(format!("{}/api/docs/openapi.json", server.url()));
    command.args(["--max-time", &seconds.to_string(), "--max-examples", MAX_EXAMPLES]);
    // Streams stay open: they have their own tests.
    command.args(["--exclude-path-regex", "/stream$", "--request-timeout", "20", "--continue-on-failure"]);
    // Findings of earlier runs are not tried first, so that a run depends on its seed alone.
    command.args(["--generation-database", "none", "--warnings", "off"]);
    command.args(["--report", "json", "--report-json-path"]).arg(report);
    command.args(["--seed", &seed.to_string()]);
    command
}
