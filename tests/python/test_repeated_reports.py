"""A report that is sent again without a token, because its answer was lost, is acknowledged and counted once."""

import pytest
from client import Client, refused, schedule
from conftest import NewClient, Resent
from server import Server

RETRY_AFTER_MS = 3_600_000


@pytest.fixture
def client(new_client: NewClient) -> Client:
    return new_client()


def claimed_task(client: Client, max_retries: int = 3) -> str:
    task_id = client.submit_task(max_retries)
    assert client.claim_task().task_execution_id == task_id
    return task_id


def test_repeated_completion(client: Client, resent: Resent) -> None:
    task_id = claimed_task(client)
    client.complete_task(task_id, {"paid": 1})
    before = client.task(task_id)
    again = resent(client)
    again.complete_task(task_id, {"paid": 1})
    assert again.task(task_id) == before
    with refused():
        again.complete_task(task_id, {"paid": 2})
    with refused():
        again.fail_task(task_id, "changed its mind")
    assert again.task(task_id) == before


def test_repeated_completion_adds_one_event(client: Client, resent: Resent, new_task_id: str) -> None:
    execution_id = client.start()
    client.claim_workflow()
    client.submit(execution_id, [schedule(new_task_id)])
    client.claim_task()
    client.complete_task(new_task_id, "paid")
    before = client.events(execution_id)
    again = resent(client)
    again.complete_task(new_task_id, "paid")
    with refused():
        again.complete_task(new_task_id, "unpaid")
    assert again.events(execution_id) == before
    assert [event.type for event in before].count("TASK_COMPLETED") == 1


def test_repeated_final_failure(client: Client, resent: Resent) -> None:
    task_id = claimed_task(client, max_retries=1)
    client.fail_task(task_id, "no money")
    before = client.task(task_id)
    assert before.status == "FAILED"
    again = resent(client)
    again.fail_task(task_id, "no money")
    with refused():
        again.fail_task(task_id, "another error")
    with refused():
        again.complete_task(task_id, "paid after all")
    assert again.task(task_id) == before


def test_repeated_failure_before_a_retry(client: Client, resent: Resent) -> None:
    task_id = claimed_task(client)
    client.fail_task(task_id, "no money", retry_after_ms=RETRY_AFTER_MS)
    before = client.task(task_id)
    assert (before.status, before.execution_count) == ("PENDING", 1)
    again = resent(client)
    again.fail_task(task_id, "no money", retry_after_ms=RETRY_AFTER_MS)
    with refused():
        again.fail_task(task_id, "another error", retry_after_ms=RETRY_AFTER_MS)
    assert again.task(task_id) == before


def test_first_completion_after_a_restart_of_the_server(new_client: NewClient, usual_leases: Server) -> None:
    """The worker's claim survives a restart of the server, over a new connection and without a token."""
    task_id = claimed_task(new_client(), max_retries=1)
    usual_leases.kill_and_start()
    client = new_client()
    client.complete_task(task_id, "paid")
    assert client.task(task_id).output == b'"paid"'
