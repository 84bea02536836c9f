//! `cargo xtask tidy`: the rules of this repository that no compiler or linter knows.
//!
//! Each rule is a function from files to findings, in its own file, with tests that show that it can fail. A finding
//! says what is wrong and why that matters here.

mod dependencies;
mod engine_purity;
mod error_pages;
mod forbidden;
mod layout;
mod links;
mod planted;
mod rust;
mod source;
mod sql;
mod whitespace;

use std::process::{Command, ExitCode};

use source::{Finding, SourceFile};

use crate::Outcome;
use crate::run;

type Check = fn(&[SourceFile]) -> Vec<Finding>;

const CHECKS: &[Check] = &[
    engine_purity::check,
    sql::check,
    forbidden::check,
    layout::check,
    error_pages::check,
    links::check,
    planted::check,
    whitespace::check,
];

pub(crate) fn run() -> Outcome<ExitCode> {
    require_tidy()?;
    Ok(ExitCode::SUCCESS)
}

/// Prints each finding, and fails with their number.
pub(crate) fn require_tidy() -> Outcome<()> {
    let files = source::load(&run::repository())?;
    let mut findings = engine_purity::check_dependencies(&engine_dependencies()?);
    findings.extend(all_dependencies()?);
    for check in CHECKS {
        findings.extend(check(&files));
    }
    for finding in &findings {
        run::say(&finding.to_string());
    }
    match findings.len() {
        0 => {
            run::say(&format!("{} files are tidy", files.len()));
            Ok(())
        }
        1 => Err("1 finding".to_owned()),
        count => Err(format!("{count} findings")),
    }
}

fn engine_dependencies() -> Outcome<String> {
    let arguments =
        ["tree", "--package", "flovyn-engine", "--edges", "normal", "--prefix", "none", "--locked"];
    capture(&mut run::cargo(arguments))
}

fn all_dependencies() -> Outcome<Vec<Finding>> {
    let metadata = capture(&mut run::cargo(["metadata", "--format-version", "1", "--locked"]))?;
    let metadata = serde_json::from_str(&metadata).map_err(|error| format!("cargo metadata: {error}"))?;
    let path = run::repository().join("deny.toml");
    let lists = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(dependencies::check(&metadata, &lists))
}

/// The stdout of a command that must succeed.
fn capture(command: &mut Command) -> Outcome<String> {
    let name = command.get_program().display().to_string();
    let output = command.output().map_err(|error| format!("cannot run {name}: {error}"))?;
    if !output.status.success() {
        let printed = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{name} failed ({}): {}", output.status, printed.trim()));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("{name} printed something that is not UTF-8"))
}
