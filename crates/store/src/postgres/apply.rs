//! Turns row changes into statements: per table at most one delete, one update and one insert, whatever the size.

use flovyn_engine::state::*;
use flovyn_engine::{Change, Mutations, for_each_table};
use uuid::Uuid;

use crate::port::{StoreError, StoreResult};
use crate::postgres::codec::{Array, Arrays, Parameter};
use crate::postgres::connection::Request;
use crate::postgres::sql::{Verb, key_columns, table_sql, update_columns};
use crate::postgres::table::TableRow;
use crate::record::Column;
use crate::value::Value;

const BATCH: &str = "INSERT INTO batch (id, committed_ms, written) \
                     VALUES ($1, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, 1)";

/// All writes of a batch in the order in which they are sent. Each fails if it misses a row.
///
/// Deletes and updates touch rows that the batch has locked (or whose owner it has). Inserts may have to wait for
/// another process that inserts the same key: they come last, tables in one order and keys sorted, so that two
/// processes never wait for each other. Last of all the batch's own id: if that is taken, the batch was given up.
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
                requests.extend(delete::<$row>(mutations));
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
    let rows: Vec<&R> = R::changes(mutations)
        .iter()
        .filter_map(|change| match change {
            Change::Insert(row) => Some(row),
            _ => None,
        })
        .collect();
    if rows.is_empty() {
        return None;
    }
    let mut arrays = Arrays::new(R::COLUMNS, rows.len());
    for row in rows {
        arrays.push(|values| row.values(values));
    }
    Some(Request::table(table_sql::<R>(Verb::Insert), arrays.into_parameters()))
}

fn update<R: TableRow>(mutations: &Mutations) -> StoreResult<Option<Request<'_>>> {
    let changed: Vec<(&R, Option<i64>)> = R::changes(mutations)
        .iter()
        .filter_map(|change| match change {
            Change::Update { row, expected_version } => Some((row, *expected_version)),
            _ => None,
        })
        .collect();
    let given = update_columns::<R>();
    if !changed.is_empty() && given.len() == R::KEY_COLUMNS {
        return Err(StoreError::Refused(format!("rows of {} never change", R::TABLE)));
    }
    let is_given = |column: &Column| given.iter().any(|other| other.name == column.name);
    let places: Vec<usize> = (0..R::COLUMNS.len()).filter(|index| is_given(&R::COLUMNS[*index])).collect();
    Ok(written::<R>(Verb::Update, &given, &changed, |row, values| {
        let mut all = Vec::with_capacity(R::COLUMNS.len());
        row.values(&mut all);
        values.extend(places.iter().map(|index| all[*index]));
    }))
}

fn delete<R: TableRow>(mutations: &Mutations) -> Option<Request<'_>> {
    let changed: Vec<(&R, Option<i64>)> = R::changes(mutations)
        .iter()
        .filter_map(|change| match change {
            Change::Delete { row, expected_version } => Some((row, *expected_version)),
            _ => None,
        })
        .collect();
    written::<R>(Verb::Delete, key_columns::<R>(), &changed, |row, values| {
        let mut all = Vec::with_capacity(R::COLUMNS.len());
        row.values(&mut all);
        values.extend(&all[..R::KEY_COLUMNS]);
    })
}

/// A change of rows that exist, with the versions they must still have.
fn written<'a, R: TableRow>(
    verb: Verb,
    columns: &[Column],
    changed: &[(&'a R, Option<i64>)],
    fill: impl Fn(&'a R, &mut Vec<Value<'a>>),
) -> Option<Request<'a>> {
    if changed.is_empty() {
        return None;
    }
    let mut arrays = Arrays::new(columns, changed.len());
    for (row, _) in changed {
        arrays.push(|values| fill(row, values));
    }
    let mut parameters = arrays.into_parameters();
    if R::VERSION.is_some() {
        let versions = changed.iter().map(|(_, version)| *version).collect();
        parameters.push(Parameter::Many(Array::Int(versions)));
    }
    Some(Request::table(table_sql::<R>(verb), parameters))
}
