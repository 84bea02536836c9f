"""A worker reports although another worker has claimed its task: the report is refused and changes nothing."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from client import Client, refused, schedule
from conftest import NewClient
from flovyn.v1 import task_pb2


@dataclass
class TakenOver:
    """A task that `old` had claimed and that `new` holds now."""

    old: Client
    new: Client
    observer: Client
    task: task_pb2.TaskExecutionInfo

    @property
    def id(self) -> str:
        return self.task.task_execution_id


@pytest.fixture
def taken_over(short_client: NewClient) -> TakenOver:
    old, new, observer = short_client(), short_client(), short_client()
    task_id = observer.submit_task()
    first = old.claim_task()
    # The poll is answered when the first claim has ended.
    second = new.claim_task()
    assert (first.task_execution_id, second.task_execution_id) == (task_id, task_id)
    assert second.execution_count == 2
    return TakenOver(old, new, observer, second)


REPORTS: dict[str, Callable[[Client, str], None]] = {
    "complete": lambda client, task_id: client.complete_task(task_id, "old"),
    "fail": lambda client, task_id: client.fail_task(task_id, "old"),
    "fail permanently": lambda client, task_id: client.fail_task(task_id, "old", non_retryable=True),
    "heartbeat": lambda client, task_id: client.heartbeat(task_id, "old"),
    "progress": lambda client, task_id: client.report_progress(task_id, 0.9),
}


@pytest.mark.parametrize("report", REPORTS)
def test_stale_report_is_refused_and_changes_nothing(taken_over: TakenOver, report: str) -> None:
    before = taken_over.observer.task(taken_over.id)
    with refused():
        REPORTS[report](taken_over.old, taken_over.id)
    assert taken_over.observer.task(taken_over.id) == before
    taken_over.new.complete_task(taken_over.id, "new", taken_over.task.claim_token)
    after = taken_over.observer.task(taken_over.id)
    assert (after.status, after.output, after.execution_count) == ("COMPLETED", b'"new"', 2)


def test_of_two_workers_without_tokens_only_the_current_one_is_heard(taken_over: TakenOver) -> None:
    with refused():
        taken_over.old.complete_task(taken_over.id, "old")
    taken_over.new.complete_task(taken_over.id, "new")
    with refused():
        taken_over.old.complete_task(taken_over.id, "old")
    assert taken_over.observer.task(taken_over.id).output == b'"new"'


def test_stale_changes_of_task_state_are_refused(taken_over: TakenOver) -> None:
    taken_over.new.set_state(taken_over.id, "cursor", "new")
    with refused():
        taken_over.old.set_state(taken_over.id, "cursor", "old")
    with refused():
        taken_over.old.clear_state(taken_over.id, "cursor")
    with refused():
        taken_over.old.clear_all_state(taken_over.id)
    assert taken_over.new.state(taken_over.id, "cursor") == "new"
    taken_over.new.clear_state(taken_over.id, "cursor")
    assert taken_over.new.state(taken_over.id, "cursor") is None


def test_the_current_worker_may_report_everything_without_a_token(taken_over: TakenOver) -> None:
    taken_over.new.heartbeat(taken_over.id, "new")
    taken_over.new.report_progress(taken_over.id, 0.5)
    taken_over.new.set_state(taken_over.id, "cursor", 1)
    taken_over.new.complete_task(taken_over.id, "new")
    assert taken_over.observer.task(taken_over.id).output == b'"new"'


def test_stale_completion_of_a_workflows_task_adds_no_event(
    short_client: NewClient, new_task_id: str
) -> None:
    old, new, observer = short_client(), short_client(), short_client()
    execution_id = observer.start()
    observer.claim_workflow()
    observer.submit(execution_id, [schedule(new_task_id)])
    old.claim_task()
    second = new.claim_task()
    before = observer.events(execution_id)
    with refused():
        old.complete_task(new_task_id, "old")
    assert observer.events(execution_id) == before
    new.complete_task(new_task_id, "new", second.claim_token)
    [added] = observer.events(execution_id)[len(before) :]
    assert (added.type, added.data["output"]) == ("TASK_COMPLETED", "new")


def test_completion_with_the_token_of_an_older_claim_is_refused(short_client: NewClient) -> None:
    old, new = short_client(), short_client()
    task_id = old.submit_task()
    first = old.claim_task()
    second = new.claim_task()
    new.complete_task(task_id, "new", second.claim_token)
    with refused():
        old.complete_task(task_id, "old", first.claim_token)
    assert new.task(task_id).output == b'"new"'


def test_completion_with_a_token_after_an_outcome_without_one_is_refused(short_client: NewClient) -> None:
    old, new = short_client(), short_client()
    task_id = old.submit_task()
    first = old.claim_task()
    new.claim_task()
    new.complete_task(task_id, "new")
    with refused():
        old.complete_task(task_id, "old", first.claim_token)
    assert new.task(task_id).output == b'"new"'
