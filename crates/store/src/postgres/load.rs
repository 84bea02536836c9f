//! Loads the rows that a batch wants in one round trip: first the locks, then the rows that they protect, and last the
//! clock.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use flovyn_engine::state::*;
use flovyn_engine::{Loaded, Now, Wants, for_each_table};
use tokio_postgres::Row;

use crate::port::StoreResult;
use crate::postgres::codec::{self, Arrays, Parameter};
use crate::postgres::connection::{Connection, Request};
use crate::postgres::lanes::{self, Starts};
use crate::postgres::scan;
use crate::postgres::sql::{Verb, key_columns, table_sql};
use crate::postgres::table::TableRow;

/// Rounded down, because a timer must not fire in the millisecond before its time.
pub(super) const CLOCK: &str = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// Processes the answer to a request.
type Sink<'a> = Box<dyn FnOnce(&[Row], &mut Loaded) -> StoreResult<()> + Send + 'a>;

/// The order of requests in a round. In READ COMMITTED, a statement sees everything that was committed before it
/// began. So a read after a lock sees the rows that the lock protects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Begin,
    Lock,
    Read,
    Clock,
}

/// The requests of one round, each with the code that processes its answer.
pub(super) struct Round<'a> {
    wants: &'a Wants,
    entries: Vec<(Phase, Request<'a>, Sink<'a>)>,
}

impl<'a> Round<'a> {
    fn push(
        &mut self,
        phase: Phase,
        request: Request<'a>,
        sink: impl FnOnce(&[Row], &mut Loaded) -> StoreResult<()> + Send + 'a,
    ) {
        self.entries.push((phase, request, Box::new(sink)));
    }

    /// Adds a search without locks. If this round also wants to lock a row that is found, the row is left to the lock
    /// or is busy.
    pub(super) fn push_found<R: TableRow>(&mut self, request: Request<'a>) {
        let locked = &R::wanted(self.wants).lock;
        self.push(Phase::Read, request, move |rows, loaded| {
            for row in rows {
                let row: R = codec::read(row)?;
                if !R::LOCKED || !locked.contains(&row.key()) {
                    R::loaded(loaded).push(row);
                }
            }
            Ok(())
        });
    }

    async fn run(mut self, connection: &Connection) -> StoreResult<Loaded> {
        self.entries.sort_by_key(|(phase, ..)| *phase);
        let (requests, sinks): (Vec<_>, Vec<_>) =
            self.entries.into_iter().map(|(_, request, sink)| (request, sink)).unzip();
        let answers = connection.round(&requests).await?;
        let mut loaded = Loaded::at(Now::same(0));
        for (rows, sink) in answers.iter().zip(sinks) {
            sink(rows, &mut loaded)?;
        }
        Ok(loaded)
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct LoadOptions {
    /// Whether the transaction begins with this round.
    pub(super) begin: bool,
    pub(super) wait_for_locks: bool,
}

pub(super) async fn load(
    connection: &Connection,
    wants: &Wants,
    starts: &Starts,
    options: LoadOptions,
) -> StoreResult<Loaded> {
    let mut round = Round { wants, entries: Vec::new() };
    if options.begin {
        round.push(Phase::Begin, Request::plain("BEGIN"), |_, _| Ok(()));
    }
    add_tables(&mut round, wants, options.wait_for_locks);
    for wanted in &wants.scans {
        scan::add(&mut round, wanted);
    }
    add_lanes(&mut round, wants, starts);
    round.push(Phase::Clock, Request::text(CLOCK, Vec::new()), |rows, loaded| {
        loaded.now = read_clock(rows)?;
        Ok(())
    });
    round.run(connection).await
}

pub(super) fn read_clock(rows: &[Row]) -> StoreResult<Now> {
    let missing = || crate::StoreError::Unavailable("the database did not return the time".to_owned());
    Ok(Now::same(codec::get(rows.first().ok_or_else(missing)?, 0)?))
}

macro_rules! define_add_tables {
    ($($field:ident: $row:ident,)*) => {
        fn add_tables<'a>(round: &mut Round<'a>, wants: &'a Wants, wait_for_locks: bool) {
            $(add_table::<$row>(round, wants, wait_for_locks);)*
        }
    };
}
for_each_table!(define_add_tables);

fn add_table<'a, R: TableRow>(round: &mut Round<'a>, wants: &'a Wants, wait_for_locks: bool) {
    let wanted = R::wanted(wants);
    if wanted.is_empty() {
        return;
    }
    // Rows without their own lock are protected by the lock of their owner, which is taken first.
    let (locked, read): (Vec<&R::Key>, BTreeSet<&R::Key>) = if R::LOCKED {
        (wanted.lock.iter().collect(), wanted.peek.difference(&wanted.lock).collect())
    } else {
        (Vec::new(), wanted.lock.union(&wanted.peek).collect())
    };
    if !locked.is_empty() {
        let parameters = key_parameters::<R>(&locked);
        if wait_for_locks {
            let request = Request::table(table_sql::<R>(Verb::LockWaiting), parameters);
            round.push(Phase::Lock, request, |rows, loaded| {
                R::loaded(loaded).extend(codec::read_all::<R>(rows)?);
                Ok(())
            });
        } else {
            let request = Request::table(table_sql::<R>(Verb::Lock), parameters);
            round.push(Phase::Lock, request, move |rows, loaded| take_locked::<R>(rows, &locked, loaded));
        }
    }
    if !read.is_empty() {
        let keys: Vec<&R::Key> = read.into_iter().collect();
        let request = Request::table(table_sql::<R>(Verb::Read), key_parameters::<R>(&keys));
        round.push_found::<R>(request);
    }
}

/// Takes the rows that exist. Rows that could not be locked are busy.
fn take_locked<R: TableRow>(rows: &[Row], keys: &[&R::Key], loaded: &mut Loaded) -> StoreResult<()> {
    for row in rows {
        if codec::is_there::<R>(row)? {
            R::loaded(loaded).push(codec::read(row)?);
            continue;
        }
        let place: i64 = codec::get(row, R::COLUMNS.len())?;
        let index = usize::try_from(place - 1).unwrap_or(usize::MAX);
        R::busy(loaded).extend(keys.get(index).map(|key| (*key).clone()));
    }
    Ok(())
}

fn key_parameters<'a, R: TableRow>(keys: &[&'a R::Key]) -> Vec<Parameter<'a>> {
    let mut arrays = Arrays::new(key_columns::<R>(), keys.len());
    for key in keys {
        arrays.push(|values| R::key_values(key, values));
    }
    arrays.into_parameters()
}

fn add_lanes<'a>(round: &mut Round<'a>, wants: &'a Wants, starts: &'a Starts) {
    if wants.lanes.is_empty() {
        return;
    }
    let (search, from) = starts.begin(wants.lanes.keys(), Instant::now());
    let lanes = wants.lanes.iter().map(|(lane, wanted)| (lane, Some(*wanted)));
    let request = Request::text(lanes::search_sql(), lanes::parameters(lanes, &from, true));
    round.push(Phase::Read, request, move |rows, loaded| {
        let found: Vec<Ready> = codec::read_all(rows)?;
        let mut smallest: BTreeMap<&Lane, i64> = BTreeMap::new();
        for row in &found {
            let so_far = smallest.entry(&row.lane).or_insert(row.sort_ms);
            *so_far = row.sort_ms.min(*so_far);
        }
        for lane in wants.lanes.keys() {
            starts.seen(search, lane, smallest.get(lane).copied());
        }
        loaded.ready.extend(found);
        Ok(())
    });
}
