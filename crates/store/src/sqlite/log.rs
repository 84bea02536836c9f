//! The write-ahead log's upkeep, so that commits meet neither a file that has to grow nor a checkpoint.
//!
//! An fsync after writing over what is there takes half the time of one after making a file longer, so the log is
//! lengthened ahead of the writer. And the log is moved into the database by a connection and a thread of their own.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::wal::CheckpointMode;

use super::connect::{BUSY_TIMEOUT, open_checkpointer};
use super::error::store_error;
use super::held::with_suffix;
use crate::port::{StoreError, StoreResult};

/// Pages in the log from which it is moved into the database: 4 MiB. The disk takes so much in a moment; commits meanwhile wait for
/// it, and those of a timer would be late.
const MOVE_PAGES: i32 = 1_000;

/// Pages in the log from which the writer waits for readers, so that the log can start anew: 128 MiB.
const LONG_PAGES: i32 = 32_000;

const PATIENCE: Duration = Duration::from_millis(20);

/// A page and what the log says about it.
const FRAME: u64 = 4_096 + 24;
const HEADER: u64 = 32;

/// How close the writer may come to the end of the file, and by how many blocks it grows then.
const MARGIN: u64 = 256 << 10;
const STEP: u64 = 256;
const BLOCK: usize = 4_096;

/// Longer than that, the log is only made so by those who hold its checkpoint up.
const LONGEST: u64 = 32 << 20;

/// How often what was written meanwhile is moved as well, before the writer has to stop for the rest.
const ROUNDS: usize = 4;

/// As much as the writer moves itself, in a moment.
const FEW_PAGES: i32 = 256;

/// The log as its writer sees it.
pub(super) struct Log {
    checkpointer: Checkpointer,
    room: Room,
    /// Pages in it after the last commit.
    pages: Arc<AtomicI32>,
    /// Pages in it at which the next move begins.
    move_at: i32,
}

impl Log {
    /// Of the database that the writer has open.
    pub(super) fn open(writer: &mut Connection) -> StoreResult<Self> {
        let pages = Arc::new(AtomicI32::new(0));
        let counted = Arc::clone(&pages);
        let count = move |_: &mut rusqlite::hooks::Wal, pages| {
            counted.store(pages, Ordering::Relaxed);
            Ok(())
        };
        writer.wal_hook(Some(count)).map_err(store_error)?;
        let database = PathBuf::from(writer.path().unwrap_or_default());
        let room = Room::open(&database)
            .map_err(|error| StoreError::Unavailable(format!("cannot open the write-ahead log: {error}")))?;
        Ok(Self { checkpointer: Checkpointer::start(&database)?, room, pages, move_at: MOVE_PAGES })
    }

    pub(super) fn pages(&self) -> i32 {
        self.pages.load(Ordering::Relaxed)
    }

    /// Whether there is anything to be done.
    pub(super) fn wants_tending(&self) -> bool {
        let pages = self.pages();
        pages >= self.move_at || self.checkpointer.under_way || self.room.is_short(pages)
    }

    /// What is to be done once a batch has been answered. The log is moved when it is long, and again each time it has
    /// grown by as much: what a reader held back is left for then. Only a fatal error matters to the caller.
    pub(super) fn tend(&mut self, writer: &Connection) -> StoreResult<()> {
        let pages = self.pages();
        if let Some(ended) = self.checkpointer.ended() {
            minor(ended.and_then(|()| move_rest(writer, pages)), pages)?;
        }
        if pages < MOVE_PAGES {
            self.move_at = MOVE_PAGES;
        }
        if pages >= self.move_at {
            self.move_at = pages.saturating_add(MOVE_PAGES);
            self.checkpointer.begin();
        }
        if let Err(error) = self.room.keep(pages) {
            tracing::debug!(%error, "the log was not lengthened; it grows as it is written");
        }
        Ok(())
    }
}

/// A move that was not completed is tried again later; anything worse is the caller's to know.
fn minor(moved: StoreResult<()>, pages: i32) -> StoreResult<()> {
    match moved {
        Err(StoreError::Fatal(why)) => Err(StoreError::Fatal(format!("a checkpoint failed: {why}"))),
        Err(error @ StoreError::Damaged(_)) => Err(error),
        Err(error) => {
            tracing::debug!(%error, pages, "a checkpoint was not completed");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// By the writer itself, so that nothing is written meanwhile and the log can start anew. It waits for readers only
/// when the log has become far too long, and not for long even then.
fn move_rest(writer: &Connection, pages: i32) -> StoreResult<()> {
    let mode = if pages < LONG_PAGES { CheckpointMode::PASSIVE } else { CheckpointMode::RESTART };
    writer.busy_timeout(PATIENCE).map_err(store_error)?;
    let moved = writer.wal_checkpoint_v2(Some("main"), mode);
    writer.busy_timeout(BUSY_TIMEOUT).map_err(store_error)?;
    moved.map(|_| ()).map_err(store_error)
}

/// The log's file, always longer than what is in it.
struct Room {
    file: File,
    bytes: u64,
}

impl Room {
    fn open(database: &Path) -> io::Result<Self> {
        let file = File::options().append(true).open(beside(database))?;
        let bytes = file.metadata()?.len();
        Ok(Self { file, bytes })
    }

    fn is_short(&self, pages: i32) -> bool {
        let end = HEADER + u64::try_from(pages).unwrap_or_default() * FRAME;
        end + MARGIN > self.bytes && end <= LONGEST
    }

    /// Makes room behind that many pages. What is appended is no page: reading the log ends before it.
    fn keep(&mut self, pages: i32) -> io::Result<()> {
        if !self.is_short(pages) {
            return Ok(());
        }
        // The log may have grown by itself, or have been cut off when it started anew.
        self.bytes = self.file.metadata()?.len();
        if self.is_short(pages) {
            // In small pieces: some file systems keep what was written at once together, and write it as one ever after.
            for _ in 0..STEP {
                self.file.write_all(&[0; BLOCK])?;
            }
            self.file.sync_data()?;
            self.bytes += STEP * BLOCK as u64;
        }
        Ok(())
    }
}

/// The log's name.
pub(super) fn beside(database: &Path) -> PathBuf {
    with_suffix(database, "-wal")
}

/// Moves the log into the database while the writer goes on. Dropping it waits for a move under way.
struct Checkpointer {
    orders: Option<mpsc::Sender<()>>,
    moved: mpsc::Receiver<StoreResult<()>>,
    under_way: bool,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    fn start(database: &Path) -> StoreResult<Self> {
        let conn = open_checkpointer(database)?;
        let (orders, ordered) = mpsc::channel();
        let (report, moved) = mpsc::channel();
        let work = move || {
            while ordered.recv().is_ok() {
                if report.send(move_most(&conn)).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("flovyn-checkpoint".into()).spawn(work);
        let thread =
            thread.map_err(|error| StoreError::Unavailable(format!("no thread for checkpoints: {error}")))?;
        Ok(Self { orders: Some(orders), moved, under_way: false, thread: Some(thread) })
    }

    /// Begins to move the log, unless that is under way.
    fn begin(&mut self) {
        if let (false, Some(orders)) = (self.under_way, &self.orders) {
            self.under_way = orders.send(()).is_ok();
        }
    }

    /// How a move ended, once: all but what was written last is in the database.
    fn ended(&mut self) -> Option<StoreResult<()>> {
        let ended = self.moved.try_recv().ok()?;
        self.under_way = false;
        Some(ended)
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        drop(self.orders.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The first move takes long, and the writer writes meanwhile; each further one has less to do.
fn move_most(conn: &Connection) -> StoreResult<()> {
    for _ in 0..ROUNDS {
        let moved = conn.wal_checkpoint_v2(Some("main"), CheckpointMode::PASSIVE);
        let (pages, in_database) = moved.map_err(store_error)?;
        if pages.saturating_sub(in_database) <= FEW_PAGES {
            break;
        }
    }
    Ok(())
}
