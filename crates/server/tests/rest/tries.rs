//! Repeated attempts with invalid credentials.

use flovyn_proto::v1;
use futures::StreamExt;
use futures::stream;
use tonic::{Code, Request};

use crate::common::{Database, TOKEN};
use crate::http::Answer;
use crate::world::World;

const TRIES: usize = 1_000;
const READ: &str = "/api/tenants/one/tasks";

async fn world() -> World {
    World::start_with(Database::Sqlite, |config| config.auth.failed_tries_per_minute = 60).await
}

fn statuses(answers: &[Answer], status: u16) -> usize {
    answers.iter().filter(|answer| answer.status == status).count()
}

/// Sends many requests, each with another credential, like an attacker who guesses.
async fn guess(world: &World, guess: impl Fn(usize) -> String) -> Vec<Answer> {
    let tries = (0..TRIES).map(|n| {
        let token = guess(n);
        async move { world.call(&token, "GET", READ, "").await }
    });
    stream::iter(tries).buffer_unordered(20).collect().await
}

#[tokio::test(flavor = "multi_thread")]
async fn most_of_a_thousand_wrong_tries_are_too_many_and_known_credentials_are_let_in() {
    let world = world().await;
    let good = world.admin.clone();
    let mut dispatch = v1::workflow_dispatch_client::WorkflowDispatchClient::new(world.server.channel());
    let poll = |token: &str| {
        let mut poll = Request::new(v1::PollRequest {
            worker_id: "w".into(),
            queue: "default".into(),
            ..v1::PollRequest::default()
        });
        poll.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
        poll
    };
    // Both have been valid before the guesses begin.
    world.get("/tasks").await.ok(200);
    dispatch.poll_workflow(poll(TOKEN)).await.unwrap();
    let answers = guess(&world, |n| match n % 3 {
        0 => format!("flv_{n:064}"),
        1 => format!("fwt_{n:064}"),
        _ => format!("{good}{n}"),
    })
    .await;
    let too_many = statuses(&answers, 429);
    assert!(too_many > TRIES * 3 / 4, "{too_many}");
    assert_eq!(statuses(&answers, 401) + too_many, TRIES);
    for answer in answers {
        if answer.status == 429 {
            assert!(answer.retry_after().unwrap() > 0);
            answer.refused(429, "FLV0077");
        }
    }
    // Known credentials are let in from the very same address.
    world.get("/tasks").await.ok(200);
    dispatch.poll_workflow(poll(TOKEN)).await.unwrap();
    let refused = dispatch.poll_workflow(poll("fwt_wrong")).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    let seconds = refused.metadata().get("retry-after").unwrap().to_str().unwrap();
    assert!(seconds.parse::<i64>().unwrap() > 0, "{seconds}");
    // The sign-in form and the metrics share the same limit.
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let login = world.http.send("POST", "/login", &form, "credential=flv_wrong").await;
    assert_eq!((login.status, login.retry_after().is_some()), (429, true), "{}", login.text);
    let body = format!("credential={good}");
    assert_eq!(world.http.send("POST", "/login", &form, body).await.status, 303);
    assert_eq!(world.call("nonsense", "GET", "/_/metrics", "").await.status, 429);
    // A request without a credential does not count.
    world.http.send("GET", READ, &[], "").await.refused(401, "FLV0080");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_credential_that_fails_again_and_again_is_not_looked_up_any_more() {
    let world = world().await;
    let answers = guess(&world, |_| "fwt_the-same-each-time-0123456789abcdef".into()).await;
    // A third of the address's limit, plus the tries that the limit forgets in the meantime.
    assert!((20..50).contains(&statuses(&answers, 401)), "{}", statuses(&answers, 401));
    world.get("/tasks").await.ok(200);
}
