"""A worker submits although another worker has claimed its workflow: the submit is refused and changes nothing."""

from dataclasses import dataclass

import pytest
from client import Client, refused, schedule, set_state
from conftest import NewClient
from flovyn.v1 import workflow_pb2


@dataclass
class TakenOver:
    """A workflow that `old` had claimed and that `new` holds now."""

    old: Client
    new: Client
    observer: Client
    first: workflow_pb2.WorkflowExecution
    second: workflow_pb2.WorkflowExecution

    @property
    def id(self) -> str:
        return self.second.id


@pytest.fixture
def taken_over(short_client: NewClient) -> TakenOver:
    old, new, observer = short_client(), short_client(), short_client()
    execution_id = observer.start()
    first = old.claim_workflow()
    # The poll is answered when the first claim has ended.
    second = new.claim_workflow()
    assert (first.id, second.id) == (execution_id, execution_id)
    return TakenOver(old, new, observer, first, second)


@pytest.mark.parametrize("new_sends_token", [True, False], ids=["token", "no-token"])
def test_stale_completion_is_refused_and_changes_nothing(
    taken_over: TakenOver, new_sends_token: bool
) -> None:
    before = taken_over.observer.events(taken_over.id)
    with refused():
        taken_over.old.complete_workflow(taken_over.id, "old")
    assert taken_over.observer.events(taken_over.id) == before
    claim = taken_over.second if new_sends_token else None
    taken_over.new.complete_workflow(taken_over.id, "new", claim=claim)
    after = taken_over.observer.execution(taken_over.id)
    assert (after.status, after.output) == ("COMPLETED", b'"new"')


@pytest.mark.parametrize("new_sends_token", [True, False], ids=["token", "no-token"])
def test_stale_commands_are_refused_and_change_nothing(
    taken_over: TakenOver, new_sends_token: bool, new_task_id: str
) -> None:
    before = taken_over.observer.events(taken_over.id)
    with refused():
        taken_over.old.submit(taken_over.id, [schedule(new_task_id), set_state("step", "old")])
    assert taken_over.observer.events(taken_over.id) == before
    claim = taken_over.second if new_sends_token else None
    taken_over.new.submit(taken_over.id, [set_state("step", "new")], claim=claim)
    added = taken_over.observer.events(taken_over.id)[len(before) :]
    assert [(event.type, event.data["value"]) for event in added] == [("STATE_SET", "new")]


def test_completion_with_the_token_of_an_older_claim_is_refused(taken_over: TakenOver) -> None:
    taken_over.new.complete_workflow(taken_over.id, "new", claim=taken_over.second)
    with refused():
        taken_over.old.complete_workflow(taken_over.id, "old", claim=taken_over.first)
    assert taken_over.observer.execution(taken_over.id).output == b'"new"'


def test_completion_with_a_token_after_an_outcome_without_one_is_refused(taken_over: TakenOver) -> None:
    taken_over.new.complete_workflow(taken_over.id, "new")
    with refused():
        taken_over.old.complete_workflow(taken_over.id, "old", claim=taken_over.first)
    assert taken_over.observer.execution(taken_over.id).output == b'"new"'
