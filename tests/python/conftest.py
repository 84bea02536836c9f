"""The fixtures of every test: a server on each database, and clients with their own connections."""

import uuid
from collections.abc import Callable, Iterator

import database
import pytest
import server as processes
from client import Client
from server import Server

# Long enough that a busy machine can report in time, short enough to wait for its end.
SHORT_LEASE_MS = 2_000

NewClient = Callable[[], Client]
Resent = Callable[[Client], Client]


@pytest.fixture(scope="session", params=database.stores())
def store(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def short_leases(store: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose claims end soon, for tests in which a worker loses its claim."""
    folder = tmp_path_factory.mktemp(f"short-{store}")
    limits = {"workflow_lease_ms": SHORT_LEASE_MS, "task_lease_ms": SHORT_LEASE_MS}
    with (
        database.fresh(store, "short", folder) as url,
        processes.running(folder, url, **limits) as server,
    ):
        yield server


@pytest.fixture(scope="session")
def usual_leases(store: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with default leases: no claim ends during a test."""
    folder = tmp_path_factory.mktemp(f"usual-{store}")
    with database.fresh(store, "usual", folder) as url, processes.running(folder, url) as server:
        yield server


def _clients(server: Server) -> Iterator[NewClient]:
    # A queue for each test, so that no test receives the work of another.
    queue = f"python-{uuid.uuid4()}"
    made: list[Client] = []

    def new() -> Client:
        made.append(Client(server.grpc_address, processes.TOKEN, queue))
        return made[-1]

    yield new
    for client in made:
        client.close()


@pytest.fixture
def short_client(short_leases: Server) -> Iterator[NewClient]:
    """Makes clients of the server with short leases."""
    yield from _clients(short_leases)


@pytest.fixture
def new_client(usual_leases: Server) -> Iterator[NewClient]:
    """Makes clients of the server with usual leases."""
    yield from _clients(usual_leases)


@pytest.fixture(params=[False, True], ids=["same-server", "killed-server"])
def resent(request: pytest.FixtureRequest, usual_leases: Server, new_client: NewClient) -> Resent:
    """The client that repeats a request: the same client, or a new client after the server was killed."""

    def client_of(first: Client) -> Client:
        if not request.param:
            return first
        usual_leases.kill_and_start()
        return new_client()

    return client_of


@pytest.fixture
def new_task_id() -> str:
    """The id of a task that does not exist yet."""
    return str(uuid.uuid4())
