//! Jobs that only one of several processes does at a time.

use std::time::Duration;

use flovyn_engine::request::{KeySpec, StartWorkflow};
use flovyn_service::loops::{KeyLoop, Options};
use futures::future::join_all;

use crate::common::{Place, QUEUE, Server, json, on_each_store, on_postgres, until_async};

fn cleaner(server: &Server, every: Duration) -> KeyLoop {
    KeyLoop::new(server.service.clone(), &Options { key_cleanup: every, ..Options::default() })
}

const HOUR: Duration = Duration::from_secs(3_600);

async fn start_keyed(server: &Server, name: &str) {
    let key = Some(KeySpec { name: name.into(), ttl_ms: Some(1_000) });
    server.must(StartWorkflow { key, ..StartWorkflow::new("order", QUEUE, json("{}")) }).await;
}

async fn one_of_two_processes_removes_expired_keys(place: Place) {
    let (here, there) = (place.server().await, place.server().await);
    for name in ["one", "two", "three"] {
        start_keyed(&here, name).await;
    }
    until_async("the keys have expired", async || {
        let now_ms = here.store().now().await.unwrap().ms;
        here.snapshot().await.keys.iter().all(|key| key.expires_ms <= now_ms)
    })
    .await;
    let (mine, other) = (cleaner(&here, HOUR), cleaner(&there, HOUR));
    let asked =
        (0..20).map(|number| if number % 2 == 0 { mine.tick_in_turn() } else { other.tick_in_turn() });
    let turns: Vec<usize> = join_all(asked).await.into_iter().filter_map(Result::unwrap).collect();
    assert_eq!(turns, [3], "there must be one turn that removes all keys");
    assert!(here.snapshot().await.keys.is_empty());
}

/// A turn is never released explicitly, so the next turn does not depend on a living process.
async fn a_process_that_died_in_its_turn_is_not_waited_for(place: Place) {
    let (here, there) = (place.server().await, place.server().await);
    let short = Duration::from_millis(50);
    assert_eq!(cleaner(&here, short).tick_in_turn().await.unwrap(), Some(0));
    drop(here);
    let other = cleaner(&there, short);
    until_async("the other one's turn", async || other.tick_in_turn().await.unwrap().is_some()).await;
}

async fn a_process_that_is_alone_has_every_turn(place: Place) {
    let server = place.server().await;
    let cleaner = cleaner(&server, HOUR);
    assert_eq!(cleaner.tick_in_turn().await.unwrap(), Some(0));
    assert_eq!(cleaner.tick_in_turn().await.unwrap(), Some(0));
}

on_each_store!(a_process_that_is_alone_has_every_turn);
on_postgres!(one_of_two_processes_removes_expired_keys, a_process_that_died_in_its_turn_is_not_waited_for);
