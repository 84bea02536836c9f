//! What a batch asks for, read inside the writer's transaction. Keys are looked up one by one, in the cache and then
//! in the file: in-process that is cheap.

use flovyn_engine::state::*;
use flovyn_engine::{Loaded, Wants, for_each_table};
use rusqlite::Connection;

use super::cache::{Cache, Shelf};
use super::codec::{bind, limit, read_row, rows};
use super::error::store_error;
use super::scan::load_scan;
use super::sql::Statements;
use crate::clock::Clock;
use crate::port::StoreResult;
use crate::record::{Record, lane_values};

pub(super) const LANE: &str = "WHERE tenant_id = ?1 AND class = ?2 AND queue = ?3 AND kind = ?4 \
     AND kind_version = ?5 ORDER BY sort_ms, id LIMIT ?6";

macro_rules! define {
    ($($field:ident: $row:ident,)*) => {
        fn load_keys(
            conn: &Connection,
            sql: &Statements,
            cache: &mut Cache,
            wants: &Wants,
            loaded: &mut Loaded,
        ) -> StoreResult<()> {
            $(
                if !wants.$field.is_empty() {
                    let keys = wants.$field.lock.union(&wants.$field.peek);
                    load_table(conn, &sql.$field.select, &mut cache.$field, keys, &mut loaded.$field)?;
                }
            )*
            Ok(())
        }
    };
}
for_each_table!(define);

pub(super) fn load(
    conn: &Connection,
    sql: &Statements,
    cache: &mut Cache,
    wants: &Wants,
    clock: &dyn Clock,
) -> StoreResult<Loaded> {
    let mut loaded = Loaded::at(clock.now());
    load_keys(conn, sql, cache, wants, &mut loaded)?;
    for scan in &wants.scans {
        load_scan(conn, scan, &mut loaded)?;
    }
    for (lane, rows_wanted) in &wants.lanes {
        let mut values = Vec::with_capacity(6);
        lane_values(lane, &mut values);
        values.push(limit(*rows_wanted));
        loaded.ready.extend(rows::<Ready>(conn, LANE, &values)?);
    }
    // No later writer can come between: the time is that of the state that was read.
    loaded.now = clock.now();
    Ok(loaded)
}

fn load_table<'a, R: Record>(
    conn: &Connection,
    sql: &str,
    cached: &mut Shelf<R>,
    keys: impl Iterator<Item = &'a R::Key>,
    loaded: &mut Vec<R>,
) -> StoreResult<()>
where
    R::Key: 'a,
{
    let mut statement = conn.prepare_cached(sql).map_err(store_error)?;
    let mut values = Vec::with_capacity(R::KEY_COLUMNS);
    for key in keys {
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
