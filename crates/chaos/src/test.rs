//! The tests: the processes of each, how often it causes faults, and the minimum for a valid run.

use clap::ValueEnum;

use crate::report::Minimum;
use crate::world::Plan;

/// Short, so that many leases expire in a run. Heartbeats are sent three times as often.
pub(crate) const WORKER_LEASE_MS: u64 = 3_000;
/// The clock errors of the servers of `many-servers`.
const SKEWS_MS: &[i64] = &[0, 7_000, -7_000];

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Test {
    /// SIGKILL for the server every few seconds.
    KillServer,
    /// Workers are killed, or stopped for longer than their lease.
    KillWorker,
    /// Three servers with different clocks on one PostgreSQL; SIGKILL for one every 3 seconds, sometimes with another
    /// frozen.
    ManyServers,
    /// PostgreSQL is restarted, orderly or as after a crash.
    PostgresRestart,
    /// SIGKILL for servers and for all processes of PostgreSQL, in turns.
    KillAll,
    /// Replies to COMMIT are lost.
    CommitReplies,
    /// Ten servers start at the same time on tasks of dead workers.
    BootedTogether,
    /// Every write to the disk is recorded; power is lost at each fsync.
    PowerLoss,
    /// Power loss with a disk that lies about syncs of the write-ahead log: passes if the loss is found.
    PowerLossProof,
    /// The disk is full, or fails to write or to sync.
    DiskErrors,
    /// Callers of entities by signal-with-start; SIGKILL for servers and workers.
    Entities,
    /// A task that kills every worker that runs it.
    Poison,
    /// A thousand workers reconnect to a server that was killed.
    Reconnect,
    /// One tenant floods the server; another one is timed.
    Flood,
    /// A transaction (PostgreSQL) or a reader (SQLite) that never ends.
    Soak,
}

impl Test {
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Whether it can run on this database.
    pub(crate) fn fits(self, store: Database) -> bool {
        match self {
            Self::ManyServers
            | Self::PostgresRestart
            | Self::KillAll
            | Self::CommitReplies
            | Self::BootedTogether => store == Database::Postgres,
            Self::PowerLoss | Self::PowerLossProof | Self::DiskErrors => store == Database::Sqlite,
            _ => true,
        }
    }

    pub(crate) fn plan(self, store: Database) -> Plan {
        let plan = Plan { workers: 2, ..Plan::default() };
        match self {
            Self::ManyServers => Plan { servers: 3, workers: 4, skews_ms: SKEWS_MS, ..plan },
            Self::KillAll => Plan { servers: 2, workers: 4, ..plan },
            Self::KillServer | Self::KillWorker | Self::PostgresRestart => Plan { workers: 4, ..plan },
            Self::Entities => {
                Plan { workers: 3, servers: if store == Database::Postgres { 2 } else { 1 }, ..plan }
            }
            Self::CommitReplies => Plan { proxied: true, ..plan },
            Self::DiskErrors => Plan { failing_disk: true, ..plan },
            _ => plan,
        }
    }

    /// In percent: how many of its workers speak the public protocol, unless the caller sets it.
    pub(crate) fn plain_percent(self) -> usize {
        match self {
            Self::KillServer
            | Self::KillWorker
            | Self::ManyServers
            | Self::PostgresRestart
            | Self::KillAll => 50,
            _ => 0,
        }
    }

    /// Whether it can have workers of the public protocol.
    pub(crate) fn takes_plain_workers(self) -> bool {
        self.plain_percent() > 0 || matches!(self, Self::CommitReplies | Self::DiskErrors)
    }

    /// The longest duration of a task.
    pub(crate) fn work_ms(self) -> usize {
        match self {
            // Long enough that tasks which were handed out again still run when the first worker wakes up.
            Self::KillWorker => 1_000,
            _ => 300,
        }
    }

    /// The bounds of the pause between two faults. Short runs have shorter pauses.
    pub(crate) fn pause_ms(self, seconds: u64) -> (usize, usize) {
        let short = seconds < 30;
        match self {
            Self::KillServer | Self::Entities if short => (500, 2_000),
            Self::KillServer | Self::Entities => (2_000, 5_000),
            Self::ManyServers if short => (1_000, 2_000),
            Self::ManyServers => (2_900, 3_100),
            Self::KillWorker => (300, 1_500),
            Self::KillAll if short => (500, 2_000),
            Self::KillAll => (2_000, 6_000),
            Self::PostgresRestart if short => (2_000, 4_000),
            Self::PostgresRestart => (5_000, 15_000),
            Self::DiskErrors => (300, 1_000),
            _ => (50, 300),
        }
    }

    /// The minimum for a valid run: a tenth of the work of a slow machine.
    pub(crate) fn minimum(self, seconds: u64) -> Minimum {
        let (_, longest) = self.pause_ms(seconds);
        let faults = usize::try_from(seconds * 1_000).unwrap_or(usize::MAX) / (longest * 10);
        Minimum {
            acknowledged: usize::try_from(seconds).unwrap_or(usize::MAX).max(20),
            kills_in_flight: faults.max(2),
            refused: u64::from(self == Self::KillWorker),
            plain_outcomes: 0,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Database {
    Sqlite,
    Postgres,
}
