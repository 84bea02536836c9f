//! `cargo xtask test`: the test command, equal for developers and CI.
//!
//! Cheap checks come first, and the first failure ends the run.

use std::process::{ExitCode, Stdio};

use crate::Outcome;
use crate::browser::Browser;
use crate::postgres::{self, Binaries, Cluster};
use crate::python::Python;
use crate::run::{self, Steps};
use crate::{chaos, signal, tidy};

/// How much of the server's log is shown when the tests have failed.
const LOG_TAIL_LINES: usize = 40;

/// The features of the shipped binary.
const AS_SHIPPED: &str = "flovyn/jemalloc";

pub(crate) fn run(quick: bool) -> Outcome<ExitCode> {
    let mut steps = Steps::default();
    let outcome = all_steps(&mut steps, quick);
    run::say(&steps.summary());
    outcome?;
    if quick {
        run::say("passed; --quick skipped clippy and the documentation tests");
    } else {
        run::say("passed");
    }
    Ok(ExitCode::SUCCESS)
}

fn all_steps(steps: &mut Steps, quick: bool) -> Outcome<()> {
    // Checked first, though needed last, so that missing programs are reported at once.
    let binaries = steps.step("find PostgreSQL", Binaries::find_or_install)?;
    let browser = steps.step("find Chromium", Browser::find_or_install)?;
    let python = steps.step("find Python", Python::find_or_install)?;
    steps.step("format", || run::require_success(&mut run::cargo(["fmt", "--all", "--check"])))?;
    if !quick {
        steps.step("clippy", clippy)?;
    }
    steps.step("tidy", tidy::require_tidy)?;
    steps.step("cargo deny", deny)?;
    let cluster = steps.step("start PostgreSQL", || Cluster::start(&binaries))?;
    let tested = steps
        .step("tests", || cargo_test(&cluster, browser, quick))
        .and_then(|()| steps.step("Python client", || python.test(&cluster, &[])))
        .and_then(|()| steps.step("chaos, short", || chaos::run_short(&cluster)));
    if tested.is_err() && signal::check().is_ok() {
        run::say(&format!("\nThe end of the server's log:\n{}", cluster.log_tail(LOG_TAIL_LINES)));
    }
    let stopped = steps.step("stop PostgreSQL", || cluster.stop());
    tested.and(stopped)
}

fn clippy() -> Outcome<()> {
    let mut command =
        run::cargo(["clippy", "--workspace", "--features", AS_SHIPPED, "--all-targets", "--locked"]);
    run::require_success(command.args(["--", "-D", "warnings"]))
}

/// Tidy checks the lists of `deny.toml` as well; only cargo-deny finds known vulnerabilities.
fn deny() -> Outcome<()> {
    let installed = run::cargo(["deny", "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !installed.is_ok_and(|status| status.success()) {
        run::say("cargo-deny is not installed: skipping the check for known vulnerabilities");
        return Ok(());
    }
    run::require_success(&mut run::cargo(["deny", "check"]))
}

fn cargo_test(cluster: &Cluster, browser: Browser, quick: bool) -> Outcome<()> {
    let mut command = run::cargo(["test", "--workspace", "--features", AS_SHIPPED, "--locked"]);
    if quick {
        command.args(["--lib", "--bins", "--tests"]);
    }
    browser.tell(&mut command);
    run::require_success(command.env(postgres::URL_VARIABLE, cluster.url()))
}
