//! Whether a database still holds what was written to it: what its own check finds, and what is known while it is in use.
//!
//! This is about pages, trees and indexes. Whether the rows make sense is for the engine's invariants to say.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

use crate::port::StoreError;

/// A damaged place in a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The table, the index or the part of the file, such as `table workflow_event`.
    pub place: String,
    /// The page of the file or of the table. `None`: the check names none.
    pub page: Option<u64>,
    /// What is wrong with it, in the database's own words.
    pub what: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place)?;
        if let Some(page) = self.page {
            write!(f, ", page {page}")?;
        }
        write!(f, ": {}", self.what)
    }
}

/// What a check of a whole database found.
#[derive(Debug, Clone, Default)]
pub struct Integrity {
    pub damages: Vec<Damage>,
    /// What was checked, such as `2000 pages`.
    pub checked: String,
    /// What could not be checked and why, and what the operator should know.
    pub notes: Vec<String>,
}

/// How far a check has come.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    pub done: u64,
    /// `None`: nobody knows how many there are.
    pub of: Option<u64>,
    /// What is counted, such as `pages`.
    pub unit: &'static str,
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.of {
            Some(of) => write!(f, "{} of {of} {}", self.done, self.unit),
            None => write!(f, "{} {}", self.done, self.unit),
        }
    }
}

/// Receives the progress of a check, often.
pub type OnProgress = Arc<dyn Fn(Progress) + Send + Sync>;

/// What is known of a database file while it is in use. A read, a batch and the check in the background all report here.
#[derive(Debug)]
pub struct FileHealth {
    /// The first damage that was met.
    damage: watch::Sender<Option<String>>,
    checked: AtomicBool,
    /// Exists after damage was met: the next start checks everything before it serves.
    marker: PathBuf,
}

impl FileHealth {
    pub(crate) fn new(marker: PathBuf) -> Self {
        Self { damage: watch::channel(None).0, checked: AtomicBool::new(false), marker }
    }

    /// Whether all of the file has been checked since it was opened.
    pub fn is_checked(&self) -> bool {
        self.checked.load(Ordering::Relaxed)
    }

    /// Waits until damage is met; what it is.
    pub async fn damaged(&self) -> String {
        let mut damage = self.damage.subscribe();
        let found = damage.wait_for(Option::is_some).await.map(|found| found.clone());
        match found {
            Ok(what) => what.unwrap_or_default(),
            // The sender is in `self`.
            Err(_) => std::future::pending().await,
        }
    }

    /// Whether damage was met since the file was last found to be sound.
    pub(crate) fn is_suspect(&self) -> bool {
        self.marker.exists()
    }

    pub(crate) fn found_sound(&self) {
        self.checked.store(true, Ordering::Relaxed);
        if self.is_suspect()
            && let Err(error) = std::fs::remove_file(&self.marker)
        {
            tracing::warn!(%error, marker = %self.marker.display(), "cannot remove the mark of earlier damage");
        }
    }

    /// Only damage counts. The first report is kept, logged and left behind for the next start.
    pub(crate) fn report(&self, error: &StoreError) {
        let StoreError::Damaged(_) = error else { return };
        let is_first = self.damage.send_if_modified(|known| {
            let is_first = known.is_none();
            known.get_or_insert_with(|| error.to_string());
            is_first
        });
        if is_first {
            tracing::error!(%error, "what was read is not what was written");
            if let Err(error) = std::fs::write(&self.marker, format!("{error}\n")) {
                tracing::error!(%error, marker = %self.marker.display(), "cannot mark the file as damaged");
            }
        }
    }
}
