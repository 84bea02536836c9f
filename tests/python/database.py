"""Empty databases for the server: a file, or a database of the PostgreSQL that the test run names."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

URL_VARIABLE = "FLOVYN_TEST_POSTGRES"
PROGRAMS_VARIABLE = "FLOVYN_TEST_POSTGRES_PROGRAMS"


def stores() -> list[str]:
    """The databases that this run can use."""
    return ["sqlite", "postgres"] if URL_VARIABLE in os.environ else ["sqlite"]


@contextmanager
def fresh(store: str, name: str, folder: Path) -> Iterator[str]:
    """The URL of an empty database, which is removed at the end."""
    if store == "sqlite":
        yield f"sqlite:{folder / 'flovyn.db'}"
        return
    database = f"flovyn_python_{os.getpid()}_{name}"
    # A killed run with our process id may have left it behind.
    _psql(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")
    _psql(f"CREATE DATABASE {database}")
    try:
        yield urlunsplit(urlsplit(os.environ[URL_VARIABLE])._replace(path=f"/{database}"))
    finally:
        _psql(f"DROP DATABASE {database} WITH (FORCE)")


def _psql(statement: str) -> None:
    path = os.pathsep.join([os.environ.get(PROGRAMS_VARIABLE, ""), os.environ["PATH"]])
    psql = shutil.which("psql", path=path)
    if psql is None:
        raise RuntimeError(f"psql was not found: set {PROGRAMS_VARIABLE} to the folder that holds it")
    subprocess.run([psql, os.environ[URL_VARIABLE], "-qX", "-c", statement], check=True, timeout=60)
