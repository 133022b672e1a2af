"""Small trajectories in each format, as other tools write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from otel_agent_replay.imports.files import read_file
from otel_agent_replay.imports.recording import ImportedRun
from otel_agent_replay.payload.redaction import Redaction

WRITTEN_NS = 1_764_547_200_000_000_000  # 2025-12-01T00:00:00Z


def call(name: str, arguments: dict[str, Any], call_id: str = "call_1") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def desk_messages(*, seat: str = "12A", answer: str = "Booked.") -> list[dict[str, Any]]:
    """A clerk who looks a flight up and books a seat."""
    return [
        {"role": "system", "content": "You are a clerk."},
        {"role": "user", "content": "A seat to Oslo, please."},
        {"role": "assistant", "content": None, "tool_calls": [call("search_direct_flight", {"to": "OSL"})]},
        {"role": "tool", "tool_call_id": "call_1", "name": "search_direct_flight", "content": '{"flights": ["HAT1"]}'},
        {"role": "assistant", "content": "HAT1 is free. Shall I book it?"},
        {"role": "user", "content": "Yes."},
        {"role": "assistant", "content": None, "tool_calls": [call("book_reservation", {"seat": seat})]},
        {"role": "tool", "tool_call_id": "call_1", "name": "book_reservation", "content": '{"id": "R1"}'},
        {"role": "assistant", "content": answer},
    ]


def tau_record(*, task: int = 0, trial: int = 0, reward: float = 1.0, **messages: str) -> dict[str, Any]:
    info = {"task": {"instruction": "You want a seat."}}
    return {"task_id": task, "trial": trial, "reward": reward, "info": info, "traj": desk_messages(**messages)}


def written(folder: Path, name: str, document: Any) -> Path:
    path = folder / name
    path.write_text(document if isinstance(document, str) else json.dumps(document, indent=1), encoding="utf-8")
    return path


def imported(path: Path, from_: str = "auto") -> list[ImportedRun]:
    """Every run in a file, as it would be written."""
    found = read_file(path, from_)
    return [one.build(WRITTEN_NS, Redaction.default()) for one in found.recordings]
