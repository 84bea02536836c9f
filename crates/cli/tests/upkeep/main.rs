//! Operations on a database: check, back up, restore, and upgrade to a newer Flovyn.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails right there")]

mod backup;
mod damage;
mod doctor;
mod fixture;
mod keys;
mod migrations;
mod names;
mod upgrade;

use std::process::{Command, Output, Stdio};

fn flovyn(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flovyn"));
    command.args(arguments).env_remove("FLOVYN_DATABASE_URL");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs the command to its end. Returns stdout and stderr as text.
async fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = flovyn(arguments);
    let output: Output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[track_caller]
fn assert_code(expected: i32, (code, stdout, stderr): &(Option<i32>, String, String)) {
    assert_eq!(*code, Some(expected), "{stdout}\n{stderr}");
}
