//! Tables that fit the terminal: columns as wide as their content; if there is no room, the widest columns are cut.
//! Pure.

use console::{measure_text_width, truncate_str};

use super::words::printable;
use crate::terminal::{Colour, Paint};

const GAP: usize = 2;
/// Minimum width of a column that is cut.
const LEAST: usize = 6;

/// A column's name, and whether it may be cut. Ids may not be cut, because a part of an id is useless.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    name: &'static str,
    gives_way: bool,
}

pub(crate) const fn whole(name: &'static str) -> Column {
    Column { name, gives_way: false }
}

pub(crate) const fn cut(name: &'static str) -> Column {
    Column { name, gives_way: true }
}

#[derive(Debug, Clone)]
pub(crate) struct Cell {
    text: String,
    colour: Option<Colour>,
}

impl Cell {
    pub(crate) fn painted(text: &str, colour: Option<Colour>) -> Self {
        Self { text: printable(text), colour }
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::painted(text.as_ref(), None)
    }
}

/// A table whose rows arrive over time. Printed rows are dropped.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    /// The widths of the columns, after the first rows were printed.
    widths: Option<Vec<usize>>,
}

impl Table {
    pub(crate) fn new(columns: impl Into<Vec<Column>>) -> Self {
        Self { columns: columns.into(), rows: Vec::new(), widths: None }
    }

    pub(crate) fn row(&mut self, cells: impl Into<Vec<Cell>>) {
        self.rows.push(cells.into());
    }

    /// Formats the rows added since the last call; the first call includes the header. Without a width nothing is
    /// cut, because the output is for a program.
    pub(crate) fn take_lines(&mut self, width: Option<usize>, paint: Paint) -> Vec<String> {
        let mut lines = Vec::new();
        let widths = self.fit(width);
        if self.widths.is_none() {
            let names = self.columns.iter().map(|column| Cell::painted(column.name, Some(Colour::Dim)));
            lines.push(line(&names.collect::<Vec<_>>(), &widths, paint));
        }
        lines.extend(self.rows.drain(..).map(|row| line(&row, &widths, paint)));
        self.widths = Some(widths);
        lines
    }

    /// The previous widths, or larger ones if the new rows need it and there is room.
    fn fit(&self, width: Option<usize>) -> Vec<usize> {
        let names = || self.columns.iter().map(|column| column.name.len()).collect();
        let mut widths: Vec<usize> = self.widths.clone().unwrap_or_else(names);
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(measure_text_width(&cell.text));
            }
        }
        let Some(room) = width else { return widths };
        let gaps = GAP * widths.len().saturating_sub(1);
        while widths.iter().sum::<usize>() + gaps > room {
            let giving = self.columns.iter().zip(&mut widths).filter(|(column, _)| column.gives_way);
            match giving.map(|(_, width)| width).filter(|width| **width > LEAST).max() {
                Some(widest) => *widest -= 1,
                None => break,
            }
        }
        widths
    }
}

fn line(cells: &[Cell], widths: &[usize], paint: Paint) -> String {
    let mut out = String::new();
    for (index, (cell, width)) in cells.iter().zip(widths).enumerate() {
        let text = truncate_str(&cell.text, *width, paint.ellipsis());
        let rest = width.saturating_sub(measure_text_width(&text));
        out.push_str(&cell.colour.map_or_else(|| text.to_string(), |colour| paint.with(colour, &text)));
        if index + 1 < cells.len() {
            out.extend(std::iter::repeat_n(' ', rest + GAP));
        }
    }
    out.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Table {
        let mut table = Table::new([whole("ID"), cut("KIND"), cut("ERROR")]);
        table.row(["0123456789", "order", "the bank did\nnot answer"].map(Cell::from));
        table.row([Cell::from("0123456780"), Cell::from("世界"), Cell::painted("no", Some(Colour::Red))]);
        table
    }

    #[test]
    fn columns_are_as_wide_as_their_content() {
        let found = example().take_lines(None, Paint::plain());
        let expected = [
            "ID          KIND   ERROR",
            "0123456789  order  the bank did\\nnot answer",
            "0123456780  世界   no",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn rows_that_come_later_stand_below() {
        let mut table = example();
        assert_eq!(table.take_lines(None, Paint::plain()).len(), 3);
        table.row(["7", "a", "b"].map(Cell::from));
        assert_eq!(table.take_lines(None, Paint::plain()), ["7           a      b"]);
        table.row(["01234567890", "a", "b"].map(Cell::from));
        assert_eq!(table.take_lines(Some(10), Paint::plain()), ["01234567890  a      b"]);
    }

    #[test]
    fn where_there_is_no_room_the_widest_gives_way() {
        let found = example().take_lines(Some(30), Paint::plain());
        let expected =
            ["ID          KIND   ERROR", "0123456789  order  the bank d…", "0123456780  世界   no"];
        assert_eq!(found, expected);
        // Ids are not cut, even if the line is too long.
        assert!(example().take_lines(Some(5), Paint::plain())[1].starts_with("0123456789  "));
    }
}
