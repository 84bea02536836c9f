//! PostgreSQL is restarted under the server: orderly, or as after a crash.

use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use flovyn_sim::rng::Rng;

use super::{Harm, Schedule};
use crate::received::Ledger;
use crate::world::World;

/// Set by `cargo xtask chaos`: the data of the throw-away cluster, and its programs.
const DATA_VARIABLE: &str = "FLOVYN_TEST_POSTGRES_DATA";
const PROGRAMS_VARIABLE: &str = "FLOVYN_TEST_POSTGRES_PROGRAMS";

pub(super) async fn run(
    world: &mut World,
    ledger: &Ledger,
    rng: &mut Rng,
    schedule: Schedule,
) -> Result<Harm, String> {
    let mut harm = Harm::default();
    while schedule.next(rng).await {
        let mode = rng.of(["fast", "immediate"]);
        harm.count(ledger);
        restart(mode).await?;
        // The database answers from here on; the rest of the recovery time is the server's.
        let begin = Instant::now();
        let acknowledged = ledger.acknowledged();
        while ledger.acknowledged() == acknowledged && Instant::now() < schedule.until {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        harm.recovered(begin.elapsed());
        for server in &mut world.servers {
            if !server.is_running() {
                return Err(format!("the server ended with its database:\n{}", server.log_tail()));
            }
        }
        eprintln!("PostgreSQL was restarted ({mode}); {} acknowledged", ledger.acknowledged());
    }
    Ok(harm)
}

async fn restart(mode: &str) -> Result<(), String> {
    pg_ctl(&["restart", "--mode", mode]).await
}

fn variable(name: &str) -> Result<PathBuf, String> {
    std::env::var_os(name).map(PathBuf::from).ok_or_else(|| format!("set {name} or run `cargo xtask chaos`"))
}

/// The data of the throw-away cluster.
pub(super) fn data() -> Result<PathBuf, String> {
    variable(DATA_VARIABLE)
}

pub(super) async fn pg_ctl(arguments: &[&str]) -> Result<(), String> {
    let (data, programs) = (data()?, variable(PROGRAMS_VARIABLE)?);
    let owner = std::fs::metadata(&data).map_err(|error| format!("{}: {error}", data.display()))?;
    let mut command = std::process::Command::new(programs.join("pg_ctl"));
    command.args(arguments).args(["--wait", "--silent", "--pgdata"]).arg(&data);
    command.arg("--log").arg(data.with_file_name("server.log"));
    if let Some(folder) = data.parent() {
        command.current_dir(folder);
    }
    let me = std::fs::metadata("/proc/self").map_err(|error| error.to_string())?;
    if me.uid() != owner.uid() {
        // PostgreSQL refuses to run as root.
        command.uid(owner.uid()).gid(owner.gid());
    }
    let status = tokio::process::Command::from(command).status().await.map_err(|error| error.to_string())?;
    if status.success() { Ok(()) } else { Err(format!("pg_ctl {arguments:?} failed ({status})")) }
}
