"""A batch of commands that is sent again without a token is acknowledged and has no second effect."""

import uuid

import pytest
from client import Client, refused, schedule, set_state, start_timer
from conftest import NewClient, Resent
from flovyn.v1 import workflow_pb2

Commands = list[workflow_pb2.WorkflowCommand]


@pytest.fixture
def client(new_client: NewClient) -> Client:
    return new_client()


def commands(task_id: str) -> Commands:
    return [set_state("step", 1), schedule(task_id), start_timer("deadline")]


def test_repeated_batch(client: Client, resent: Resent, new_task_id: str) -> None:
    execution_id = client.start()
    client.claim_workflow()
    client.submit(execution_id, commands(new_task_id))
    before = client.events(execution_id)
    assert [event.type for event in before[1:]] == ["STATE_SET", "TASK_SCHEDULED", "TIMER_STARTED"]
    client = resent(client)
    client.submit(execution_id, commands(new_task_id))
    assert client.events(execution_id) == before
    assert client.execution(execution_id).status == "WAITING"


def test_repeated_batch_without_ids(client: Client, resent: Resent) -> None:
    """No command has an id by which the batch could be recognised."""
    execution_id = client.start()
    client.claim_workflow()
    client.submit(execution_id, [set_state("step", 1), set_state("step", 2)])
    before = client.events(execution_id)
    client = resent(client)
    client.submit(execution_id, [set_state("step", 1), set_state("step", 2)])
    assert client.events(execution_id) == before


def test_repeated_end_of_a_workflow(client: Client, resent: Resent) -> None:
    execution_id = client.start()
    client.claim_workflow()
    client.complete_workflow(execution_id, "done")
    before = client.events(execution_id)
    client = resent(client)
    client.complete_workflow(execution_id, "done")
    with refused():
        client.complete_workflow(execution_id, "something else")
    assert client.events(execution_id) == before


def test_other_commands_are_refused(client: Client, resent: Resent, new_task_id: str) -> None:
    execution_id = client.start()
    client.claim_workflow()
    client.submit(execution_id, commands(new_task_id))
    before = client.events(execution_id)
    client = resent(client)
    for other in (
        commands(str(uuid.uuid4())),
        [*commands(new_task_id), set_state("step", 2)],
        commands(new_task_id)[:2],
    ):
        with refused():
            client.submit(execution_id, other)
    assert client.events(execution_id) == before
    # Its reports may have crossed, so the first one may count for a later claim: the workflow gets the history again.
    assert client.execution(execution_id).status == "PENDING"


def test_repeated_batch_leaves_the_next_claim_alone(
    client: Client, new_client: NewClient, new_task_id: str
) -> None:
    execution_id = client.start()
    client.claim_workflow()
    numbered = schedule(new_task_id)
    # The place in the history: without it, the batch could belong to the next claim as well.
    numbered.sequence_number = 2
    client.submit(execution_id, [numbered])
    client.claim_task()
    client.complete_task(new_task_id, "paid")
    other = new_client()
    next_claim = other.claim_workflow()
    before = client.events(execution_id)
    client.submit(execution_id, [numbered])
    assert client.events(execution_id) == before
    other.complete_workflow(execution_id, "done", claim=next_claim)
    assert client.execution(execution_id).output == b'"done"'
