"""Workers as public clients are by default: no heartbeats, no tokens, one name for every process."""

from __future__ import annotations

import time
import uuid

from client import ANSWER_SECONDS, Client, refused, schedule
from conftest import NewClient


def _claim_ends(observer: Client, task_id: str) -> None:
    """Waits until the task waits for its next attempt."""
    until = time.monotonic() + ANSWER_SECONDS
    while observer.task(task_id).status != "PENDING":
        assert time.monotonic() < until, "the claim does not end"


def test_late_success_counts_if_nobody_has_claimed_the_task_since(short_client: NewClient) -> None:
    worker, other, observer = short_client(), short_client(), short_client()
    task_id = observer.submit_task()
    worker.claim_task()
    _claim_ends(observer, task_id)
    with refused():
        worker.fail_task(task_id, "late")
    worker.complete_task(task_id, "late")
    after = observer.task(task_id)
    assert (after.status, after.output, after.execution_count) == ("COMPLETED", b'"late"', 1)
    assert other.poll_task(seconds=0) is None


def test_late_success_is_refused_if_another_worker_has_claimed_the_task(short_client: NewClient) -> None:
    worker, other, observer = short_client(), short_client(), short_client()
    task_id = observer.submit_task()
    worker.claim_task()
    other.claim_task()
    with refused():
        worker.complete_task(task_id, "late")
    other.complete_task(task_id, "in time")
    assert observer.task(task_id).output == b'"in time"'


def test_each_of_two_processes_of_one_name_gets_what_it_registered(
    new_client: NewClient, new_task_id: str
) -> None:
    name = f"worker-default-{uuid.uuid4()}"
    flows, steps = new_client(), new_client()
    assert flows.register(name, "1", workflows=["order"]) != steps.register(name, "2", tasks=["charge"])
    execution_id = flows.start()
    # Each polls for both classes.
    assert steps.poll_workflow(seconds=0) is None
    assert flows.claim_workflow().id == execution_id
    flows.submit(execution_id, [schedule(new_task_id)])
    assert flows.poll_task(seconds=0) is None
    assert steps.claim_task().task_execution_id == new_task_id
    steps.complete_task(new_task_id, 1)
    assert flows.claim_workflow().id == execution_id
    flows.complete_workflow(execution_id, 1)
    assert flows.execution(execution_id).status == "COMPLETED"
