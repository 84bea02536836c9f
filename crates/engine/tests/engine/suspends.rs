//! For which suspends of clients without tokens an execution waits. A late copy of an older suspend must not end a
//! claim that was lost before the client received it: nobody would wake the execution. The same holds for batches with
//! commands and for ends that were decided before an event.

use flovyn_engine::event::EventKind;
use flovyn_engine::ids::ExecutionId;
use flovyn_engine::request::{Command, Outcome, SignalWorkflow, SubmitActivation};
use flovyn_engine::state::{ExecutionStatus, WorkClass};
use flovyn_engine::{Code, Reply};

use super::world::{World, create_promise, json, peer, plain_claim};

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

fn batch(execution_id: ExecutionId, first_number: Option<i64>, commands: Vec<Command>) -> SubmitActivation {
    SubmitActivation { commands, ..suspend(execution_id, first_number) }
}

fn signal(world: &mut World, execution_id: ExecutionId) {
    world.must(SignalWorkflow { execution_id, name: "go".into(), value: json("1") });
}

fn promises(world: &World, execution_id: ExecutionId) -> usize {
    world.events(execution_id).iter().filter(|event| event.kind == EventKind::PromiseCreated).count()
}

#[test]
fn commands_numbered_before_a_signal_leave_the_signal_to_the_next_activation() {
    let mut world = World::new();
    let execution_id = world.start("parent");
    signal(&mut world, execution_id);
    // The claim delivers the signal, but the client had read the start only.
    claim(&mut world);
    let first = batch(execution_id, Some(2), vec![create_promise("p", None)]);
    world.must(first.clone());
    assert_eq!(status(&world, &first), ExecutionStatus::Pending);
    assert_eq!(world.execution(execution_id).base_sequence, 1);
}

#[test]
fn an_end_numbered_before_a_signal_is_deferred() {
    let mut world = World::new();
    let execution_id = world.start("parent");
    signal(&mut world, execution_id);
    claim(&mut world);
    let done = Outcome::Completed { output: json("1") };
    let end = |number| SubmitActivation { outcome: done.clone(), ..suspend(execution_id, Some(number)) };
    assert_eq!(world.ask(end(2)).unwrap_err().code, Code::EndDeferred);
    claim(&mut world);
    // Start, signal and deferred end.
    world.must(end(4));
    assert_eq!(status(&world, &end(4)), ExecutionStatus::Completed);
}

#[test]
fn a_late_copy_of_commands_counts_once_although_an_event_came_in_between() {
    let mut world = World::new();
    let execution_id = world.start("parent");
    claim(&mut world);
    let first = batch(execution_id, Some(2), vec![create_promise("p", None)]);
    world.must(first.clone());
    signal(&mut world, execution_id);
    claim(&mut world);
    // An event that the second batch has not seen.
    signal(&mut world, execution_id);
    world.must(batch(execution_id, Some(4), vec![create_promise("q", None)]));
    claim(&mut world);
    world.peer = peer(1);
    assert_eq!(world.ask(first.clone()).unwrap_err().code, Code::StaleClaim);
    assert_eq!(promises(&world, execution_id), 2);
    assert_eq!(status(&world, &first), ExecutionStatus::Pending, "the claimer may have sent it");
}

#[test]
fn a_copy_without_a_number_counts_only_if_the_workflow_decides_the_same_again() {
    for connection in [1, 2] {
        let mut world = World::new();
        let execution_id = world.start("parent");
        claim(&mut world);
        let first = batch(execution_id, None, vec![create_promise("p", None)]);
        world.must(first.clone());
        signal(&mut world, execution_id);
        world.peer = peer(1);
        claim(&mut world);
        // From the connection of the claim, one copy is refused. From others, two are.
        for _ in 0..connection {
            world.peer = peer(connection);
            assert_eq!(world.ask(first.clone()).unwrap_err().code, Code::StaleClaim);
            assert_eq!(
                (promises(&world, execution_id), status(&world, &first)),
                (1, ExecutionStatus::Pending)
            );
            world.peer = peer(1);
            claim(&mut world);
        }
        world.peer = peer(connection);
        world.must(first.clone());
        assert_eq!(promises(&world, execution_id), 2);
        assert_eq!(status(&world, &first), ExecutionStatus::Waiting);
    }
}

/// A client that numbers its commands, and not the events: its numbers stay behind the history.
#[test]
fn a_client_that_counts_its_own_commands_goes_on_without_waiting_for_a_lease() {
    let mut world = World::new();
    let execution_id = world.start("parent");
    let mut next = 1;
    for round in 0..4 {
        signal(&mut world, execution_id);
        for index in 0..2 {
            let number = Some(next).filter(|number| *number > 1);
            let name = format!("{round}-{index}");
            let sent = match index {
                0 => batch(execution_id, number, vec![create_promise(&name, None)]),
                _ => suspend(execution_id, number),
            };
            let mut claims = 0;
            // Each refusal makes the execution ready at once, and a number of them makes it wait.
            while world.execution(execution_id).status == ExecutionStatus::Pending {
                claim(&mut world);
                claims += 1;
                assert!(claims < 10, "round {round}: it runs without end");
                let accepted = world.ask(sent.clone()).is_ok_and(|reply| !is_repeated(&reply));
                if accepted && index == 0 {
                    break;
                }
            }
            next += sent.commands.len() as i64;
        }
        assert_eq!(world.execution(execution_id).status, ExecutionStatus::Waiting, "round {round}");
        assert_eq!(promises(&world, execution_id), round + 1);
    }
}

fn is_repeated(reply: &Reply) -> bool {
    matches!(reply, Reply::Submitted { repeated: true, .. })
}
