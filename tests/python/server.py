"""The real server as a separate process, which can be killed and restarted on the same database."""

import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

BINARY_VARIABLE = "FLOVYN_TEST_BINARY"
TOKEN = "fwt_python-client-0123456789abcdef0123456789"
READY_WITHIN_SECONDS = 60.0
LOOK_EVERY_SECONDS = 0.01
LOG_TAIL_LINES = 30
# Below the ports of outgoing connections, so that the port stays free while its server is down.
PORTS = range(20_000, 32_000)


@dataclass
class Server:
    """`flovyn server` with its own configuration."""

    folder: Path
    database_url: str
    limits: dict[str, int]
    grpc_address: str = ""
    _http_address: str = ""
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.grpc_address, self._http_address = _free_addresses(2)
        lines = [
            f"database_url = {json.dumps(self.database_url)}",
            f'grpc.address = "{self.grpc_address}"',
            f'http.address = "{self._http_address}"',
            *(f"limits.{key} = {value}" for key, value in self.limits.items()),
            "[[tenants]]",
            'slug = "outside"',
            "[[tenants.worker_tokens]]",
            'name = "python"',
            f'token = "{TOKEN}"',
        ]
        self._config.write_text("\n".join(lines) + "\n")

    @property
    def _config(self) -> Path:
        return self.folder / "flovyn.toml"

    @property
    def _log(self) -> Path:
        return self.folder / "server.log"

    def start(self) -> None:
        """Starts the server and waits until it reports that it is ready."""
        binary = os.environ[BINARY_VARIABLE]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [binary, "server", "--config", str(self._config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        give_up = time.monotonic() + READY_WITHIN_SECONDS
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > give_up:
                tail = "\n".join(self._log.read_text().splitlines()[-LOG_TAIL_LINES:])
                self.kill()
                raise RuntimeError(f"the server did not become ready:\n{tail}")
            time.sleep(LOOK_EVERY_SECONDS)

    def kill(self) -> None:
        """SIGKILL: the server gets no chance to finish or write anything."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def kill_and_start(self) -> None:
        self.kill()
        self.start()

    def _is_ready(self) -> bool:
        try:
            url = f"http://{self._http_address}/_/health/ready"
            with urllib.request.urlopen(url, timeout=2) as response:
                return bool(response.status == 200)
        except (OSError, urllib.error.URLError):
            return False


@contextmanager
def running(folder: Path, database_url: str, **limits: int) -> Iterator[Server]:
    """A server that ends with the block."""
    server = Server(folder, database_url, limits)
    server.start()
    try:
        yield server
    finally:
        server.kill()


def _free_addresses(count: int) -> list[str]:
    """Free addresses on loopback."""
    begin = os.getpid() % len(PORTS)
    found: list[str] = []
    for step in range(len(PORTS)):
        port = PORTS[(begin + step) % len(PORTS)]
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
        if f"127.0.0.1:{port}" not in _TAKEN:
            found.append(f"127.0.0.1:{port}")
            _TAKEN.add(found[-1])
        if len(found) == count:
            return found
    raise RuntimeError("no port is free")


_TAKEN: set[str] = set()
