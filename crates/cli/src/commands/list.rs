//! Lists that come in pages: as many of them as it takes, shown as a table or as JSON.

use crate::client::answers::Answer;
use crate::exit::Failure;
use crate::remote::Session;
use crate::view::note;
use crate::view::table::Table;

/// What the server gives at once, at most.
const PAGE: usize = 100;

/// Some of what was asked for, and whether there is more.
pub(super) struct Listed<T> {
    pub(super) found: Vec<Answer<T>>,
    pub(super) more: bool,
}

impl<T> Listed<T> {
    /// `page` gets how many it may bring and the cursor to go on from; it says what it found and the next cursor.
    pub(super) async fn fetch<P>(
        limit: u32,
        mut page: impl FnMut(usize, Option<String>) -> P,
    ) -> Result<Self, Failure>
    where
        P: Future<Output = Result<(Vec<Answer<T>>, Option<String>), Failure>>,
    {
        let wanted = limit as usize;
        let mut found = Vec::new();
        let mut cursor = None;
        loop {
            let (items, next) = page((wanted - found.len()).min(PAGE), cursor).await?;
            found.extend(items);
            if next.is_none() || found.len() >= wanted {
                return Ok(Self { found, more: next.is_some() });
            }
            cursor = next;
        }
    }

    /// `none` is said if there is nothing.
    pub(super) fn show(
        &self,
        session: &Session,
        limit: u32,
        none: &str,
        table: impl FnOnce(&[Answer<T>]) -> Table,
    ) -> Result<(), Failure> {
        if session.out.is_json() {
            session.out.json_list(self.found.iter().map(|one| &*one.sent))?;
        } else if self.found.is_empty() {
            note(none);
        } else {
            session.out.table(&table(&self.found))?;
        }
        if self.more {
            note(&format!("There are more: --limit {} shows more of them.", limit.saturating_mul(2)));
        }
        Ok(())
    }
}
