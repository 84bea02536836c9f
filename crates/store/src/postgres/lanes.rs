//! Searches of the ready table, and the place from which they start.
//!
//! Work is taken from the front of a lane. So the front of its index fills with entries of deleted rows, which stay as
//! long as any old transaction in the database may need them. A search therefore starts at the smallest row that the
//! last search saw. That start is only a guess. Own inserts lower it; hints of other processes and the end of each
//! second reset it. A search that finds nothing from there immediately searches the whole lane.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use flovyn_engine::Change;
use flovyn_engine::ids::TenantId;
use flovyn_engine::state::{Lane, Ready, WorkClass};
use rustc_hash::FxHashMap;

use crate::postgres::codec::{self, Arrays, Parameter};
use crate::postgres::sql::columns;
use crate::record::{Column, Record, lane_values};
use crate::value::{ColumnType, Value};

const REMEMBERED: Duration = Duration::from_secs(1);
const LANES_LIMIT: usize = 10_000;

#[derive(Debug)]
pub(super) struct Starts {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Increases when all starts are dropped. The result of a search that began before is then ignored.
    generation: u64,
    since: Instant,
    lanes: FxHashMap<Lane, Start>,
}

#[derive(Debug, Clone, Copy)]
struct Start {
    from_ms: Option<i64>,
    /// The smallest insert of this generation. A search that ran at the same time may not have seen it.
    floor_ms: i64,
}

const UNKNOWN: Start = Start { from_ms: None, floor_ms: i64::MAX };

/// A search in progress.
#[derive(Debug, Clone, Copy)]
pub(super) struct Search(u64);

impl Starts {
    pub(super) fn new(now: Instant) -> Self {
        Self { state: Mutex::new(State { generation: 0, since: now, lanes: FxHashMap::default() }) }
    }

    /// Begins a search. Returns the start for each lane; `None`: the beginning of the lane.
    pub(super) fn begin<'a>(
        &self,
        lanes: impl Iterator<Item = &'a Lane>,
        now: Instant,
    ) -> (Search, Vec<Option<i64>>) {
        let mut state = self.state();
        if now.duration_since(state.since) >= REMEMBERED || state.lanes.len() > LANES_LIMIT {
            state.generation += 1;
            state.since = now;
            state.lanes.clear();
        }
        let starts = lanes.map(|lane| state.start(lane).from_ms).collect();
        (Search(state.generation), starts)
    }

    /// Records the smallest row that a search saw in a lane. `None`: it saw no row.
    pub(super) fn seen(&self, search: Search, lane: &Lane, smallest_ms: Option<i64>) {
        let mut state = self.state();
        if state.generation == search.0 {
            let start = state.start(lane);
            start.from_ms = smallest_ms.map(|smallest| smallest.min(start.floor_ms));
        }
    }

    /// Records committed rows. Call this after the commit. A search that ran too early to see the rows may still be in
    /// progress; then the floor limits its result. If it has ended, its start is lowered now.
    pub(super) fn committed(&self, changes: &[Change<Ready>]) {
        let inserts = changes.iter().filter_map(|change| match change {
            Change::Insert(row) => Some(row),
            _ => None,
        });
        let mut state = self.state();
        let mut last: Option<&Lane> = None;
        // Changes are sorted by lane and then by place in the lane, so the first row of each lane is its smallest.
        for row in inserts {
            if last != Some(&row.lane) {
                state.start(&row.lane).lower(row.sort_ms);
                last = Some(&row.lane);
            }
        }
    }

    /// Another process has added work to a queue.
    pub(super) fn hinted(&self, tenant_id: TenantId, class: WorkClass, queue: &str) {
        let mut state = self.state();
        let concerned =
            |lane: &Lane| lane.tenant_id == tenant_id && lane.class == class && *lane.queue == *queue;
        for (_, start) in state.lanes.iter_mut().filter(|(lane, _)| concerned(lane)) {
            *start = Start { from_ms: None, floor_ms: i64::MIN };
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn start(&mut self, lane: &Lane) -> &mut Start {
        // Not `entry`, which would clone the key each time.
        if !self.lanes.contains_key(lane) {
            self.lanes.insert(lane.clone(), UNKNOWN);
        }
        self.lanes.get_mut(lane).expect("it was just inserted")
    }
}

impl Start {
    fn lower(&mut self, sort_ms: i64) {
        self.floor_ms = self.floor_ms.min(sort_ms);
        self.from_ms = self.from_ms.map(|from| from.min(sort_ms));
    }
}

/// Selects ready rows of many lanes, up to a limit for each lane. It locks nothing, because a lock would conflict with
/// deletes.
pub(super) fn search_sql() -> String {
    format!(
        "SELECT {} FROM unnest({LANE_ARRAYS}, $6::bigint[], $7::bigint[]) \
             AS k(tenant_id, class, queue, kind, kind_version, from_ms, wanted) \
         CROSS JOIN LATERAL (SELECT CASE WHEN {} THEN k.from_ms ELSE {} END AS from_ms) start \
         CROSS JOIN LATERAL (\
             SELECT * FROM ready r WHERE {IN_LANE} AND r.sort_ms >= start.from_ms \
             ORDER BY r.sort_ms, r.id LIMIT k.wanted) t",
        columns::<Ready>(),
        has_row("AND r.sort_ms >= k.from_ms"),
        i64::MIN,
    )
}

/// Selects the places (from 1) of the lanes that have work. If there is no work from a lane's start, the whole lane is
/// searched.
pub(super) fn with_work_sql() -> String {
    format!(
        "SELECT k.place FROM unnest({LANE_ARRAYS}, $6::bigint[]) \
             WITH ORDINALITY AS k(tenant_id, class, queue, kind, kind_version, from_ms, place) \
         WHERE CASE WHEN {} THEN true ELSE {} END",
        has_row("AND r.sort_ms >= k.from_ms"),
        has_row(""),
    )
}

const LANE_ARRAYS: &str = "$1::uuid[], $2::smallint[], $3::text[], $4::text[], $5::text[]";

const IN_LANE: &str = "r.tenant_id = k.tenant_id AND r.class = k.class AND r.queue = k.queue \
                       AND r.kind = k.kind AND r.kind_version = k.kind_version";

/// Not EXISTS: for EXISTS the planner drops the order and then prefers a scan of the table for any row.
fn has_row(from_start: &str) -> String {
    format!(
        "(SELECT r.sort_ms FROM ready r WHERE {IN_LANE} {from_start} ORDER BY r.sort_ms LIMIT 1) IS NOT NULL"
    )
}

/// The parameters: the lanes with their starts, and the number of rows of each lane if given.
pub(super) fn parameters<'a>(
    lanes: impl ExactSizeIterator<Item = (&'a Lane, Option<usize>)>,
    starts: &[Option<i64>],
    with_wanted: bool,
) -> Vec<Parameter<'a>> {
    let number = Column { name: "", kind: ColumnType::Int, fixed: true };
    let extra = if with_wanted { &[number, number][..] } else { &[number][..] };
    let columns: Vec<Column> = Ready::COLUMNS[..5].iter().chain(extra).copied().collect();
    let mut arrays = Arrays::new(&columns, lanes.len());
    for ((lane, wanted), start) in lanes.zip(starts) {
        arrays.push(|values| {
            lane_values(lane, values);
            values.push(start.map_or(Value::Null, Value::Int));
            if let Some(wanted) = wanted {
                values.push(codec::limit(wanted));
            }
        });
    }
    arrays.into_parameters()
}

#[cfg(test)]
mod tests {
    use flovyn_engine::ids::Text;
    use uuid::Uuid;

    use super::*;

    fn lane(queue: &str) -> Lane {
        Lane {
            tenant_id: Uuid::nil(),
            class: WorkClass::Task,
            queue: Text::from(queue),
            kind: Text::from("k"),
            version: Text::default(),
        }
    }

    fn insert(lane: &Lane, sort_ms: i64) -> Change<Ready> {
        Change::Insert(Ready { lane: lane.clone(), sort_ms, id: Uuid::nil() })
    }

    fn start(starts: &Starts, lane: &Lane, now: Instant) -> Option<i64> {
        starts.begin([lane].into_iter(), now).1[0]
    }

    #[test]
    fn a_start_is_remembered_for_a_second() {
        let now = Instant::now();
        let (starts, lane) = (Starts::new(now), lane("q"));
        let (search, from) = starts.begin([&lane].into_iter(), now);
        assert_eq!(from, [None]);
        starts.seen(search, &lane, Some(100));
        assert_eq!(start(&starts, &lane, now), Some(100));
        assert_eq!(start(&starts, &lane, now + REMEMBERED), None);
    }

    #[test]
    fn an_empty_lane_has_no_start() {
        let now = Instant::now();
        let (starts, lane) = (Starts::new(now), lane("q"));
        let (search, _) = starts.begin([&lane].into_iter(), now);
        starts.seen(search, &lane, Some(100));
        starts.seen(search, &lane, None);
        assert_eq!(start(&starts, &lane, now), None);
    }

    #[test]
    fn own_inserts_lower_a_start_even_beside_a_search() {
        let now = Instant::now();
        let (starts, lane) = (Starts::new(now), lane("q"));
        let (search, _) = starts.begin([&lane].into_iter(), now);
        starts.committed(&[insert(&lane, 50)]);
        starts.seen(search, &lane, Some(100));
        assert_eq!(start(&starts, &lane, now), Some(50));
        starts.committed(&[insert(&lane, 20), insert(&lane, 30)]);
        assert_eq!(start(&starts, &lane, now), Some(20));
    }

    #[test]
    fn a_search_from_before_everything_was_forgotten_says_nothing() {
        let now = Instant::now();
        let (starts, lane) = (Starts::new(now), lane("q"));
        let (search, _) = starts.begin([&lane].into_iter(), now);
        starts.committed(&[insert(&lane, 50)]);
        start(&starts, &lane, now + REMEMBERED);
        starts.seen(search, &lane, Some(100));
        assert_eq!(start(&starts, &lane, now + REMEMBERED), None);
    }

    #[test]
    fn a_hint_concerns_its_queue_only() {
        let now = Instant::now();
        let (starts, one, two) = (Starts::new(now), lane("one"), lane("two"));
        let (search, _) = starts.begin([&one, &two].into_iter(), now);
        starts.seen(search, &one, Some(100));
        starts.seen(search, &two, Some(100));
        starts.hinted(Uuid::nil(), WorkClass::Task, "one");
        assert_eq!(start(&starts, &one, now), None);
        assert_eq!(start(&starts, &two, now), Some(100));
    }
}
