//! One throw-away cluster on a free loopback port. It is removed when its guard is dropped.
//!
//! PostgreSQL's own tools never receive our signals (`Command::output`, in their own process group). Each takes only a
//! moment, and an interrupted tool may leave a server running that nobody knows of.

use std::env;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{DirBuilderExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, Command};

use super::account::Account;
use super::binaries::Binaries;
use crate::Outcome;
use crate::{run, signal};

/// Another process may take the free port before the server does.
const START_ATTEMPTS: u32 = 3;

/// The most directories left by killed runs that had our process id.
const LEFTOVERS_LIMIT: u32 = 100;

/// Settings that the tests need beyond the defaults. `fsync` stays on: the product promises that acknowledged data
/// survives a crash, so the tests must run with it.
const SETTINGS: &str = "
listen_addresses = '127.0.0.1'
max_connections = 200
shared_buffers = 128MB
fsync = on
";

pub(crate) struct Cluster {
    programs: PathBuf,
    account: Option<Account>,
    directory: PathBuf,
    port: u16,
    removed: bool,
}

impl Cluster {
    pub(crate) fn start(binaries: &Binaries) -> Outcome<Cluster> {
        let account = Account::for_server()?;
        let directory = create_directory(account)?;
        // From here on the guard exists, so a failure leaves nothing behind.
        let programs = binaries.directory.clone();
        let mut cluster = Cluster { programs, account, directory, port: 0, removed: false };
        cluster.initialise()?;
        cluster.start_server()?;
        run::say(&format!("throw-away cluster at {}", cluster.url()));
        signal::check()?;
        Ok(cluster)
    }

    /// The URL of a connection as the superuser, who may create databases.
    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    pub(crate) fn log_tail(&self, lines: usize) -> String {
        match fs::read(self.log()) {
            Ok(bytes) => last_lines(&String::from_utf8_lossy(&bytes), lines),
            Err(error) => format!("cannot read {}: {error}", self.log().display()),
        }
    }

    /// Stops the server and removes its directory. Fails if it cannot.
    pub(crate) fn stop(mut self) -> Outcome<()> {
        self.remove()
    }

    /// The data directory, for tests that restart the server.
    pub(crate) fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// The folder of PostgreSQL's own tools.
    pub(crate) fn programs(&self) -> &Path {
        &self.programs
    }

    fn log(&self) -> PathBuf {
        self.directory.join("server.log")
    }

    fn initialise(&self) -> Outcome<()> {
        let mut initdb = self.tool("initdb");
        initdb.arg("--pgdata").arg(self.data());
        // Without a sync: before the first start there is nothing to lose.
        initdb.args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]);
        finish(&mut initdb)?;
        let file = self.data().join("postgresql.conf");
        let settings = format!("{SETTINGS}unix_socket_directories = '{}'\n", quoted(&self.directory)?);
        OpenOptions::new()
            .append(true)
            .open(&file)
            .and_then(|mut conf| conf.write_all(settings.as_bytes()))
            .map_err(|error| format!("cannot write {}: {error}", file.display()))
    }

    fn start_server(&mut self) -> Outcome<()> {
        let mut why = String::new();
        for _ in 0..START_ATTEMPTS {
            self.port = free_port()?;
            let mut start = self.tool("pg_ctl");
            start.arg("start").arg("--wait").arg("--silent").arg("--pgdata").arg(self.data());
            start.arg("--log").arg(self.log()).arg("--options").arg(format!("-p {}", self.port));
            match finish(&mut start) {
                Ok(()) => return Ok(()),
                Err(error) => why = error,
            }
        }
        Err(format!("{why}\n{}", self.log_tail(20)))
    }

    fn remove(&mut self) -> Outcome<()> {
        if self.removed {
            return Ok(());
        }
        self.removed = true;
        let stopped = self.stop_server();
        // Removed even if the server did not stop: a server without its files ends by itself.
        let removed = fs::remove_dir_all(&self.directory)
            .map_err(|error| format!("cannot remove {}: {error}", self.directory.display()));
        stopped.and(removed)
    }

    fn stop_server(&self) -> Outcome<()> {
        if !self.data().join("postmaster.pid").exists() {
            return Ok(());
        }
        let mut stop = self.tool("pg_ctl");
        // The data is not needed any more, so there is no point in a clean shutdown.
        stop.args(["stop", "--mode=immediate", "--wait", "--silent", "--pgdata"]).arg(self.data());
        finish(&mut stop)
    }

    fn tool(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        // In the cluster's directory, because the account may not enter the current one.
        command.current_dir(&self.directory).env("LC_ALL", "C").process_group(0);
        if let Some(account) = self.account {
            // Std also drops root's supplementary groups when it changes the user.
            command.uid(account.user).gid(account.group);
        }
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Err(why) = self.remove() {
            run::say(&format!("warning: the throw-away cluster was not removed: {why}"));
        }
    }
}

/// A new directory that only the server's account can enter.
fn create_directory(account: Option<Account>) -> Outcome<PathBuf> {
    for attempt in 0..LEFTOVERS_LIMIT {
        let name = format!("flovyn-postgres-{}-{attempt}", process::id());
        let directory = env::temp_dir().join(name);
        let explain = |error| format!("cannot make {}: {error}", directory.display());
        match DirBuilder::new().mode(0o700).create(&directory) {
            Ok(()) => {
                if let Some(account) = account {
                    chown(&directory, Some(account.user), Some(account.group)).map_err(explain)?;
                }
                return Ok(directory);
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(explain(error)),
        }
    }
    Err(format!("too many directories flovyn-postgres-* in {}: remove them", env::temp_dir().display()))
}

fn free_port() -> Outcome<u16> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(|error| format!("no free port on 127.0.0.1: {error}"))
}

/// Runs one of PostgreSQL's tools to its end. Its output matters only if it fails.
fn finish(tool: &mut Command) -> Outcome<()> {
    let name = tool.get_program().display().to_string();
    let output = tool.output().map_err(|error| format!("cannot run {name}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let printed = String::from_utf8_lossy(&output.stderr);
    Err(format!("{name} failed ({}): {}", output.status, printed.trim()))
}

/// A path as it is written between quotes in postgresql.conf.
fn quoted(path: &Path) -> Outcome<String> {
    let text = path.to_str().ok_or_else(|| format!("{} is not UTF-8", path.display()))?;
    Ok(text.replace('\'', "''"))
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_log_is_kept() {
        assert_eq!(last_lines("a\nb\nc\n", 2), "b\nc");
        assert_eq!(last_lines("a\n", 2), "a");
    }

    #[test]
    fn quotes_in_a_path_are_doubled() {
        assert_eq!(quoted(Path::new("/x/it's")).unwrap(), "/x/it''s");
    }
}
