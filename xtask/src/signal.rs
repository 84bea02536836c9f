//! Signals: they are passed on to the running command instead of ending this process.
//!
//! A process that is killed by a signal runs no destructor, so the throw-away database would keep running. Instead, a
//! signal ends the running command, the command's failure ends the task, and the guards are dropped on the way out. A
//! second signal kills the running command.

use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGKILL, SIGTERM};
use signal_hook::iterator::Signals;

use crate::Outcome;

/// The receiver of signals while a command runs.
#[derive(Clone, Copy)]
pub(crate) enum Target {
    /// The command leads its own process group: all its descendants receive the signal.
    Group(u32),
    /// The command shares our terminal, which sends Ctrl-C to it directly.
    Foreground(u32),
}

struct State {
    received: Option<i32>,
    running: Option<Target>,
}

static STATE: Mutex<State> = Mutex::new(State { received: None, running: None });

fn state() -> MutexGuard<'static, State> {
    // Two plain fields, each written at once: a panic elsewhere cannot leave them half written.
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the thread that waits for signals.
pub(crate) fn install() -> Outcome<()> {
    let mut signals =
        Signals::new([SIGHUP, SIGINT, SIGTERM]).map_err(|error| format!("cannot catch signals: {error}"))?;
    thread::spawn(move || {
        for signal in signals.forever() {
            receive(signal);
        }
    });
    Ok(())
}

fn receive(signal: i32) {
    let mut state = state();
    match state.running {
        // The program at the terminal decides what Ctrl-C means (psql cancels a query).
        Some(Target::Foreground(_)) if signal == SIGINT => return,
        Some(target) => send(if state.received.is_some() { SIGKILL } else { signal }, target),
        None => {}
    }
    state.received.get_or_insert(signal);
}

/// Uses the shell's `kill`: std can only send SIGKILL, and only to one process.
fn send(signal: i32, target: Target) {
    let whom = match target {
        Target::Group(leader) => format!("-{leader}"),
        Target::Foreground(process) => process.to_string(),
    };
    let script = format!("kill -{signal} {whom}");
    // A failure does no harm: the command has just ended by itself.
    let _ = Command::new("sh").args(["-c", &script]).stderr(Stdio::null()).status();
}

/// Starts a command under the lock, so that no signal arrives between its start and its registration.
pub(crate) fn spawn(command: &mut Command, target: fn(u32) -> Target) -> Outcome<Child> {
    let mut state = state();
    if let Some(signal) = state.received {
        return Err(interruption(signal));
    }
    let child = command
        .spawn()
        .map_err(|error| format!("cannot run {}: {error}", command.get_program().display()))?;
    state.running = Some(target(child.id()));
    Ok(child)
}

/// To be called as soon as the command has ended, because its process id may be reused.
pub(crate) fn finished() {
    state().running = None;
}

/// Fails if a signal has arrived. For work that runs no command.
pub(crate) fn check() -> Outcome<()> {
    state().received.map_or(Ok(()), |signal| Err(interruption(signal)))
}

/// The exit code that a shell reports for a process that died of our signal. `None`: no signal has arrived.
pub(crate) fn exit_code() -> Option<ExitCode> {
    let signal = u8::try_from(state().received?).ok()?;
    Some(ExitCode::from(128 + signal))
}

fn interruption(signal: i32) -> String {
    format!("interrupted by signal {signal}")
}
