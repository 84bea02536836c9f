//! Running commands: headings, timing, and the summary at the end.

use std::env;
use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::signal::{self, Target};

/// Writes a line on stderr. Unlike `eprintln!` it never panics, because it is called while guards are dropped.
pub(crate) fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Writes the output of a command on stdout.
pub(crate) fn print(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}

/// The root of the repository.
pub(crate) fn repository() -> PathBuf {
    // Cargo also sets the variable at run time; that value is right even if the checkout was moved.
    let package = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    PathBuf::from(package).parent().expect("xtask/ lies in the repository").to_path_buf()
}

/// The folder in which cargo builds.
pub(crate) fn target() -> PathBuf {
    let given = env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    repository().join(given)
}

/// The cargo that runs this program, at the root of the repository.
pub(crate) fn cargo<I: IntoIterator<Item: AsRef<OsStr>>>(arguments: I) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(repository());
    forget_own_package(&mut command);
    command
}

/// Removes the variables with which `cargo run` names our own package. Otherwise build scripts that watch them would
/// run again each time the crates are built from the command line.
pub(crate) fn forget_own_package(command: &mut Command) {
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
}

/// Runs a command without input, in its own process group, so that a signal ends all its processes.
pub(crate) fn run_unattended(command: &mut Command) -> Outcome<ExitStatus> {
    command.stdin(Stdio::null()).process_group(0);
    wait(command, Target::Group)
}

/// Runs a command that may interact with the person at the terminal.
pub(crate) fn run_attended(command: &mut Command) -> Outcome<ExitStatus> {
    if io::IsTerminal::is_terminal(&io::stdin()) {
        // Outside the terminal's foreground group, the command would be stopped as soon as it reads.
        wait(command, Target::Foreground)
    } else {
        command.process_group(0);
        wait(command, Target::Group)
    }
}

fn wait(command: &mut Command, target: fn(u32) -> Target) -> Outcome<ExitStatus> {
    let mut child = signal::spawn(command, target)?;
    let waited = child.wait();
    signal::finished();
    let status = waited.map_err(|error| format!("cannot wait for a command: {error}"))?;
    signal::check()?;
    Ok(status)
}

/// Runs a command that must succeed.
pub(crate) fn require_success(command: &mut Command) -> Outcome<()> {
    let status = run_unattended(command)?;
    if status.success() {
        return Ok(());
    }
    Err(format!("`{}` failed ({status})", words(command)))
}

/// The stdout of a command without input that must succeed.
pub(crate) fn output_of(command: &mut Command) -> Outcome<String> {
    let mut child =
        signal::spawn(command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0), Target::Group)?;
    let mut output = String::new();
    let read = child.stdout.take().map_or(Ok(0), |mut stdout| stdout.read_to_string(&mut output));
    let waited = child.wait();
    signal::finished();
    let status = waited.map_err(|error| format!("cannot wait for a command: {error}"))?;
    signal::check()?;
    read.map_err(|error| format!("cannot read what `{}` prints: {error}", words(command)))?;
    if status.success() { Ok(output) } else { Err(format!("`{}` failed ({status})", words(command))) }
}

/// For a command that replaces us: its exit code is ours.
pub(crate) fn exit_code_of(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// A command as it would be typed, without the directory of the program.
fn words(command: &Command) -> String {
    let program = PathBuf::from(command.get_program());
    let program = program.file_name().unwrap_or(command.get_program()).to_string_lossy().into_owned();
    let arguments = command.get_args().map(|argument| argument.to_string_lossy().into_owned());
    std::iter::once(program).chain(arguments).collect::<Vec<_>>().join(" ")
}

/// The steps of a task: each is announced, timed and listed in the summary.
#[derive(Default)]
pub(crate) struct Steps {
    done: Vec<Step>,
}

struct Step {
    name: &'static str,
    took: Duration,
    passed: bool,
}

impl Steps {
    /// Runs one step. The error of a failed step begins with the step's name.
    pub(crate) fn step<T>(&mut self, name: &'static str, work: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
        say(&format!("\n==> {name}"));
        let start = Instant::now();
        let outcome = work();
        self.done.push(Step { name, took: start.elapsed(), passed: outcome.is_ok() });
        outcome.map_err(|why| format!("{name}: {why}"))
    }

    /// A table of the steps that were started.
    pub(crate) fn summary(&self) -> String {
        let mut table = String::from("\n");
        for Step { name, took, passed } in &self.done {
            let verdict = if *passed { "ok" } else { "FAILED" };
            table += &format!("{name:<20} {:>8.1} s  {verdict}\n", took.as_secs_f64());
        }
        let total: Duration = self.done.iter().map(|step| step.took).sum();
        table + &format!("{:<20} {:>8.1} s\n", "all", total.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_names_the_failed_step() {
        let step = |name, passed| Step { name, took: Duration::from_secs(1), passed };
        let steps = Steps { done: vec![step("first", true), step("second", false)] };
        let summary = steps.summary();
        let verdicts: Vec<_> = summary.lines().filter_map(|line| line.split_whitespace().nth(3)).collect();
        assert_eq!(verdicts, ["ok", "FAILED"]);
    }

    #[test]
    fn a_failed_command_is_named() {
        let why = require_success(Command::new("sh").args(["-c", "exit 3"])).unwrap_err();
        assert_eq!(why, "`sh -c exit 3` failed (exit status: 3)");
    }
}
