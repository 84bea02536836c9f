//! SIGKILL for everything that the work depends on, in turns: a server, PostgreSQL with all its processes, and both at
//! once. Unlike `postgres-restart`, no process of PostgreSQL gets the chance to do anything before it ends.

use std::path::Path;
use std::time::{Duration, Instant};

use flovyn_sim::rng::Rng;
use flovyn_testkit::send_signal;

use super::postgres_restart::{data, pg_ctl};
use super::{Harm, Schedule};
use crate::received::Ledger;
use crate::world::World;

/// How long the processes of PostgreSQL may take to disappear after SIGKILL.
const GONE_WITHIN: Duration = Duration::from_secs(10);

pub(super) async fn run(
    world: &mut World,
    ledger: &Ledger,
    rng: &mut Rng,
    schedule: Schedule,
) -> Result<Harm, String> {
    let mut harm = Harm::default();
    while schedule.next(rng).await {
        let begin = Instant::now();
        let server = rng.below(world.servers.len());
        harm.count(ledger);
        let what = match harm.kills % 3 {
            1 => {
                kill_postgres().await?;
                start_postgres().await?;
                "PostgreSQL"
            }
            2 => {
                world.kill_server(server).await?;
                "a server"
            }
            _ => {
                world.servers[server].kill().await;
                kill_postgres().await?;
                // A server does not start without its database.
                start_postgres().await?;
                world.kill_server(server).await?;
                "PostgreSQL and a server"
            }
        };
        let acknowledged = ledger.acknowledged();
        while ledger.acknowledged() == acknowledged && Instant::now() < schedule.until {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        harm.recovered(begin.elapsed());
        for server in &mut world.servers {
            if !server.is_running() {
                return Err(format!("a server ended by itself:\n{}", server.log_tail()));
            }
        }
        eprintln!("{what} was killed; {} acknowledged", ledger.acknowledged());
    }
    Ok(harm)
}

/// Kills the postmaster and its children, and waits until they are gone.
async fn kill_postgres() -> Result<(), String> {
    let path = data()?.join("postmaster.pid");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let postmaster: u32 = text
        .lines()
        .next()
        .and_then(|line| line.trim().parse().ok())
        .ok_or_else(|| format!("{}: no process id", path.display()))?;
    // Stopped first, so that it starts no further children meanwhile.
    send_signal(postmaster, "STOP").await;
    let children = children_of(postmaster);
    send_signal(postmaster, "KILL").await;
    for child in &children {
        send_signal(*child, "KILL").await;
    }
    let begin = Instant::now();
    while std::iter::once(&postmaster).chain(&children).any(|process| is_alive(*process)) {
        if begin.elapsed() > GONE_WITHIN {
            return Err("processes of PostgreSQL survived SIGKILL".to_owned());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // In a container without an init process, nobody collects the dead postmaster. It would seem to be alive, and the next
    // one would not start because of the lock files. The port is in line 4, the folder of the socket in line 5.
    let lines: Vec<&str> = text.lines().collect();
    if let [_, _, _, port, sockets, ..] = lines[..] {
        // There may be no socket.
        let _ = std::fs::remove_file(Path::new(sockets).join(format!(".s.PGSQL.{port}.lock")));
    }
    std::fs::remove_file(&path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Starts PostgreSQL again. `restart` uses the options of the last start; `start` would not.
async fn start_postgres() -> Result<(), String> {
    pg_ctl(&["restart"]).await
}

fn children_of(parent: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter(|id| stat(*id).is_some_and(|(_, of)| of == parent)).collect()
}

/// A zombie has ended: it only waits for its parent to notice.
fn is_alive(process: u32) -> bool {
    stat(process).is_some_and(|(state, _)| state != 'Z')
}

/// The state of a process and its parent. The name in between may contain anything.
fn stat(process: u32) -> Option<(char, u32)> {
    let text = std::fs::read_to_string(Path::new("/proc").join(process.to_string()).join("stat")).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    let mut words = rest.split_ascii_whitespace();
    Some((words.next()?.chars().next()?, words.next()?.parse().ok()?))
}
