//! There is one open execution per workflow key: however long it lives, and also while callers send signals during its
//! end.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use flovyn_engine::request::*;
use flovyn_engine::state::*;
use flovyn_engine::{Code, Limits, Loaded, Now, Refusal, Reply};
use flovyn_service::loops::{self, KeyLoop, RetentionLoop};
use flovyn_store::{
    Decider, ExecutionFilter, Page, SharedDecider, Step, Store, StoreResult, TransactOptions, store_around,
};

use crate::common::{
    Place, Server, at_once, dealt, finish, json, keyed, on_each_store, on_postgres, submit, terminate,
};

const HOUR: i64 = 60 * 60 * 1_000;

/// A store whose time is ahead of its database, so that days pass without waiting.
struct Ahead {
    inner: Arc<dyn Store>,
    by_ms: AtomicI64,
}

impl Ahead {
    fn later(&self, now: Now) -> Now {
        Now { ms: now.ms + self.by_ms.load(Ordering::SeqCst), ..now }
    }

    async fn any(&self) -> StoreResult<()> {
        Ok(())
    }
}

/// Passes the later time to the batch.
struct Later {
    batch: SharedDecider,
    by_ms: i64,
}

impl Decider for Later {
    fn step(&mut self, loaded: Option<Loaded>) -> Step {
        let loaded = loaded.map(|loaded| {
            let now = Now { ms: loaded.now.ms + self.by_ms, ..loaded.now };
            Loaded { now, ..loaded }
        });
        self.batch.lock().unwrap_or_else(PoisonError::into_inner).step(loaded)
    }
}

store_around!(Ahead, any, {
    async fn transact(&self, batch: SharedDecider, options: TransactOptions) -> StoreResult<()> {
        let by_ms = self.by_ms.load(Ordering::SeqCst);
        self.inner.transact(Arc::new(Mutex::new(Later { batch, by_ms })), options).await
    }

    async fn now(&self) -> StoreResult<Now> {
        Ok(self.later(self.inner.now().await?))
    }

    async fn turn_take(&self, name: &str, every_ms: i64) -> StoreResult<bool> {
        self.inner.turn_take(name, every_ms).await
    }
});

fn add() -> SignalWithStart {
    SignalWithStart { start: keyed("cart", "ada"), name: "add".into(), value: json("1") }
}

/// The execution that received the signal, and whether it was started by that signal.
fn target(answer: &Result<Reply, Refusal>) -> (uuid::Uuid, bool) {
    match answer {
        Ok(Reply::Signalled { execution_id, created, .. }) => (*execution_id, *created),
        other => panic!("{other:?}"),
    }
}

async fn sent(server: &Server) -> (uuid::Uuid, bool) {
    target(&server.ask(add()).await)
}

async fn after_25_hours_a_signal_with_start_finds_the_open_execution(place: Place) {
    let ahead = Arc::new(Ahead { inner: place.store().await, by_ms: AtomicI64::new(0) });
    let server = place.server_on(ahead.clone(), Limits::default());
    let (id, created) = sent(&server).await;
    assert!(created);
    ahead.by_ms.fetch_add(25 * HOUR, Ordering::SeqCst);
    let cleaner = KeyLoop::new(server.service.clone(), &loops::Options::default());
    assert_eq!(cleaner.tick().await.unwrap(), 0);
    assert_eq!(sent(&server).await, (id, false));
    assert_eq!(server.start_as(keyed("cart", "ada")).await.execution_id, id);
    server.must(finish(&server.claim_workflow("cart").await)).await;
    // For starts, its key stays taken for ten seconds after the end. A signal-with-start does not wait for that.
    ahead.by_ms.fetch_add(5_000, Ordering::SeqCst);
    assert_eq!(server.start_as(keyed("cart", "ada")).await.execution_id, id);
    let (next, created) = sent(&server).await;
    assert!(created && next != id);
    ahead.by_ms.fetch_add(25 * HOUR, Ordering::SeqCst);
    assert_eq!(cleaner.tick().await.unwrap(), 0);
    assert_eq!(sent(&server).await, (next, false));
    server.must(terminate(next)).await;
    assert!(sent(&server).await.1);
    let now = ahead.now().await.unwrap();
    assert_eq!(flovyn_engine::invariants::check(&server.snapshot().await, now), []);
}

async fn fifty_callers_while_it_ends_meet_one_or_the_next(place: Place) {
    let servers = place.servers(2).await;
    let mut started = 0;
    // Repeated until a caller was served after an end, because the order is not determined.
    for round in 0..60 {
        if round >= 6 && started > 0 {
            break;
        }
        let (first, _) = sent(&servers[0]).await;
        let activation = servers[0].claim_workflow("cart").await;
        let callers = at_once(dealt(&servers, (0..50).map(|_| add())));
        // In every second round it is terminated from outside, and nothing can defer that.
        let (answers, ended) = match round % 2 {
            0 => tokio::join!(callers, servers[1].ask(finish(&activation))),
            _ => tokio::join!(callers, servers[1].ask(terminate(first))),
        };
        let targets: Vec<_> = answers.iter().map(target).collect();
        let ids: BTreeSet<_> = targets.iter().map(|(id, _)| *id).collect();
        let new = targets.iter().filter(|(_, created)| *created).count();
        started += new;
        assert!(new <= 1 && ids.len() <= 2, "{ids:?}");
        assert_eq!(ids.iter().filter(|id| **id != first).count(), new);
        if let Err(refusal) = ended {
            assert_eq!(refusal.code, Code::EndDeferred, "{refusal}");
        }
        // Each acknowledged signal is in the log of the execution that the acknowledgement named.
        for id in &ids {
            let expected = targets.iter().filter(|(target, _)| target == id).count();
            let own = usize::from(*id == first);
            assert_eq!(servers[0].count(*id, EventKind::SignalReceived).await, expected + own);
        }
        let snapshot = servers[0].check().await;
        let open: Vec<_> = snapshot.executions.iter().filter(|row| !row.status.is_terminal()).collect();
        assert!(open.len() <= 1, "{open:?}");
        // A termination may have been the last request.
        assert!(open.len() == 1 || round % 2 == 1);
        if let [last] = open[..] {
            servers[0].must(terminate(last.id)).await;
        }
    }
    assert!(started > 0, "no caller came after an end");
}

async fn an_end_waits_for_a_caller_and_the_next_caller_starts_anew(place: Place) {
    let server = place.server().await;
    let (id, _) = sent(&server).await;
    let activation = server.claim_workflow("cart").await;
    assert_eq!(sent(&server).await, (id, false));
    server.refused(finish(&activation), Code::EndDeferred).await;
    assert_eq!(sent(&server).await, (id, false), "the execution is open and still has its key");
    server.must(finish(&server.claim_workflow("cart").await)).await;
    assert_eq!(server.count(id, EventKind::SignalReceived).await, 3);
    assert!(sent(&server).await.1);
    server.check().await;
}

async fn each_end_leaves_the_key_to_the_next_caller(place: Place) {
    let server = place.server().await;
    let failed = || Outcome::Failed { error: "no".into(), failure: Default::default(), stack_trace: None };
    let mut seen = BTreeSet::new();
    for how in 0..4 {
        let (id, created) = sent(&server).await;
        assert!(created && seen.insert(id), "round {how}");
        match how {
            0 => drop(server.must(finish(&server.claim_workflow("cart").await)).await),
            1 => {
                let activation = server.claim_workflow("cart").await;
                server.must(submit(&activation, Vec::new(), failed())).await;
            }
            2 => drop(server.must(terminate(id)).await),
            _ => {
                let action = KeyedAction::Cancel { reason: "stop".into(), cascade: true };
                server.must(ActByKey { key: "ada".into(), action }).await;
            }
        }
        assert!(server.status(id).await.is_terminal());
    }
    assert!(sent(&server).await.1);
    server.check().await;
}

async fn retention_takes_a_closed_one_and_leaves_the_key_of_the_open_one(place: Place) {
    let server = place.server().await;
    let (slug, name) = ("one".into(), "One".into());
    let tenant = CreateTenant { id: Some(crate::common::TENANT), slug, name, retention_ms: None };
    server.must(tenant).await;
    let (first, _) = sent(&server).await;
    server.must(finish(&server.claim_workflow("cart").await)).await;
    let (second, _) = sent(&server).await;
    let update = UpdateTenant { name: "One".into(), retention_ms: Some(1) };
    server.must(update).await;
    server.pass(2).await;
    let retention = RetentionLoop::new(server.service.clone(), &loops::Options::default());
    assert_eq!(retention.tick().await.unwrap(), 1);
    server.settle().await;
    let rows = server.check().await.executions;
    assert_eq!(rows.iter().map(|row| row.id).collect::<Vec<_>>(), [second], "{first} is gone");
    assert_eq!(sent(&server).await, (second, false));
    server.must(finish(&server.claim_workflow("cart").await)).await;
    server.pass(2).await;
    assert_eq!(retention.tick().await.unwrap(), 1);
    server.settle().await;
    let snapshot = server.check().await;
    assert!(snapshot.executions.is_empty() && snapshot.keys.is_empty());
}

async fn listings_by_key_show_all_that_had_it(place: Place) {
    let server = place.server().await;
    let mut all = Vec::new();
    for _ in 0..3 {
        let (id, _) = sent(&server).await;
        all.insert(0, id);
        server.must(terminate(id)).await;
        server.pass(1).await;
    }
    server.start_as(keyed("cart", "grace")).await;
    let filter = ExecutionFilter { key: Some("ada".into()), ..ExecutionFilter::default() };
    let page = Page { after: None, offset: 0, limit: 10 };
    let listed = server.store().execution_list(crate::common::TENANT, &filter, page).await.unwrap();
    assert_eq!(listed.iter().map(|row| row.id).collect::<Vec<_>>(), all);
}

on_each_store!(
    after_25_hours_a_signal_with_start_finds_the_open_execution,
    fifty_callers_while_it_ends_meet_one_or_the_next,
    an_end_waits_for_a_caller_and_the_next_caller_starts_anew,
    each_end_leaves_the_key_to_the_next_caller,
    retention_takes_a_closed_one_and_leaves_the_key_of_the_open_one,
    listings_by_key_show_all_that_had_it,
);
on_postgres!(
    after_25_hours_a_signal_with_start_finds_the_open_execution,
    fifty_callers_while_it_ends_meet_one_or_the_next,
    each_end_leaves_the_key_to_the_next_caller,
    retention_takes_a_closed_one_and_leaves_the_key_of_the_open_one,
    listings_by_key_show_all_that_had_it,
);
