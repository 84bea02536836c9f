//! Prints lists, as a table or as JSON. Each page is printed as soon as it arrives.

use crate::client::answers::Answer;
use crate::exit::Failure;
use crate::remote::Session;
use crate::view::table::{Cell, Column, Table};
use crate::view::{Out, note, pretty};

/// The maximum page size of most of the server's lists.
const PAGE: usize = 100;

/// One page of items, and the cursor of the next page. `None`: there are no more.
pub(super) type Page<T, C> = (Vec<Answer<T>>, Option<C>);

pub(super) struct Listing {
    out: Out,
    table: Table,
    shown: usize,
}

impl Listing {
    pub(super) fn new(session: &Session, columns: impl Into<Vec<Column>>) -> Self {
        Self { out: session.out, table: Table::new(columns), shown: 0 }
    }

    /// Prints more items.
    pub(super) fn add<T, const N: usize>(
        &mut self,
        items: &[Answer<T>],
        mut row: impl FnMut(&T) -> [Cell; N],
    ) -> Result<(), Failure> {
        if self.out.is_json() || items.is_empty() {
            return self.add_json(items);
        }
        self.shown += items.len();
        items.iter().for_each(|item| self.table.row(row(&item.value)));
        self.out.lines(&self.table.take_lines(self.out.width, self.out.paint))
    }

    /// Prints more items that have no columns, as lines.
    pub(super) fn add_lines<T>(
        &mut self,
        items: &[Answer<T>],
        line: impl FnMut(&T) -> String,
    ) -> Result<(), Failure> {
        if self.out.is_json() || items.is_empty() {
            return self.add_json(items);
        }
        self.shown += items.len();
        self.out.lines(&items.iter().map(|item| &item.value).map(line).collect::<Vec<_>>())
    }

    fn add_json<T>(&mut self, items: &[Answer<T>]) -> Result<(), Failure> {
        if items.is_empty() {
            return Ok(());
        }
        let before = if self.shown == 0 { "[" } else { "," };
        self.shown += items.len();
        let items: Vec<String> = items.iter().map(|item| pretty::item(item.sent.get())).collect();
        self.out.text(&format!("{before}{}", items.join(",")))
    }

    /// Prints items in pages. `page` receives the number of items still wanted and the cursor. Returns the cursor of
    /// the items that were not fetched.
    pub(super) async fn add_pages<T, C, P, const N: usize>(
        &mut self,
        limit: u32,
        mut row: impl FnMut(&T) -> [Cell; N],
        mut page: impl FnMut(usize, Option<C>) -> P,
    ) -> Result<Option<C>, Failure>
    where
        P: Future<Output = Result<Page<T, C>, Failure>>,
    {
        let limit = limit as usize;
        let mut cursor = None;
        loop {
            let (items, next) = page(limit - self.shown, cursor).await?;
            self.add(&items, &mut row)?;
            if next.is_none() || self.shown >= limit {
                return Ok(next);
            }
            cursor = next;
        }
    }

    /// Ends the list. `none` is printed if the list is empty.
    pub(super) fn end(self, none: &str) -> Result<(), Failure> {
        match (self.out.is_json(), self.shown) {
            (true, 0) => self.out.line("[]"),
            (true, _) => self.out.line("\n]"),
            (false, 0) => {
                note(none);
                Ok(())
            }
            (false, _) => Ok(()),
        }
    }

    /// Prints a whole list in pages.
    pub(super) async fn run<T, P, const N: usize>(
        mut self,
        limit: u32,
        none: &str,
        row: impl FnMut(&T) -> [Cell; N],
        mut page: impl FnMut(String, Option<String>) -> P,
    ) -> Result<(), Failure>
    where
        P: Future<Output = Result<Page<T, String>, Failure>>,
    {
        let more =
            self.add_pages(limit, row, |most, cursor| page(most.min(PAGE).to_string(), cursor)).await?;
        self.end(none)?;
        if more.is_some() {
            note(&format!("There are more. Show them with --limit {}.", limit.saturating_mul(2)));
        }
        Ok(())
    }
}
