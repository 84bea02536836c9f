//! Turns row changes into statements. Each table needs at most one delete, one update and one insert, whatever the
//! number of rows.

use flovyn_engine::state::*;
use flovyn_engine::{Change, Mutations, for_each_table};
use uuid::Uuid;

use crate::port::{StoreError, StoreResult};
use crate::postgres::codec::Parameter;
use crate::postgres::connection::Request;
use crate::postgres::rows::Rows;
use crate::postgres::sql::{Verb, is_in_delete, is_in_update, table_sql};
use crate::postgres::table::TableRow;
use crate::value::Value;

const BATCH: &str = "INSERT INTO batch (id, committed_ms, written) \
                     VALUES ($1, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, 1)";

/// All writes of a batch, in the order in which they are sent. A statement fails if it misses a row.
///
/// Deletes and updates affect rows that the batch (or the lock on their owner) has locked. Inserts may have to wait
/// for another process that inserts the same key. They come last, with tables and keys sorted, so that two processes
/// never wait for each other. The very last insert is the batch's own id. If it is already taken, another process has
/// settled the batch as not written.
pub(super) fn requests(mutations: &Mutations, batch_id: Uuid) -> StoreResult<Vec<Request<'_>>> {
    let mut requests = Vec::new();
    add_changes(mutations, &mut requests)?;
    add_inserts(mutations, &mut requests);
    requests.push(Request::text(BATCH, vec![Value::Uuid(batch_id).into()]));
    Ok(requests)
}

macro_rules! define {
    ($($field:ident: $row:ident,)*) => {
        fn add_changes<'a>(mutations: &'a Mutations, requests: &mut Vec<Request<'a>>) -> StoreResult<()> {
            $(
                requests.extend(delete::<$row>(mutations)?);
                requests.extend(update::<$row>(mutations)?);
            )*
            Ok(())
        }

        fn add_inserts<'a>(mutations: &'a Mutations, requests: &mut Vec<Request<'a>>) {
            $(requests.extend(insert::<$row>(mutations));)*
        }
    };
}
for_each_table!(define);

fn insert<R: TableRow>(mutations: &Mutations) -> Option<Request<'_>> {
    let mut rows: Vec<&R> = Vec::new();
    for change in R::changes(mutations) {
        if let Change::Insert(row) = change {
            rows.push(row);
        }
    }
    written(Verb::Insert, &rows, |_| true)
}

fn update<R: TableRow>(mutations: &Mutations) -> StoreResult<Option<Request<'_>>> {
    let mut rows: Vec<&R> = Vec::new();
    for change in R::changes(mutations) {
        if let Change::Update { row, expected_version } = change {
            check_version(row, *expected_version, row.version().map(|version| version - 1))?;
            rows.push(row);
        }
    }
    if !rows.is_empty() && R::COLUMNS.iter().all(|column| column.fixed) {
        return Err(StoreError::Refused(format!("rows of {} never change", R::TABLE)));
    }
    Ok(written(Verb::Update, &rows, is_in_update::<R>))
}

fn delete<R: TableRow>(mutations: &Mutations) -> StoreResult<Option<Request<'_>>> {
    let mut rows: Vec<&R> = Vec::new();
    for change in R::changes(mutations) {
        if let Change::Delete { row, expected_version } = change {
            check_version(row, *expected_version, row.version())?;
            rows.push(row);
        }
    }
    Ok(written(Verb::Delete, &rows, is_in_delete::<R>))
}

/// Checks that the expected version follows from the row itself, because the statements do not send it separately.
fn check_version<R: TableRow>(row: &R, expected: Option<i64>, known: Option<i64>) -> StoreResult<()> {
    if expected == known {
        return Ok(());
    }
    let found = row.version();
    Err(StoreError::Refused(format!("a row of {} has version {found:?}, expected {expected:?}", R::TABLE)))
}

fn written<'a, R: TableRow>(
    verb: Verb,
    rows: &[&'a R],
    given: impl Fn(usize) -> bool,
) -> Option<Request<'a>> {
    if rows.is_empty() {
        return None;
    }
    let rows = Rows::new(rows.iter().copied(), given);
    Some(Request::table(table_sql::<R>(verb), vec![Parameter::Rows(rows)]))
}
