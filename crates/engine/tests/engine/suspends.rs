//! For which suspends of clients without tokens an execution waits. A late copy of an older suspend must not end a
//! claim that was lost before the client received it: nobody would wake the execution.

use flovyn_engine::ids::ExecutionId;
use flovyn_engine::request::{Outcome, SignalWorkflow, SubmitActivation};
use flovyn_engine::state::{ExecutionStatus, WorkClass};

use super::world::{World, json, peer, plain_claim};

fn suspend(execution_id: ExecutionId, first_number: Option<i64>) -> SubmitActivation {
    SubmitActivation {
        execution_id,
        token: None,
        base_sequence: None,
        commands: Vec::new(),
        outcome: Outcome::Suspended,
        unread_signals: 0,
        first_number,
        build_id: None,
        clean_up: None,
    }
}

/// An execution that has suspended once, received a signal, and was claimed again. The claim never reached the client.
fn lost_claim(first_number: Option<i64>) -> (World, SubmitActivation) {
    let mut world = World::new();
    let execution_id = world.start("parent");
    let first = suspend(execution_id, first_number);
    claim(&mut world);
    world.must(first.clone());
    assert_eq!(world.execution(execution_id).status, ExecutionStatus::Waiting);
    world.must(SignalWorkflow { execution_id, name: "go".into(), value: json("1") });
    claim(&mut world);
    (world, first)
}

fn claim(world: &mut World) {
    assert_eq!(world.claim(plain_claim(WorkClass::Workflow, "parent")).workflows.len(), 1);
}

fn status(world: &World, sent: &SubmitActivation) -> ExecutionStatus {
    world.execution(sent.execution_id).status
}

#[test]
fn a_number_says_which_events_its_client_has_read() {
    let (mut world, first) = lost_claim(Some(2));
    // However often the copy arrives, and on any connection: the client had not read the signal.
    for connection in [1, 2, 3, 3] {
        world.peer = peer(connection);
        world.must(first.clone());
        assert_eq!(status(&world, &first), ExecutionStatus::Pending);
        claim(&mut world);
    }
    let second = suspend(first.execution_id, Some(3));
    world.must(second.clone());
    assert_eq!(status(&world, &second), ExecutionStatus::Waiting);
}

#[test]
fn without_a_number_the_connection_of_the_claim_is_proof_unless_the_content_is_the_same() {
    let (mut world, first) = lost_claim(None);
    world.must(first.clone());
    assert_eq!(status(&world, &first), ExecutionStatus::Pending, "it may be the first one again");
    claim(&mut world);
    world.must(first.clone());
    assert_eq!(status(&world, &first), ExecutionStatus::Waiting);
}

#[test]
fn without_a_number_another_connection_is_asked_twice() {
    let (mut world, first) = lost_claim(None);
    for connection in [2, 3] {
        world.peer = peer(connection);
        world.must(first.clone());
        assert_eq!(status(&world, &first), ExecutionStatus::Pending);
        // This server's claim is lost too: the server dies before the client has received the claim.
        claim(&mut world);
    }
    world.peer = peer(4);
    world.must(first.clone());
    assert_eq!(status(&world, &first), ExecutionStatus::Waiting, "behind a proxy it would run forever");
}

#[test]
fn what_came_since_the_claim_is_delivered_whatever_the_number() {
    let mut world = World::new();
    let execution_id = world.start("parent");
    claim(&mut world);
    world.must(SignalWorkflow { execution_id, name: "go".into(), value: json("1") });
    let suspended = suspend(execution_id, Some(3));
    world.must(suspended.clone());
    assert_eq!(status(&world, &suspended), ExecutionStatus::Pending);
}
