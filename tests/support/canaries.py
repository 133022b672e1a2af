"""Planted secrets and where they turn up: every file of a folder, as it lies and decoded, in every usual disguise."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.support.journal_files import records_in


def disguises(secret: str) -> set[bytes]:
    """Return the forms that hold `secret`: plain, in base64 at each alignment, in hexadecimal."""
    plain = secret.encode()
    forms = {plain, plain.hex().encode()}
    for ahead in range(3):
        packed = base64.b64encode(b"\0" * ahead + plain)
        forms.add(packed[4 if ahead else 0 :].rstrip(b"=")[:-2])  # without what its neighbours share
    return forms


def found_in(data: bytes, secrets: Mapping[str, str]) -> set[str]:
    """Return the names of the secrets that `data` holds in any form."""
    return {name for name, secret in secrets.items() if any(form in data for form in disguises(secret))}


def found_in_folder(folder: Path, secrets: Mapping[str, str]) -> dict[str, set[str]]:
    """Return what is found in each file below `folder`, by path."""
    found: dict[str, set[str]] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            names = set().union(*(found_in(data, secrets) for data in _contents(path)))
            if names:
                found[str(path.relative_to(folder))] = names
    return found


def _contents(path: Path) -> Iterator[bytes]:
    yield path.read_bytes()
    if path.suffix == ".log":
        for record in records_in(path):
            yield str(record).encode()
            yield from _leaves(record)
    elif path.suffix == ".parquet":
        for row in pq.read_table(path).to_pylist():
            yield from _leaves(row)


def _leaves(value: Any) -> Iterator[bytes]:
    """Yield every text and bytes inside decoded rows and protobuf messages."""
    if isinstance(value, bytes):
        yield value
    elif isinstance(value, str):
        yield value.encode("utf-8", "surrogatepass")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(key)
            yield from _leaves(item)
    elif hasattr(value, "ListFields"):
        for _, item in value.ListFields():
            yield from _leaves(item)
    elif isinstance(value, (list, tuple)) or hasattr(value, "__iter__"):
        for item in value:
            yield from _leaves(item)
    elif value is not None:
        yield json.dumps(value, default=str).encode()
