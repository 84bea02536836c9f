//! Tests the pages of the guide. Every `curl` line is run, in order, against a real `flovyn dev` with the worker of
//! the example `shop`, and the answer must match the page. See `page` for the format. The tour uses the command line:
//! all its commands must succeed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails right there")]

mod answer;
mod page;
mod server;
mod shell;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use answer::Names;
use page::{Page, Step};
use server::Server;
use shell::{Outcome, Shell};

/// Longer than any command on a page takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// Pages with `curl` lines that need another server than `flovyn dev`.
const ELSEWHERE: &[&str] = &[
    // API keys are declared in the configuration of `flovyn server`.
    "auth.md",
    // Needs a virtual clock.
    "install.md",
];

fn guide() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide")
}

fn read(name: &str) -> Page {
    let text = std::fs::read_to_string(guide().join(name)).unwrap();
    Page::read(&text).unwrap_or_else(|error| panic!("{name}:{error}"))
}

/// Each page has its own server, so that pages can be read in any order.
fn follow(name: &str) {
    let (beginning, page) = (read("README.md"), read(name));
    let server = Server::start();
    let mut shell = Shell::start(server.folder(), &[("ADMIN", &server.admin_header())]);
    let mut names = Names::default();
    for step in beginning.steps.iter().filter(|step| step.answer.is_none()) {
        let outcome = shell.run(&step.script);
        assert_eq!(outcome.code, 0, "README.md:{}: {}", step.line, outcome.errors);
    }
    for step in &page.steps {
        if let Err(error) = take(&mut shell, &page, step, &mut names) {
            panic!("docs/guide/{name}:{}: {error}\n\n{}", step.line, step.script);
        }
    }
}

fn take(shell: &mut Shell, page: &Page, step: &Step, names: &mut Names) -> Result<(), String> {
    let script = names.put_into(&step.script);
    let until = Instant::now() + PATIENCE;
    loop {
        let outcome = shell.run(&script);
        let found = check(&outcome, page, step, names);
        // The worker needs time, so a read is repeated until it matches.
        if found.is_ok() || !step.only_looks() || Instant::now() >= until {
            return found;
        }
    }
}

fn check(outcome: &Outcome, page: &Page, step: &Step, names: &mut Names) -> Result<(), String> {
    let Outcome { code, printed, errors } = outcome;
    let Some(answer) = &step.answer else {
        return if *code == 0 { Ok(()) } else { Err(format!("exit code {code}: {errors}")) };
    };
    let status = errors.trim();
    if *code != 0 || status != answer.status {
        return Err(format!("the page says {}, the server {status}: {printed}", answer.status));
    }
    let mut found = names.clone();
    answer.body.fits(printed, &mut found, page)?;
    *names = found;
    Ok(())
}

/// Runs the tour with the demo that the tour starts. A reader pauses between two commands while the worker works, so
/// a command that comes too early is repeated.
#[test]
fn the_tour() {
    let page = read("tour.md");
    let server = Server::demo();
    let binaries = Path::new(env!("CARGO_BIN_EXE_flovyn")).parent().unwrap().to_str().unwrap();
    let path = format!("{binaries}:{}", std::env::var("PATH").unwrap());
    let mut shell = Shell::start(server.folder(), &[("PATH", &path)]);
    let mut printed = String::new();
    for step in &page.steps {
        let until = Instant::now() + PATIENCE;
        let outcome = loop {
            let outcome = shell.run(&step.script);
            if outcome.code == 0 || Instant::now() >= until {
                break outcome;
            }
        };
        assert_eq!(
            outcome.code, 0,
            "docs/guide/tour.md:{}: {}\n\n{}",
            step.line, outcome.errors, step.script
        );
        printed.push_str(&outcome.printed);
    }
    // The expected output on the page.
    let seen = [
        "approved_by\":\"me\"",
        "the bank did not answer",
        "FAILED",
        "40 EUR",
        "one lamp is enough",
        "CANCELLED",
    ];
    for part in seen {
        assert!(printed.contains(part), "{part} was not printed:\n{printed}");
    }
}

#[test]
fn every_page_is_followed() {
    for entry in std::fs::read_dir(guide()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let text = std::fs::read_to_string(guide().join(&name)).unwrap();
        let known = PAGES.contains(&name.as_str()) || ELSEWHERE.contains(&name.as_str());
        assert!(known || !text.contains("curl "), "{name} has curl lines: put it into the table of pages");
    }
}

macro_rules! pages {
    ($($test:ident $name:literal;)*) => {
        const PAGES: &[&str] = &[$($name),*];
        $(#[test]
        fn $test() {
            follow($name);
        })*
    };
}

pages! {
    readme "README.md";
    workflows "workflows.md";
    executions "executions.md";
    tasks "tasks.md";
    promises "promises.md";
    queues "queues.md";
    workers_and_definitions "workers-and-definitions.md";
    tenants_and_tokens "tenants-and-tokens.md";
    quotas "quotas.md";
}
