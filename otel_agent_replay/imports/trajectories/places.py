"""Members of records, what tells a record from all others, and times, as files write them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from otel_agent_replay.errors import DamagedRecording

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def mapping_in(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return the object that a member is; an empty one where it is something else."""
    found = value.get(key)
    return found if isinstance(found, Mapping) else {}


def list_in(value: Mapping[str, Any], key: str, place: str) -> list[Any]:
    """Return the list that a member is; empty where it is not there. Raises DamagedRecording for something else."""
    found = value.get(key)
    if found is None:
        return []
    if not isinstance(found, list):
        raise DamagedRecording(f"{place}: {key} is {str(found)[:40]!r}, which is no list")
    return found


def identity_of(*records: Any) -> bytes:
    """Return bytes that are equal for equal JSON values, however they were written in their files."""
    text = json.dumps(records, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).digest()


def nanoseconds(text: Any, place: str) -> int:
    """Return the Unix nanoseconds of an ISO 8601 time, 0 for none; one without a zone is taken as UTC.

    Raises DamagedRecording for text that is no time.

    >>> nanoseconds("2025-05-12T20:28:26.000001-04:00", "here")
    1747096106000001000
    """
    if text is None or text == "":
        return 0
    try:
        moment = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError as error:
        raise DamagedRecording(f"{place}: {str(text)[:40]!r} is no time in ISO 8601") from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1000
