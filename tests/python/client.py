"""A plain gRPC client of the public protocol. It uses the generated stubs and no code of the server."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import grpc
from flovyn.v1 import (
    client_pb2,
    client_pb2_grpc,
    task_pb2,
    task_pb2_grpc,
    worker_pb2,
    worker_pb2_grpc,
    workflow_pb2,
    workflow_pb2_grpc,
)

Status = workflow_pb2.WorkflowStatus
ERROR_CODE = "flovyn-error-code"
STALE_CLAIM = "FLV0050"
# The longest wait for work, and for any answer. A healthy server needs much less.
POLL_SECONDS = 30
ANSWER_SECONDS = 60


def _seconds_left(seconds: int) -> Iterator[int]:
    """The seconds left for the next poll: a poll may be answered early, without work."""
    until = time.monotonic() + seconds
    yield seconds
    while (left := until - time.monotonic()) > 0:
        yield int(left)


class Event(NamedTuple):
    sequence: int
    type: str
    data: Any


class Client:
    """One connection to the server, as a worker process has it.

    Clients of one process share a connection by default: `use_local_subchannel_pool` gives each its own.
    """

    def __init__(self, address: str, token: str, queue: str) -> None:
        self._metadata = [("authorization", f"Bearer {token}")]
        self._queue = queue
        self._worker = f"python-{uuid.uuid4()}"
        self._channel = grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)])
        self._workflows = workflow_pb2_grpc.WorkflowDispatchStub(self._channel)
        self._tasks = task_pb2_grpc.TaskExecutionStub(self._channel)
        self._workers = worker_pb2_grpc.WorkerLifecycleStub(self._channel)
        self._application = client_pb2_grpc.WorkflowClientStub(self._channel)

    def close(self) -> None:
        self._channel.close()

    def _call(self, method: Callable[..., Any], request: Any) -> Any:
        return method(request, metadata=self._metadata, timeout=ANSWER_SECONDS, wait_for_ready=True)

    def register(
        self, name: str, process: str, *, workflows: Sequence[str] = (), tasks: Sequence[str] = ()
    ) -> str:
        """Registers a process of a worker. From now on the client polls by the name, not by the returned id."""
        request = worker_pb2.WorkerRegistrationRequest(
            worker_name=name,
            host_name="host",
            process_id=process,
            workflows=[worker_pb2.WorkflowCapability(kind=kind) for kind in workflows],
            tasks=[worker_pb2.TaskCapability(kind=kind) for kind in tasks],
        )
        self._worker = name
        return str(self._call(self._workers.RegisterWorker, request).worker_id)

    # Workflows

    def start(self, kind: str = "order") -> str:
        request = workflow_pb2.StartWorkflowRequest(workflow_kind=kind, queue=self._queue, input=b"null")
        return str(self._call(self._workflows.StartWorkflow, request).workflow_execution_id)

    def poll_workflow(self, seconds: int = POLL_SECONDS) -> workflow_pb2.WorkflowExecution | None:
        """The next activation. None: there was none in time."""
        for left in _seconds_left(seconds):
            request = workflow_pb2.PollRequest(worker_id=self._worker, queue=self._queue, timeout_seconds=left)
            response: workflow_pb2.PollResponse = self._call(self._workflows.PollWorkflow, request)
            if response.HasField("workflow_execution"):
                return response.workflow_execution
        return None

    def claim_workflow(self) -> workflow_pb2.WorkflowExecution:
        claimed = self.poll_workflow()
        assert claimed is not None, f"no activation within {POLL_SECONDS} s"
        return claimed

    def submit(
        self,
        execution_id: str,
        commands: Sequence[workflow_pb2.WorkflowCommand],
        status: Status = Status.WORKFLOW_STATUS_SUSPENDED,
        *,
        claim: workflow_pb2.WorkflowExecution | None = None,
    ) -> None:
        """By default without a claim token: clients of the public protocol send no token and no base."""
        request = workflow_pb2.SubmitWorkflowCommandsRequest(
            workflow_execution_id=execution_id,
            commands=commands,
            status=status,
            claim_token=claim.claim_token if claim else None,
            base_sequence=claim.current_sequence if claim else None,
        )
        self._call(self._workflows.SubmitWorkflowCommands, request)

    def complete_workflow(
        self, execution_id: str, output: Any, *, claim: workflow_pb2.WorkflowExecution | None = None
    ) -> None:
        self.submit(execution_id, [complete(output)], Status.WORKFLOW_STATUS_COMPLETED, claim=claim)

    def events(self, execution_id: str) -> list[Event]:
        request = workflow_pb2.GetEventsRequest(workflow_execution_id=execution_id)
        found = self._call(self._workflows.GetEvents, request).events
        return [Event(one.sequence_number, one.event_type, json.loads(one.event_data)) for one in found]

    def execution(self, execution_id: str) -> client_pb2.ExecutionInfo:
        request = client_pb2.GetExecutionRequest(workflow_execution_id=execution_id)
        found: client_pb2.ExecutionInfo = self._call(self._application.GetExecution, request)
        return found

    # Tasks

    def submit_task(self, max_retries: int = 3) -> str:
        """A standalone task."""
        request = task_pb2.SubmitTaskRequest(
            kind="charge", queue=self._queue, input=b"null", max_retries=max_retries
        )
        return str(self._call(self._tasks.SubmitTask, request).task_execution_id)

    def poll_task(self, seconds: int = POLL_SECONDS) -> task_pb2.TaskExecutionInfo | None:
        """The next attempt. None: there was none in time."""
        for left in _seconds_left(seconds):
            request = task_pb2.PollTaskRequest(worker_id=self._worker, queue=self._queue, timeout_seconds=left)
            response: task_pb2.PollTaskResponse = self._call(self._tasks.PollTask, request)
            if response.HasField("task"):
                return response.task
        return None

    def claim_task(self) -> task_pb2.TaskExecutionInfo:
        claimed = self.poll_task()
        assert claimed is not None, f"no task within {POLL_SECONDS} s"
        return claimed

    def complete_task(self, task_id: str, output: Any, token: int | None = None) -> None:
        request = task_pb2.CompleteTaskRequest(
            task_execution_id=task_id, output=json.dumps(output).encode(), claim_token=token
        )
        self._call(self._tasks.CompleteTask, request)

    def fail_task(
        self,
        task_id: str,
        error: str,
        token: int | None = None,
        *,
        non_retryable: bool = False,
        retry_after_ms: int | None = None,
    ) -> None:
        request = task_pb2.FailTaskRequest(
            task_execution_id=task_id,
            error=error,
            claim_token=token,
            non_retryable=non_retryable,
            next_retry_delay_ms=retry_after_ms,
        )
        self._call(self._tasks.FailTask, request)

    def heartbeat(self, task_id: str, details: Any, token: int | None = None) -> None:
        request = task_pb2.HeartbeatRequest(
            task_execution_id=task_id, details=json.dumps(details).encode(), claim_token=token
        )
        self._call(self._tasks.Heartbeat, request)

    def report_progress(self, task_id: str, progress: float) -> None:
        request = task_pb2.ReportProgressRequest(task_execution_id=task_id, progress=progress)
        self._call(self._tasks.ReportProgress, request)

    def set_state(self, task_id: str, key: str, value: Any) -> None:
        request = task_pb2.SetStateRequest(
            task_execution_id=task_id, key=key, value=json.dumps(value).encode()
        )
        self._call(self._tasks.SetState, request)

    def clear_state(self, task_id: str, key: str) -> None:
        self._call(self._tasks.ClearState, task_pb2.ClearStateRequest(task_execution_id=task_id, key=key))

    def clear_all_state(self, task_id: str) -> None:
        self._call(self._tasks.ClearAllState, task_pb2.ClearAllStateRequest(task_execution_id=task_id))

    def state(self, task_id: str, key: str) -> Any:
        """The value. None: the key is not set."""
        request = task_pb2.GetStateRequest(task_execution_id=task_id, key=key)
        response = self._call(self._tasks.GetState, request)
        return json.loads(response.value) if response.found else None

    def task(self, task_id: str) -> client_pb2.TaskInfo:
        request = client_pb2.GetTaskRequest(task_execution_id=task_id)
        found: client_pb2.TaskInfo = self._call(self._application.GetTask, request)
        return found


# Commands of an activation


def schedule(task_id: str) -> workflow_pb2.WorkflowCommand:
    data = workflow_pb2.ScheduleTaskCommand(kind="charge", input=b"null", task_execution_id=task_id)
    kind = workflow_pb2.CommandType.COMMAND_TYPE_SCHEDULE_TASK
    return workflow_pb2.WorkflowCommand(command_type=kind, schedule_task=data)


def start_timer(timer_id: str, duration_ms: int = 3_600_000) -> workflow_pb2.WorkflowCommand:
    data = workflow_pb2.StartTimerCommand(timer_id=timer_id, duration_ms=duration_ms)
    kind = workflow_pb2.CommandType.COMMAND_TYPE_START_TIMER
    return workflow_pb2.WorkflowCommand(command_type=kind, start_timer=data)


def set_state(key: str, value: Any) -> workflow_pb2.WorkflowCommand:
    data = workflow_pb2.SetStateCommand(key=key, value=json.dumps(value).encode())
    kind = workflow_pb2.CommandType.COMMAND_TYPE_SET_STATE
    return workflow_pb2.WorkflowCommand(command_type=kind, set_state=data)


def complete(output: Any) -> workflow_pb2.WorkflowCommand:
    data = workflow_pb2.CompleteWorkflowCommand(output=json.dumps(output).encode())
    kind = workflow_pb2.CommandType.COMMAND_TYPE_COMPLETE_WORKFLOW
    return workflow_pb2.WorkflowCommand(command_type=kind, complete_workflow=data)


@contextmanager
def refused(
    code: str = STALE_CLAIM, status: grpc.StatusCode = grpc.StatusCode.FAILED_PRECONDITION
) -> Iterator[None]:
    """The call in the block must be refused, with this code."""
    try:
        yield
    except grpc.RpcError as error:
        found: Any = next(
            (item.value for item in error.trailing_metadata() or () if item.key == ERROR_CODE), None
        )
        assert (error.code(), found) == (status, code), error.details()
        return
    raise AssertionError(f"it was accepted, but must be refused with {code}")
