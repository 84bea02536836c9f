//! A cart is checked out while items are added: no acknowledged item is lost.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use flovyn_sdk::worker::WorkerEvent;
use flovyn_sdk::{Client, Error, Result, StartOptions, WorkflowContext, WorkflowHandle};
use futures::StreamExt;
use serde_json::{Value, json};

use crate::common::{PATIENCE, TestServer, on_both};

on_both!(checkout_against_add, signals_that_nobody_reads_are_counted_and_named);

const ROUNDS: usize = 1_000;
const AT_ONCE: usize = 32;

async fn cart(context: WorkflowContext, _: Value) -> Result<Value> {
    let mut items: Vec<u64> = Vec::new();
    let mut open = true;
    while open || context.has_signal("add") {
        flovyn_sdk::select! {
            item = context.wait_for_signal("add") => items.push(item?),
            asked = context.wait_for_signal::<Value>("checkout") => {
                asked?;
                open = false;
            }
        }
    }
    Ok(json!(items))
}

/// Whether the signal was acknowledged. A signal after the end is refused, and its sender receives the error.
async fn signal(handle: &WorkflowHandle<Value>, name: &str, value: u64) -> bool {
    match handle.signal(name, &value).await {
        Ok(_) => true,
        Err(Error::Server { code, .. }) if code == "FLV0051" => false,
        Err(error) => panic!("{name}: {error}"),
    }
}

#[derive(Default)]
struct Figures {
    acknowledged: AtomicUsize,
    late: AtomicUsize,
    deferred: AtomicUsize,
    lost: AtomicUsize,
}

async fn round(client: &Client, number: u64, figures: &Figures) {
    let handle: WorkflowHandle<Value> =
        client.start_raw("cart", json!(null), StartOptions::default()).await.unwrap();
    signal(&handle, "add", number).await;
    let (checked_out, added) =
        futures::join!(signal(&handle, "checkout", 0), signal(&handle, "add", number + 1));
    assert!(checked_out);
    let items: Value = handle.result(PATIENCE).await.unwrap();
    let count = if added { &figures.acknowledged } else { &figures.late };
    count.fetch_add(1, Ordering::Relaxed);
    let has = |item: u64| items.as_array().unwrap().contains(&json!(item));
    assert!(has(number), "{items}");
    if added && !has(number + 1) {
        figures.lost.fetch_add(1, Ordering::Relaxed);
    }
    let history = handle.history().await.unwrap();
    let deferred = history.iter().filter(|event| event.kind == "WORKFLOW_SUSPENDED").count();
    figures.deferred.fetch_add(deferred, Ordering::Relaxed);
}

async fn checkout_against_add(server: TestServer) {
    // With and without a cache: cached workflows continue, others are replayed.
    let workers = [100, 0].map(|size| {
        let worker = server.worker().workflow_fn("cart", cart).cache_size(size);
        worker.max_workflows(8).build().unwrap().start()
    });
    let (client, figures) = (server.client(), Figures::default());
    let rounds = futures::stream::iter(0..ROUNDS as u64);
    rounds.for_each_concurrent(AT_ONCE, |number| round(&client, number * 2, &figures)).await;
    let read = |count: &AtomicUsize| count.load(Ordering::Relaxed);
    assert_eq!(read(&figures.lost), 0, "of {} acknowledged", read(&figures.acknowledged));
    assert_eq!(read(&figures.acknowledged) + read(&figures.late), ROUNDS);
    assert!(read(&figures.deferred) > 0, "no add came between the claim and the end of its cart");
    for worker in workers {
        worker.stop().await;
    }
}

async fn signals_that_nobody_reads_are_counted_and_named(server: TestServer) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hears = heard.clone();
    let deaf = |context: WorkflowContext, _: Value| async move {
        context.wait_for_signal::<Value>("go").await?;
        Ok(json!("gone"))
    };
    let client = server.client();
    let handle: WorkflowHandle<Value> =
        client.start_raw("deaf", json!(null), StartOptions::default()).await.unwrap();
    for name in ["go", "more", "go", "more"] {
        assert!(signal(&handle, name, 1).await);
    }
    let worker = server.worker().workflow_fn("deaf", deaf);
    let worker = worker.on_event(move |event| hears.lock().unwrap().push(event.clone())).build().unwrap();
    let worker = worker.start();
    assert_eq!(handle.result(PATIENCE).await.unwrap(), json!("gone"));
    worker.stop().await;
    let unread = heard.lock().unwrap().iter().find_map(|event| match event {
        WorkerEvent::SignalsUnread { kind, signals, .. } => Some((kind.clone(), signals.clone())),
        _ => None,
    });
    let counts = [("go".to_owned(), 1), ("more".to_owned(), 2)];
    assert_eq!(unread, Some(("deaf".to_owned(), counts.into())));
    let history = handle.history().await.unwrap();
    assert_eq!(history.last().unwrap().data["unreadSignals"], 3);
}
