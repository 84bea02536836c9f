//! Whether a database still holds what was written to it: the result of the database's own check, and the health
//! of a file while it is in use.
//!
//! This module is about pages, trees and indexes. The engine's invariants decide whether the rows make sense.

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
    /// The page of the file or of the table. `None` if the check names no page.
    pub page: Option<u64>,
    /// The problem, in the database's own words.
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

/// The result of checking a whole database.
#[derive(Debug, Clone, Default)]
pub struct Integrity {
    pub damages: Vec<Damage>,
    /// What was checked, such as `2000 pages`.
    pub checked: String,
    /// What could not be checked and why, and other remarks for the operator.
    pub notes: Vec<String>,
}

/// How far a check has come.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    pub done: u64,
    /// The total. `None` if the total is unknown.
    pub of: Option<u64>,
    /// The things that are counted, such as `pages`.
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

/// Called often during a check, with its progress.
pub type OnProgress = Arc<dyn Fn(Progress) + Send + Sync>;

/// The health of a database file while it is in use. Reads, batches and the check in the background report damage
/// here.
#[derive(Debug)]
pub struct FileHealth {
    /// The first damage that was found.
    damage: watch::Sender<Option<String>>,
    checked: AtomicBool,
    /// This file exists after damage was found. If it exists, the next start checks the whole database before it
    /// serves.
    marker: PathBuf,
}

impl FileHealth {
    pub(crate) fn new(marker: PathBuf) -> Self {
        Self { damage: watch::channel(None).0, checked: AtomicBool::new(false), marker }
    }

    /// Whether the whole file has been checked since it was opened, and was sound.
    pub fn is_checked(&self) -> bool {
        self.checked.load(Ordering::Relaxed)
    }

    /// Waits until damage is found, and returns its description.
    pub async fn damaged(&self) -> String {
        let mut damage = self.damage.subscribe();
        let found = damage.wait_for(Option::is_some).await.map(|found| found.clone());
        match found {
            Ok(what) => what.unwrap_or_default(),
            // This cannot happen: `self` holds the sender, so the channel stays open.
            Err(_) => std::future::pending().await,
        }
    }

    /// Whether damage was found since the last complete check that found none.
    pub(crate) fn is_suspect(&self) -> bool {
        self.marker.exists()
    }

    /// Records that a complete check found no damage.
    pub(crate) fn found_sound(&self) {
        self.checked.store(true, Ordering::Relaxed);
        if self.is_suspect()
            && let Err(error) = std::fs::remove_file(&self.marker)
        {
            let marker = self.marker.display();
            tracing::warn!(%error, %marker, "cannot remove the marker of earlier damage: remove the file");
        }
    }

    /// Records an error if it is [`StoreError::Damaged`]; other errors are ignored. The first report is kept, logged
    /// and written to the marker file, which the next start reads.
    pub(crate) fn report(&self, error: &StoreError) {
        let StoreError::Damaged(_) = error else { return };
        let is_first = self.damage.send_if_modified(|known| {
            let is_first = known.is_none();
            known.get_or_insert_with(|| error.to_string());
            is_first
        });
        if is_first {
            tracing::error!(%error, "the database file is damaged: restore a backup");
            if let Err(error) = std::fs::write(&self.marker, format!("{error}\n")) {
                tracing::error!(%error, marker = %self.marker.display(), "cannot mark the file as damaged");
            }
        }
    }
}
