//! A development server on a throw-away data directory. It is stopped when its guard is dropped.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{Outcome, run, signal};

const CREDENTIALS: &str = "credentials.json";
const STARTS_WITHIN: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(50);

pub(super) struct Server {
    child: Child,
    data: PathBuf,
    url: String,
}

/// Creates a new data directory with a finished order: with tasks, attempts, a timer and a promise.
pub(super) fn run_demo(program: &Path, data: &Path) -> Outcome<()> {
    // The directory of a run that was killed contains nothing worth keeping.
    let _ = fs::remove_dir_all(data);
    run::require_success(flovyn(program, "demo", data).arg("--exit").stdout(Stdio::null()))?;
    // The credentials name the demo's server, which has ended.
    let _ = fs::remove_file(data.join(CREDENTIALS));
    Ok(())
}

fn flovyn(program: &Path, command: &str, data: &Path) -> Command {
    let mut process = Command::new(program);
    process.args([command, "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--data-dir"]).arg(data);
    run::forget_own_package(&mut process);
    process
}

impl Server {
    /// The server's output goes to `log`, which is kept, because it explains errors.
    pub(super) fn start(program: &Path, data: &Path, log: &Path) -> Outcome<Server> {
        let log = File::create(log).map_err(|error| format!("cannot make {}: {error}", log.display()))?;
        let mut command = flovyn(program, "dev", data);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        let child = child.map_err(|error| format!("cannot run {}: {error}", program.display()))?;
        let mut server = Server { child, data: data.to_owned(), url: String::new() };
        server.wait_until_it_answers()?;
        run::say(&format!("throw-away server at {}", server.url));
        Ok(server)
    }

    /// The server writes its credentials as soon as it listens.
    fn wait_until_it_answers(&mut self) -> Outcome<()> {
        let begun = Instant::now();
        let file = self.data.join(CREDENTIALS);
        loop {
            signal::check()?;
            let written = fs::read(&file).ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
            if let Some(credentials) = written {
                self.url = credentials["http_url"].as_str().unwrap_or_default().to_owned();
                return Ok(());
            }
            self.check_it_lives()?;
            if begun.elapsed() > STARTS_WITHIN {
                return Err(format!("the server did not start within {STARTS_WITHIN:?}"));
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    pub(super) fn check_it_lives(&mut self) -> Outcome<()> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(format!("the server has ended ({status})")),
            Err(error) => Err(format!("cannot check the server: {error}")),
        }
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn data(&self) -> &Path {
        &self.data
    }

    pub(super) fn process(&self) -> u32 {
        self.child.id()
    }

    /// A line of the server's `/proc/PID/status`: `VmRSS` is its memory now, `VmHWM` its peak.
    pub(super) fn memory_kib(&self, field: &str) -> Outcome<u64> {
        let file = format!("/proc/{}/status", self.process());
        let status = fs::read_to_string(&file).map_err(|error| format!("cannot read {file}: {error}"))?;
        let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        let number = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        number.ok_or_else(|| format!("{file} has no {field}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server may have ended already. Its directory is removed at the next start at the latest.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.data);
    }
}
