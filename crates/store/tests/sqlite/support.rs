//! Shared by the tests of stores: a batch that loads and writes as requested, and random rows.

use std::sync::{Arc, Mutex};

use flovyn_engine::{Loaded, Mutations, Wants};
use flovyn_store::record::Record;
use flovyn_store::value::{ColumnType, Value};
use flovyn_store::{Decider, Step, Store, StoreResult, TransactOptions};
use uuid::Uuid;

/// Loads, then writes.
pub(crate) struct Script {
    wants: Option<Wants>,
    mutations: Option<Mutations>,
    loaded: Option<Loaded>,
    followed: bool,
}

impl Script {
    pub(crate) fn take_loaded(&mut self) -> Option<Loaded> {
        self.loaded.take()
    }
}

impl Decider for Script {
    fn step(&mut self, loaded: Option<Loaded>) -> Step {
        if loaded.is_some() {
            self.loaded = loaded;
        }
        if let Some(wants) = self.wants.take() {
            return Step::Load(Arc::new(wants));
        }
        self.mutations.take().map_or(Step::Done, |mutations| Step::Commit(Box::new(mutations)))
    }

    fn is_followed(&self) -> bool {
        self.followed
    }
}

pub(crate) const OPTIONS: TransactOptions = TransactOptions { batch_id: Uuid::nil(), wait_for_locks: false };

pub(crate) fn script(wants: Wants, mutations: Option<Mutations>) -> Arc<Mutex<Script>> {
    Arc::new(Mutex::new(Script { wants: Some(wants), mutations, loaded: None, followed: false }))
}

/// A batch that other batches follow immediately.
pub(crate) fn followed(wants: Wants, mutations: Option<Mutations>) -> Arc<Mutex<Script>> {
    Arc::new(Mutex::new(Script { wants: Some(wants), mutations, loaded: None, followed: true }))
}

pub(crate) async fn load(store: &dyn Store, wants: Wants) -> StoreResult<Loaded> {
    let script = script(wants, None);
    store.transact(script.clone(), OPTIONS).await?;
    Ok(script.lock().unwrap().take_loaded().unwrap())
}

pub(crate) async fn commit(store: &dyn Store, mutations: Mutations) -> StoreResult<()> {
    store.transact(script(Wants::default(), Some(mutations)), OPTIONS).await
}

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((z ^ (z >> 31)) >> 33).unwrap() % limit
    }

    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        if items.is_empty() { None } else { items.get(self.below(items.len())) }
    }

    pub(crate) fn id(&mut self) -> Uuid {
        Uuid::from_u128([1, 2, 1 << 64, 1 << 127][self.below(4)])
    }

    pub(crate) fn number(&mut self) -> i64 {
        i64::try_from(self.below(6)).unwrap()
    }

    pub(crate) fn text(&mut self) -> &'static str {
        ["a", "ab", "b", "ü"][self.below(4)]
    }

    fn value(&mut self, kind: ColumnType) -> Value<'static> {
        match kind {
            // Mostly small numbers, because larger ones would mark too many rows as purging.
            ColumnType::Small => Value::Small([0, 0, 0, 0, 1, 2, 3, 4][self.below(8)]),
            ColumnType::Int => Value::Int(self.number() - 1),
            ColumnType::Real => Value::Real([0.0, 0.5, 2.0][self.below(3)]),
            ColumnType::Text => Value::Text(self.text()),
            ColumnType::Bytes => Value::Bytes(self.text().as_bytes()),
            ColumnType::Uuid => Value::Uuid(self.id()),
        }
    }

    /// A row of any table from few values, so that rows often share keys and the values of searches.
    pub(crate) fn row<R: Record>(&mut self) -> R {
        self.row_like::<R>(|_| None)
    }

    /// A row with the given columns.
    pub(crate) fn row_like<'a, R: Record>(&mut self, given: impl Fn(usize) -> Option<Value<'a>>) -> R {
        // Not every number is a valid value of every enumeration, and not every column may be NULL: try until the row
        // is valid.
        let mut failed = String::new();
        for _ in 0..10_000 {
            let values: Vec<Value<'_>> = (0..R::COLUMNS.len())
                .map(|index| match given(index) {
                    Some(value) => value,
                    None if nullable::<R>(index) && self.below(3) == 0 => Value::Null,
                    None => self.value(R::COLUMNS[index].kind),
                })
                .collect();
            match R::read(|index| values[index]) {
                Ok(row) => return row,
                Err(error) => failed = error.to_string(),
            }
        }
        panic!("no row of {}: {failed}", R::TABLE);
    }
}

/// Whether a column accepts NULL, tried in an otherwise valid row.
fn nullable<R: Record>(index: usize) -> bool {
    R::read(|column| match R::COLUMNS[column].kind {
        _ if column == index => Value::Null,
        // 1 is a valid value of every enumeration.
        ColumnType::Small => Value::Small(1),
        ColumnType::Int => Value::Int(1),
        ColumnType::Real => Value::Real(1.0),
        ColumnType::Text => Value::Text("a"),
        ColumnType::Bytes => Value::Bytes(b"a"),
        ColumnType::Uuid => Value::Uuid(Uuid::nil()),
    })
    .is_ok()
}
