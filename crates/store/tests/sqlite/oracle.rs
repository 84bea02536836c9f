//! Compares SQLite with the oracle: both give the same results for all writes, loads and reads.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;

use crate::support::{OPTIONS, Random, commit, followed, load};
use flovyn_engine::snapshot::Snapshot;
use flovyn_engine::state::*;
use flovyn_engine::{Change, Mutations, Now, Scan, Wants, for_each_table};
use flovyn_store::memory::MemoryStore;
use flovyn_store::record::Record;
use flovyn_store::sqlite::{Options, SqliteStore};
use flovyn_store::value::Value;
use flovyn_store::{AuditFilter, ExecutionFilter, ManualClock, Page, Store, StoreError, TaskFilter};
use uuid::Uuid;

const SEEDS: u64 = 6;
const BATCHES: u64 = 80;

/// Changes to one table, most of them valid, each to a different row.
fn changes<R: Record>(random: &mut Random, stored: &[R]) -> Vec<Change<R>> {
    let mut seen = BTreeSet::new();
    let mut changes = Vec::new();
    for _ in 0..random.below(4) {
        let change = change(random, stored);
        if seen.insert(change.row().key()) {
            changes.push(change);
        }
    }
    changes.sort_by_key(|change| change.row().key());
    changes
}

fn change<R: Record>(random: &mut Random, stored: &[R]) -> Change<R> {
    let existing = random.pick(stored).cloned();
    // Rarely a row that does not exist.
    let row = existing.filter(|_| random.below(100) > 0).unwrap_or_else(|| random.row());
    let version = row.version();
    let expected_version = if random.below(50) == 0 { version.map(|version| version + 1) } else { version };
    match random.below(6) {
        0 if !stored.is_empty() => Change::Delete { row, expected_version },
        1 | 2 if !stored.is_empty() && R::COLUMNS.iter().any(|column| !column.fixed) => {
            let mut before = Vec::new();
            row.values(&mut before);
            let mut next: R = random.row_like(|index| R::COLUMNS[index].fixed.then(|| before[index]));
            if let (Some(number), Some(version)) = (next.version_mut(), version) {
                *number = version + 1;
            }
            Change::Update { row: next, expected_version }
        }
        _ => {
            let mut new: R = random.row();
            // Mostly free keys, because a batch with a conflict writes nothing.
            for _ in 0..8 {
                if stored.iter().all(|row| row.key() != new.key()) || random.below(100) == 0 {
                    break;
                }
                new = random.row();
            }
            Change::Insert(new)
        }
    }
}

fn keys<R: Record>(random: &mut Random, wants: &mut flovyn_engine::working_set::KeySet<R>, stored: &[R]) {
    for _ in 0..random.below(3) {
        let row = random.pick(stored).cloned().unwrap_or_else(|| random.row());
        wants.lock.insert(row.key());
        wants.peek.insert(random.row::<R>().key());
    }
}

macro_rules! define {
    ($($field:ident: $row:ident,)*) => {
        fn mutations(random: &mut Random, stored: &Snapshot) -> Mutations {
            let mut mutations = Mutations::default();
            // Only some tables at a time, so that not every batch has a conflict.
            $(if random.below(4) == 0 { mutations.$field = changes(random, &stored.$field); })*
            mutations
        }

        fn wanted_keys(random: &mut Random, stored: &Snapshot) -> Wants {
            let mut wants = Wants::default();
            $(keys(random, &mut wants.$field, &stored.$field);)*
            wants
        }
    };
}
for_each_table!(define);

fn lane(random: &mut Random) -> Lane {
    Lane {
        tenant_id: random.id(),
        class: *random.pick(WorkClass::ALL).unwrap(),
        queue: random.text().into(),
        kind: random.text().into(),
        version: random.text().into(),
    }
}

fn wants(random: &mut Random, stored: &Snapshot) -> Wants {
    let mut wants = wanted_keys(random, stored);
    let (tenant_id, id) = (random.id(), random.id());
    let limit = random.below(5);
    let after = Some(random.id()).filter(|_| random.below(2) == 0);
    wants.scans = BTreeSet::from([
        Scan::PausedQueues,
        Scan::TenantBySlug { slug: random.text().into() },
        Scan::Children { tenant_id, parent_id: id, after, limit },
        Scan::OpenTasks { tenant_id, execution_id: id, limit },
        Scan::OpenTimers { tenant_id, execution_id: id, limit },
        Scan::OpenPromises { tenant_id, execution_id: id, limit },
        Scan::Labels { tenant_id, execution_id: id },
        Scan::SilentWorkers { before_ms: random.number(), limit },
        Scan::TaskStateKeys { tenant_id, task_id: id, limit },
        Scan::Capabilities { tenant_id, worker_id: id },
        Scan::NewestWithKey { tenant_id, name: random.text().into() },
        Scan::ExpiredKeys { until_ms: random.number(), limit },
        Scan::AuditBefore { before_ms: random.number(), limit },
        Scan::Belongings { tenant_id, execution_id: id, limit },
        Scan::TaskBelongings { tenant_id, task_id: id, limit },
    ]);
    wants
        .lanes
        .insert(random.pick(&stored.ready).map_or_else(|| lane(random), |row| row.lane.clone()), limit);
    wants
}

fn outcome(result: Result<(), StoreError>) -> &'static str {
    match result {
        Ok(()) => "written",
        Err(StoreError::Conflict(_)) => "conflict",
        Err(other) => panic!("{other}"),
    }
}

fn page(random: &mut Random) -> Page {
    let place = (random.number(), random.id());
    let after = Some(place).filter(|_| random.below(2) == 0);
    Page { after, offset: random.below(2), limit: random.below(5) }
}

fn execution_filter(random: &mut Random) -> ExecutionFilter {
    ExecutionFilter {
        status: random.pick(ExecutionStatus::ALL).copied().filter(|_| random.below(2) == 0),
        open_only: random.below(4) == 0,
        kind: Some(random.text().into()).filter(|_| random.below(3) == 0),
        queue: Some(random.text().into()).filter(|_| random.below(3) == 0),
        label: Some((random.text().into(), random.text().into())).filter(|_| random.below(3) == 0),
        key: Some(random.text().into()).filter(|_| random.below(3) == 0),
        parent_id: Some(random.id()).filter(|_| random.below(4) == 0),
        created_from_ms: Some(1).filter(|_| random.below(4) == 0),
        created_before_ms: Some(4).filter(|_| random.below(4) == 0),
    }
}

fn task_filter(random: &mut Random) -> TaskFilter {
    TaskFilter {
        status: random.pick(TaskStatus::ALL).copied().filter(|_| random.below(2) == 0),
        task_type: Some(random.text().into()).filter(|_| random.below(3) == 0),
        queue: Some(random.text().into()).filter(|_| random.below(3) == 0),
    }
}

fn audit_filter(random: &mut Random) -> AuditFilter {
    AuditFilter {
        actor: Some(random.text().into()).filter(|_| random.below(3) == 0),
        action: random.pick(AuditAction::ALL).copied().filter(|_| random.below(3) == 0),
        target: Some(random.text().into()).filter(|_| random.below(3) == 0),
    }
}

/// The results of all reads as text, with random arguments.
async fn reads(store: &dyn Store, random: &mut Random) -> Vec<String> {
    fn text(name: &str, value: impl Debug) -> String {
        format!("{name}: {value:?}")
    }
    let (tenant, id, name) = (random.id(), random.id(), random.text());
    let ids = [id, random.id(), random.id()];
    let (number, flag) = (random.number(), random.below(2) == 0);
    let limit = random.below(5);
    let after = Some(random.id()).filter(|_| random.below(2) == 0);
    let clock = *random.pick(ClockKind::ALL).unwrap();
    let class = *random.pick(WorkClass::ALL).unwrap();
    let lanes: Vec<Lane> = (0..20).map(|_| lane(random)).collect();
    let page = page(random);
    // The labels in this test do not belong to existing executions.
    let executions = ExecutionFilter { label: None, ..execution_filter(random) };
    let tasks = task_filter(random);
    let audit = audit_filter(random);
    vec![
        text("now", store.now().await.unwrap()),
        text("due_page", store.due_page(clock, number, limit).await.unwrap()),
        text("due_next", store.due_next(clock).await.unwrap()),
        text("tenant_list", store.tenant_list(after, limit).await.unwrap()),
        text("execution_ends", store.execution_ends(tenant, &ids).await.unwrap()),
        text("execution_finished", store.execution_finished(tenant, number, limit).await.unwrap()),
        text("task_finished", store.task_finished(tenant, number, limit).await.unwrap()),
        text("lanes_with_work", store.lanes_with_work(&lanes).await.unwrap()),
        text("lanes_of_queue", store.lanes_of_queue(tenant, class, name, limit).await.unwrap()),
        text("batch_cleanup", store.batch_cleanup(number, 10).await.unwrap()),
        text("tenant_get", store.tenant_get(tenant).await.unwrap()),
        text("tenant_by_slug", store.tenant_by_slug(name).await.unwrap()),
        text("worker_token_by_hash", store.worker_token_by_hash(name.as_bytes()).await.unwrap()),
        text("worker_token_list", store.worker_token_list(tenant).await.unwrap()),
        text("audit_list", store.audit_list(tenant, &audit, page).await.unwrap()),
        text("worker_list", store.worker_list(tenant).await.unwrap()),
        text("paused_queue_list", store.paused_queue_list(tenant).await.unwrap()),
        text("queue_depths", store.queue_depths(tenant, number).await.unwrap()),
        text("execution_get", store.execution_get(tenant, id).await.unwrap()),
        text("execution_list", store.execution_list(tenant, &executions, page).await.unwrap()),
        text("execution_labels", store.execution_labels(tenant, id).await.unwrap()),
        text("execution_states", store.execution_states(tenant, id).await.unwrap()),
        text("event_page", store.event_page(tenant, id, number, limit).await.unwrap()),
        text("timer_list", store.timer_list(tenant, id, flag, limit).await.unwrap()),
        text("promise_list", store.promise_list(tenant, id, flag, limit).await.unwrap()),
        text("promise_get", store.promise_get(tenant, id).await.unwrap()),
        text("key_get", store.idempotency_key_get(tenant, KeySpace::Work, name).await.unwrap()),
        text("execution_tasks", store.execution_tasks(tenant, id, flag, after, limit).await.unwrap()),
        text("task_get", store.task_get(tenant, id).await.unwrap()),
        text("task_list", store.task_list(tenant, &tasks, page).await.unwrap()),
        text("task_count", store.task_count(tenant, &tasks, number).await.unwrap()),
        text("attempt_list", store.attempt_list(tenant, id).await.unwrap()),
        text("task_log_page", store.task_log_page(tenant, id, number, limit).await.unwrap()),
        text("task_state_list", store.task_state_list(tenant, id).await.unwrap()),
    ]
}

/// Both stores, with the same clock.
fn stores(directory: &tempfile::TempDir) -> (SqliteStore, MemoryStore) {
    let clock = Arc::new(ManualClock::new(Now { ms: 2, lease_ms: 3 }));
    let options = Options { clock: clock.clone(), readers: 1, ..Default::default() };
    let sqlite = SqliteStore::open(directory.path().join("flovyn.db"), options).unwrap();
    (sqlite, MemoryStore::new(clock))
}

#[tokio::test]
async fn sqlite_does_what_the_oracle_does() {
    let mut outcomes: BTreeMap<&str, u64> = BTreeMap::new();
    let mut answered: BTreeSet<String> = BTreeSet::new();
    for seed in 0..SEEDS {
        let directory = tempfile::tempdir().unwrap();
        let (sqlite, memory) = stores(&directory);
        let mut random = Random(seed);
        for batch in 0..BATCHES {
            let stored = memory.snapshot().await.unwrap();
            let mutations = mutations(&mut random, &stored);
            let expected = outcome(commit(&memory, mutations.clone()).await);
            let context = format!("seed {seed}, batch {batch}: {mutations:#?}");
            assert_eq!(outcome(commit(&sqlite, mutations).await), expected, "{context}");
            *outcomes.entry(expected).or_default() += 1;
            let stored = memory.snapshot().await.unwrap();
            assert_eq!(sqlite.snapshot().await.unwrap(), stored, "{context}");

            let wants = wants(&mut random, &stored);
            let expected = format!("{:?}", load(&memory, wants.clone()).await.unwrap());
            assert_eq!(format!("{:?}", load(&sqlite, wants.clone()).await.unwrap()), expected, "{wants:#?}");

            let start = random.0;
            let expected = reads(&memory, &mut random).await;
            random.0 = start;
            assert_eq!(reads(&sqlite, &mut random).await, expected);
            let found = expected.iter().filter(|text| !text.ends_with(": []") && !text.ends_with(": None"));
            answered.extend(found.filter_map(|text| text.split(':').next()).map(str::to_owned));
        }
    }
    assert!(outcomes.values().all(|count| *count > SEEDS * BATCHES / 10), "{outcomes:?}");
    // Every read has found something at least once; otherwise the comparison above would prove nothing.
    assert_eq!(answered.len(), 34, "{answered:?}");
}

#[tokio::test]
async fn a_batch_sees_what_the_one_before_it_is_writing() {
    let (mut written, mut lost) = (0, 0);
    for seed in 0..SEEDS {
        let directory = tempfile::tempdir().unwrap();
        let (sqlite, memory) = stores(&directory);
        let mut random = Random(100 + seed);
        for batch in 0..4 * BATCHES {
            let mutations = mutations(&mut random, &memory.snapshot().await.unwrap());
            let expected = match commit(&memory, mutations.clone()).await {
                // Only the oracle refuses a change of a column that never changes.
                Err(StoreError::Refused(_)) => continue,
                result => outcome(result),
            };
            let mut wants = wants(&mut random, &memory.snapshot().await.unwrap());
            if random.below(2) == 0 {
                // Most searches wait until the previous batch is written.
                wants.scans.clear();
            }
            let sees = format!("{:?}", load(&memory, wants.clone()).await.unwrap());
            let context = format!("seed {seed}, batch {batch}: {mutations:#?} {wants:#?}");

            let writes = followed(Wants::default(), Some(mutations));
            let looks = followed(wants.clone(), None);
            let (wrote, looked) =
                tokio::join!(sqlite.transact(writes, OPTIONS), sqlite.transact(looks.clone(), OPTIONS));
            assert_eq!(outcome(wrote), expected, "{context}");
            let loaded = match looked {
                Ok(()) => looks.lock().unwrap().take_loaded().unwrap(),
                Err(error) => {
                    assert!(matches!(error, StoreError::Conflict(_)), "{error}");
                    assert_ne!(expected, "written", "{context}");
                    lost += 1;
                    load(&sqlite, wants).await.unwrap()
                }
            };
            written += u64::from(expected == "written");
            assert_eq!(format!("{loaded:?}"), sees, "{context}");
        }
        assert_eq!(sqlite.snapshot().await.unwrap(), memory.snapshot().await.unwrap());
    }
    let batches = 4 * SEEDS * BATCHES;
    assert!(written > batches / 10 && lost > batches / 10, "{written} written, {lost} lost");
}

const LISTED: u128 = 200;

/// A row that is not being purged, with a unique key and otherwise common values.
fn listed<R: Record>(random: &mut Random, number: u128) -> R {
    random.row_like(|index| match R::COLUMNS[index].name {
        "tenant_id" => Some(Value::Uuid(Uuid::nil())),
        "id" => Some(Value::Uuid(Uuid::from_u128(number << 60))),
        "version" => Some(Value::Int(1)),
        _ => None,
    })
}

#[tokio::test]
async fn listings_of_many_rows_agree() {
    let directory = tempfile::tempdir().unwrap();
    let sqlite = SqliteStore::open(directory.path().join("flovyn.db"), Options::default()).unwrap();
    let memory = MemoryStore::new(Arc::new(ManualClock::new(Now::same(1))));
    let mut random = Random(7);
    let mut mutations = Mutations::default();
    let mut updates = Mutations::default();
    for number in 0..LISTED {
        let execution: Execution = listed(&mut random, number);
        mutations.labels.push(Change::Insert(Label {
            tenant_id: execution.tenant_id,
            execution_id: execution.id,
            name: random.text().into(),
            value: random.text().into(),
            created_ms: execution.created_ms,
        }));
        let status = *random.pick(ExecutionStatus::ALL).unwrap();
        let row = Execution { status, version: 2, ..execution.clone() };
        mutations.executions.push(Change::Insert(execution));
        // In the product, a terminal status never changes. The store must not depend on that.
        updates.executions.push(Change::Update { row, expected_version: Some(1) });
        mutations.tasks.push(Change::Insert(listed(&mut random, number)));
    }
    for mutations in [mutations, updates] {
        commit(&memory, mutations.clone()).await.unwrap();
        commit(&sqlite, mutations).await.unwrap();
        let mut found = 0;
        for _ in 0..500 {
            let (filter, mut page) = (execution_filter(&mut random), page(&mut random));
            page.after = page.after.map(|(created_ms, id)| (created_ms, Uuid::from_u128(id.as_u128() << 66)));
            let expected = memory.execution_list(Uuid::nil(), &filter, page).await.unwrap();
            let listed = sqlite.execution_list(Uuid::nil(), &filter, page).await.unwrap();
            assert_eq!(listed, expected, "{filter:?} {page:?}");
            let filter = task_filter(&mut random);
            found += expected.len();
            let expected = memory.task_list(Uuid::nil(), &filter, page).await.unwrap();
            let listed = sqlite.task_list(Uuid::nil(), &filter, page).await.unwrap();
            assert_eq!(listed, expected, "{filter:?} {page:?}");
            found += expected.len();
        }
        assert!(found > 500, "too little was listed to compare: {found}");
    }
}
