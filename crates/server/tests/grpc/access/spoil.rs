//! Every request of the table with one invalid field, for each field in turn.

use tonic::Code;

use super::messages::{Messages, Place};
use super::table::entries;
use super::wire::{CONNECT, EXECUTE, Outcome, call, send};
use super::world::World;
use crate::common::{Database, TOKEN, TestServer};
use flovyn_proto::v1;

/// The expected outcome of an invalid field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expect {
    /// Refused with this status and code. On a stream, the code may be that of one item.
    Refused(Code, &'static str),
    /// Accepted, because the field is ignored or may have any value.
    Fine,
}

/// `expect` is called with the method and the field: `Method:field`.
pub(super) async fn spoil(
    database: Database,
    wanted: fn(&Place) -> bool,
    content: &[u8],
    expect: fn(&str) -> Expect,
) {
    let messages = Messages::load();
    let mut world = new_world(database).await;
    let (mut wrong, mut tried) = (Vec::new(), 0);
    for entry in entries() {
        let method = entry.path.rsplit('/').next().unwrap();
        let shape: Vec<(usize, usize, Place)> = (entry.frames)(&world.ids)
            .iter()
            .enumerate()
            .flat_map(|(frame, bytes)| {
                let places = messages.places(entry.path, bytes).into_iter().enumerate();
                places.map(move |(index, place)| (frame, index, place))
            })
            .filter(|(_, _, place)| wanted(place))
            .collect();
        for (frame, index, place) in shape {
            tried += 1;
            let mut frames = (entry.frames)(&world.ids);
            frames[frame] = messages.replaced(entry.path, &frames[frame], index, content);
            let outcome = call(&world.server, entry.path, frames, TOKEN).await;
            let name = format!("{method}:{}", place.path);
            // The next step that is sent with a task's success is ignored and not refused if it is invalid.
            let left_out = place.path.starts_with("tasks.next.");
            let expected = if left_out { Expect::Fine } else { expect(&name) };
            if !fits(entry.path, expected, &outcome) {
                let Outcome { grpc, flv, message, .. } = &outcome;
                wrong.push(format!("{name}: expected {expected:?}, got {grpc:?} {flv} {message}"));
            }
            // An accepted request has used up the resources that the next request names, and a refused report has ended
            // its claim.
            if outcome.grpc == Code::Ok || streams(entry.path) || reports(entry.path) {
                world = new_world(database).await;
            }
        }
    }
    assert!(tried > 0);
    assert!(wrong.is_empty(), "{} of {tried} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert_goes_on(&world.server).await;
}

async fn new_world(database: Database) -> World {
    World::on(TestServer::start(database).await).await
}

fn streams(path: &str) -> bool {
    [CONNECT, EXECUTE].contains(&path)
}

fn reports(path: &str) -> bool {
    ["SubmitWorkflowCommands", "CompleteTask", "FailTask"].iter().any(|method| path.ends_with(method))
}

fn fits(path: &str, expected: Expect, outcome: &Outcome) -> bool {
    match expected {
        Expect::Fine => outcome.grpc == Code::Ok,
        Expect::Refused(grpc, flv) => outcome.is(grpc, flv) || (streams(path) && outcome.is(Code::Ok, flv)),
    }
}

/// Checks that the server is healthy and works.
pub(super) async fn assert_goes_on(server: &TestServer) {
    let path = "/grpc.health.v1.Health/Check";
    let health = super::wire::call_with_header(server, path, vec![Vec::new()], None).await;
    // Field 1, value 1: SERVING.
    assert_eq!((health.grpc, &health.frames[0][..]), (Code::Ok, &[8, 1][..]), "{health:?}");
    let start = v1::StartWorkflowRequest { workflow_kind: "after".into(), ..Default::default() };
    let started = send(server, "WorkflowDispatch/StartWorkflow", &start, TOKEN).await;
    assert_eq!(started.grpc, Code::Ok, "{started:?}");
}
