"""Results of tau-bench (github.com/sierra-research/tau-bench): a list of `{task_id, trial, reward, info, traj}`.

`traj` is a list of Chat Completions messages. No times, no usage, no name of the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from otel_agent_replay.errors import DamagedRecording
from otel_agent_replay.imports.trajectories.chat_messages import Message, chat_message, last_text, turns_of
from otel_agent_replay.imports.trajectories.places import identity_of
from otel_agent_replay.imports.trajectories.tau_tools import tau_effect
from otel_agent_replay.imports.trajectories.trajectory import Said, Trajectory
from otel_agent_replay.model import RunStatus

NAME = "tau-bench"
_GAPS = {"model": "the file does not name it", "usage": "the file has no tokens and no cost"}


def recognises(document: Any) -> bool:
    """Whether a parsed file is such a list."""
    return isinstance(document, list) and bool(document) and all(_is_record(record) for record in document)


def read(document: Any, source: str) -> Iterator[Trajectory]:
    """Yield a trajectory for each record. Raises DamagedRecording, naming the record, for one that is none."""
    if not recognises(document):
        raise DamagedRecording(f"{source} is no result of {NAME}: a list of records with task_id and traj is wanted")
    for number, record in enumerate(document):
        place = f"{source}#{number}"
        messages = [
            Message(chat_message(given, f"{place} traj[{index}]")) for index, given in enumerate(record["traj"])
        ]
        info = record.get("info")
        task = info.get("task") if isinstance(info, Mapping) else None
        instruction = task.get("instruction") if isinstance(task, Mapping) else None
        told = [Said("task", str(record["task_id"])), Said("trial", record.get("trial"))]
        told += [Said("reward", float(record["reward"]))] if isinstance(record.get("reward"), (int, float)) else []
        yield Trajectory(
            NAME,
            place,
            identity_of(record),
            NAME,
            turns_of(messages, effects=tau_effect),
            input={"task_id": record["task_id"], **({} if instruction is None else {"instruction": instruction})},
            output=last_text(messages),
            status=RunStatus.ERROR if isinstance(info, Mapping) and info.get("error") else RunStatus.OK,
            error=str(info["error"]) if isinstance(info, Mapping) and info.get("error") else "",
            told=[said for said in told if said.value is not None],
            gaps=_GAPS,
        )


def _is_record(record: Any) -> bool:
    return isinstance(record, Mapping) and "task_id" in record and isinstance(record.get("traj"), list)
