//! What a batch asks for, read inside one transaction. Keys are looked up one by one, in what is being written, in the cache
//! and then in the file: in-process that is cheap.

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

/// `before`: changes that the rows have to show, whether they are in the file already or not. Searches are for whoever asks to
/// compare with it, but for those of lanes.
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
    // Nothing else can have been decided meanwhile: the time is that of the state that was read.
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
        // Changes are in the order of their keys.
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
    // They are in the order of their lanes.
    let changes = &before[before.partition_point(|change| change.row().lane < *lane)..];
    let changes = &changes[..changes.partition_point(|change| change.row().lane == *lane)];
    let mut values = Vec::with_capacity(6);
    lane_values(lane, &mut values);
    // Each change takes at most one of them away.
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
    // A lane's names are shared by its rows.
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
