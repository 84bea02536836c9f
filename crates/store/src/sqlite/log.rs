//! Upkeep of the write-ahead log, so that commits wait neither for a growing file nor for a checkpoint.
//!
//! An fsync after overwriting existing bytes takes half as long as after extending a file. So the log is extended
//! ahead of the writer. A separate connection and thread move the log into the database.

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

/// The number of pages from which the log is moved into the database: 4 MiB. The disk writes this much quickly.
/// Commits have to wait for it, and with more pages timers would be late.
const MOVE_PAGES: i32 = 1_000;

/// The number of pages from which the writer waits for readers, so that the log can restart from its beginning: 128
/// MiB.
const LONG_PAGES: i32 = 32_000;

const PATIENCE: Duration = Duration::from_millis(20);

/// The size of a page with its header in the log.
const FRAME: u64 = 4_096 + 24;
const HEADER: u64 = 32;

/// When the writer is closer than this to the end of the file, the file grows by `STEP` blocks.
const MARGIN: u64 = 256 << 10;
const STEP: u64 = 256;
const BLOCK: usize = 4_096;

/// The log is not extended ahead beyond this size. It only becomes longer if readers block its checkpoints.
const LONGEST: u64 = 32 << 20;

/// The number of passes that also move pages written meanwhile, before the writer has to stop for the rest.
const ROUNDS: usize = 4;

/// A number of pages that the writer can move quickly itself.
const FEW_PAGES: i32 = 256;

/// The log, from the view of its writer.
pub(super) struct Log {
    checkpointer: Checkpointer,
    room: Room,
    /// Pages in the log after the last commit.
    pages: Arc<AtomicI32>,
    /// The number of pages at which the next move begins.
    move_at: i32,
}

impl Log {
    /// Opens the log of the writer's database.
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

    /// Whether the log needs upkeep now.
    pub(super) fn wants_tending(&self) -> bool {
        let pages = self.pages();
        pages >= self.move_at || self.checkpointer.in_flight || self.room.is_short(pages)
    }

    /// The upkeep after a batch has been answered. The log is moved when it is long, and again each time it has grown
    /// by the same length. Pages that a reader held back are moved then. Fails only with a fatal error.
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
            tracing::debug!(%error, "cannot extend the log ahead; it grows with each commit instead");
        }
        Ok(())
    }
}

/// Ignores a move that was not completed, because it is tried again later. Returns only fatal errors.
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

/// Moves the rest of the log in the writer itself, so that nothing is written meanwhile and the log can restart. It
/// waits for readers only if the log is far too long, and only for a short time.
fn move_rest(writer: &Connection, pages: i32) -> StoreResult<()> {
    let mode = if pages < LONG_PAGES { CheckpointMode::PASSIVE } else { CheckpointMode::RESTART };
    writer.busy_timeout(PATIENCE).map_err(store_error)?;
    let moved = writer.wal_checkpoint_v2(Some("main"), mode);
    writer.busy_timeout(BUSY_TIMEOUT).map_err(store_error)?;
    moved.map(|_| ()).map_err(store_error)
}

/// The file of the log, which is always longer than its content.
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

    /// Extends the file beyond that many pages. The appended bytes are not a valid page, so reading the log stops
    /// before them.
    fn keep(&mut self, pages: i32) -> io::Result<()> {
        if !self.is_short(pages) {
            return Ok(());
        }
        // The log may have grown, or may have been truncated when it restarted.
        self.bytes = self.file.metadata()?.len();
        if self.is_short(pages) {
            // The file grows in small pieces, because some file systems store a large write as one unit and later
            // rewrite that whole unit each time.
            for _ in 0..STEP {
                self.file.write_all(&[0; BLOCK])?;
            }
            self.file.sync_data()?;
            self.bytes += STEP * BLOCK as u64;
        }
        Ok(())
    }
}

/// The name of the log file.
pub(super) fn beside(database: &Path) -> PathBuf {
    with_suffix(database, "-wal")
}

/// Moves the log into the database while the writer continues. Dropping it waits for a move in progress.
struct Checkpointer {
    orders: Option<mpsc::Sender<()>>,
    moved: mpsc::Receiver<StoreResult<()>>,
    in_flight: bool,
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
        let thread = thread.map_err(|error| {
            StoreError::Unavailable(format!("cannot start the thread for checkpoints: {error}"))
        })?;
        Ok(Self { orders: Some(orders), moved, in_flight: false, thread: Some(thread) })
    }

    /// Starts to move the log, unless a move is in progress.
    fn begin(&mut self) {
        if let (false, Some(orders)) = (self.in_flight, &self.orders) {
            self.in_flight = orders.send(()).is_ok();
        }
    }

    /// The outcome of a finished move, returned once. After a success, all but the last pages are in the database.
    /// `None` if no move has finished.
    fn ended(&mut self) -> Option<StoreResult<()>> {
        let ended = self.moved.try_recv().ok()?;
        self.in_flight = false;
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

/// The first pass takes long, and the writer continues meanwhile. Each further pass has less to move.
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
