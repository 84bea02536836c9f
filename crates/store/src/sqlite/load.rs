//! Loads the rows that a batch wants, inside one transaction. Each key is looked up first in the changes that are
//! being written, then in the cache, then in the file. Looking keys up one by one is cheap, because SQLite runs in
//! this process.

use std::collections::BTreeSet;

use flovyn_engine::state::*;
use flovyn_engine::{Change, Loaded, Mutations, Wants, for_each_table};
use rusqlite::Connection;
use uuid::Uuid;

use super::cache::{Cache, Shelf};
use super::codec::{bind, limit, read_row};
use super::error::store_error;
use super::scan::load_scan;
use super::sql::Statements;
use crate::clock::Clock;
use crate::port::StoreResult;
use crate::record::{Record, lane_values};
use crate::value::Value;

pub(super) const LANE: &str = "SELECT sort_ms, id FROM ready WHERE tenant_id = ?1 AND class = ?2 AND queue = ?3 AND kind = ?4 \
     AND kind_version = ?5 ORDER BY sort_ms, id LIMIT ?6";

macro_rules! define {
    ($($field:ident: $row:ident,)*) => {
        fn load_keys(
            conn: &Connection,
            sql: &Statements,
            cache: &mut Cache,
            before: &Mutations,
            wants: &Wants,
            loaded: &mut Loaded,
        ) -> StoreResult<()> {
            $(
                if !wants.$field.is_empty() {
                    let keys = wants.$field.lock.union(&wants.$field.peek);
                    let known = (&mut cache.$field, &before.$field[..]);
                    load_table(conn, &sql.$field.select, known, keys, &mut loaded.$field)?;
                }
            )*
            Ok(())
        }
    };
}
for_each_table!(define);

/// `before`: changes that the loaded rows must reflect, whether they are in the file yet or not. Lanes are combined
/// with these changes here. For all other searches, the caller must check whether `before` could change the result.
pub(super) fn load(
    conn: &Connection,
    sql: &Statements,
    cache: &mut Cache,
    before: &Mutations,
    wants: &Wants,
    clock: &dyn Clock,
) -> StoreResult<Loaded> {
    let mut loaded = Loaded::at(clock.now());
    load_keys(conn, sql, cache, before, wants, &mut loaded)?;
    for scan in &wants.scans {
        load_scan(conn, scan, &mut loaded)?;
    }
    for (lane, rows_wanted) in &wants.lanes {
        loaded.ready.extend(load_lane(conn, lane, *rows_wanted, &before.ready)?);
    }
    // No other batch can have been decided since the rows were read, so the time belongs to that state.
    loaded.now = clock.now();
    Ok(loaded)
}

fn load_table<'a, R: Record>(
    conn: &Connection,
    sql: &str,
    (cached, before): (&mut Shelf<R>, &[Change<R>]),
    keys: impl Iterator<Item = &'a R::Key>,
    loaded: &mut Vec<R>,
) -> StoreResult<()>
where
    R::Key: 'a,
{
    let mut statement = conn.prepare_cached(sql).map_err(store_error)?;
    let mut values = Vec::with_capacity(R::KEY_COLUMNS);
    for key in keys {
        // The changes are sorted by key.
        if let Ok(found) = before.binary_search_by(|change| change.row().key().cmp(key)) {
            loaded.extend(before[found].made().cloned());
            continue;
        }
        if let Some(row) = cached.get(key) {
            loaded.push(row.clone());
            continue;
        }
        values.clear();
        R::key_values(key, &mut values);
        bind(&mut statement, &values)?;
        if let Some(row) = statement.raw_query().next().map_err(store_error)? {
            loaded.push(read_row(row)?);
        }
    }
    Ok(())
}

/// The first rows of a lane.
fn load_lane(
    conn: &Connection,
    lane: &Lane,
    rows_wanted: usize,
    before: &[Change<Ready>],
) -> StoreResult<Vec<Ready>> {
    // The changes are sorted by lane.
    let changes = &before[before.partition_point(|change| change.row().lane < *lane)..];
    let changes = &changes[..changes.partition_point(|change| change.row().lane == *lane)];
    let mut values = Vec::with_capacity(6);
    lane_values(lane, &mut values);
    // Each change removes at most one of the rows.
    values.push(limit(rows_wanted + changes.len()));
    let mut places = places(conn, &values)?;
    if !changes.is_empty() {
        let mut found: BTreeSet<PlaceInLane> = places.into_iter().collect();
        for change in changes {
            match change.made() {
                Some(row) => found.insert(row.place()),
                None => found.remove(&change.row().place()),
            };
        }
        places = found.into_iter().take(rows_wanted).collect();
    }
    // The rows of a lane share its names.
    Ok(places.into_iter().map(|(sort_ms, id)| Ready { lane: lane.clone(), sort_ms, id }).collect())
}

fn places(conn: &Connection, lane: &[Value<'_>]) -> StoreResult<Vec<PlaceInLane>> {
    let mut statement = conn.prepare_cached(LANE).map_err(store_error)?;
    bind(&mut statement, lane)?;
    let (mut places, mut rows) = (Vec::new(), statement.raw_query());
    while let Some(row) = rows.next().map_err(store_error)? {
        let id: [u8; 16] = row.get(1).map_err(store_error)?;
        places.push((row.get(0).map_err(store_error)?, Uuid::from_bytes(id)));
    }
    Ok(places)
}
