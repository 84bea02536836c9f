"""Batches of commands with task ids that were used before, and with statuses that clients rarely send."""

import grpc
import pytest
from client import Client, Status, refused, schedule, set_state
from conftest import NewClient


@pytest.fixture
def client(new_client: NewClient) -> Client:
    return new_client()


def test_a_task_id_that_is_scheduled_again_later_is_the_same_task(client: Client, new_task_id: str) -> None:
    """With a token there is no second row and no second event; the other commands of the batch count."""
    execution_id = client.start()
    client.submit(execution_id, [schedule(new_task_id)], claim=client.claim_workflow())
    client.claim_task()
    client.complete_task(new_task_id, "paid")
    later = client.claim_workflow()
    client.submit(execution_id, [schedule(new_task_id), set_state("step", 2)], claim=later)
    types = [event.type for event in client.events(execution_id)]
    assert types == ["WORKFLOW_STARTED", "TASK_SCHEDULED", "TASK_COMPLETED", "STATE_SET"]
    assert client.poll_task(seconds=0) is None
    task = client.task(new_task_id)
    assert (task.status, task.execution_count, task.output) == ("COMPLETED", 1, b'"paid"')


def test_without_a_token_a_batch_of_known_ids_only_is_a_lost_history(
    client: Client, new_task_id: str
) -> None:
    """The batch is acknowledged without effect, and the workflow is handed out again with its whole history."""
    execution_id = client.start()
    client.claim_workflow()
    client.submit(execution_id, [schedule(new_task_id)])
    client.claim_task()
    client.complete_task(new_task_id, "paid")
    client.claim_workflow()
    client.submit(execution_id, [schedule(new_task_id), set_state("step", 2)])
    types = [event.type for event in client.events(execution_id)]
    assert types == ["WORKFLOW_STARTED", "TASK_SCHEDULED", "TASK_COMPLETED"]
    assert client.claim_workflow().id == execution_id
    client.complete_workflow(execution_id, "done")


def test_status_running_means_that_the_workflow_goes_on(client: Client, new_task_id: str) -> None:
    execution_id = client.start()
    client.claim_workflow()
    client.submit(execution_id, [schedule(new_task_id)], Status.WORKFLOW_STATUS_RUNNING)
    assert client.execution(execution_id).status == "WAITING"
    client.claim_task()
    client.complete_task(new_task_id, "paid")
    # The task's event wakes the workflow, as after SUSPENDED.
    assert client.claim_workflow().id == execution_id
    client.complete_workflow(execution_id, "done")


def test_no_status_is_refused_and_the_workflow_is_handed_out_again(client: Client, new_task_id: str) -> None:
    execution_id = client.start()
    client.claim_workflow()
    before = client.events(execution_id)
    with refused("FLV0011", grpc.StatusCode.INVALID_ARGUMENT):
        client.submit(execution_id, [schedule(new_task_id)], Status.WORKFLOW_STATUS_UNSPECIFIED)
    assert client.events(execution_id) == before
    # The refusal has ended the claim: the activation counts as failed and is retried after a second.
    assert client.claim_workflow().id == execution_id
    client.complete_workflow(execution_id, "done")
