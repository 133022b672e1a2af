"""Logs of Inspect (inspect_ai): `{version, status, eval, samples}`, each sample a run; `.eval` is a zip of the same.

A sample with events is read from them, one without from its messages. Where an event kept what went over the wire, the
step has that (fidelity `exchange`), else messages. A list of events without a log around it is read as one run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from otel_agent_replay.errors import DamagedRecording
from otel_agent_replay.imports.trajectories.chat_messages import Message, last_text, turns_of
from otel_agent_replay.imports.trajectories.inspect_events import EventReader
from otel_agent_replay.imports.trajectories.inspect_messages import Attachments, chat_form
from otel_agent_replay.imports.trajectories.places import identity_of, list_in, mapping_in
from otel_agent_replay.imports.trajectories.trajectory import ModelTurn, Said, ToolTurn, Trajectory, Turn, UserTurn
from otel_agent_replay.model import RunStatus

NAME = "inspect"


def recognises(document: Any) -> bool:
    """Whether a parsed file is such a log, or a list of its events."""
    if not isinstance(document, Mapping):
        return False
    return _is_log(document) or _is_event_list(document)


def read(document: Any, source: str) -> Iterator[Trajectory]:
    """Yield a trajectory for each sample. Raises DamagedRecording for a file that is no log, or has no sample."""
    if not recognises(document):
        raise DamagedRecording(f"{source} is no log of Inspect: version, status and eval are wanted")
    if _is_event_list(document):
        yield _of_sample({"events": document["events"]}, {}, source)
        return
    samples = document.get("samples")
    if not isinstance(samples, list) or not samples:
        raise DamagedRecording(f"{source} is a log of Inspect without samples: there is nothing to import")
    for number, sample in enumerate(samples):
        if not isinstance(sample, Mapping):
            raise DamagedRecording(f"{source}#{number} is no sample: {str(sample)[:60]!r}")
        yield _of_sample(sample, document["eval"], f"{source}#{number}")


def _is_log(document: Mapping[str, Any]) -> bool:
    return {"version", "status", "eval"} <= document.keys() and isinstance(document["eval"], Mapping)


def _is_event_list(document: Mapping[str, Any]) -> bool:
    events = document.get("events")
    return (
        isinstance(events, list)
        and any(isinstance(event, Mapping) and event.get("event") == "model" for event in events)
        and "messages" not in document
    )


def _of_sample(sample: Mapping[str, Any], task: Mapping[str, Any], place: str) -> Trajectory:
    transcript = mapping_in(sample, "transcript")
    attachments = Attachments({**mapping_in(transcript, "content"), **mapping_in(sample, "attachments")})
    whole = attachments.put_back(sample)
    reader = EventReader(list_in(whole, "message_pool", place), place)
    events = list_in(whole, "events", place) or list_in(mapping_in(whole, "transcript"), "events", place)
    turns = reader.turns(events)
    messages = [
        Message(chat_form(given, f"{place} messages[{number}]"), error=_error(given))
        for number, given in enumerate(list_in(whole, "messages", place))
    ]
    model = str(task.get("model") or "")
    if any(isinstance(turn, (ModelTurn, ToolTurn)) for turn in _flat(turns)):
        turns = [*_asked(whole.get("input")), *turns]
    else:
        turns = turns_of(messages, model=model)
    failure = whole.get("error")
    revision = mapping_in(task, "revision")
    left = ", ".join(f"{count} {kind}" for kind, count in sorted(reader.left.items()))
    return Trajectory(
        NAME,
        place,
        identity_of(sample, task.get("run_id"), task.get("task_id")),
        str(task.get("task") or NAME),
        turns,
        input=whole.get("input"),
        output=last_text(messages),
        status=RunStatus.ERROR if failure else RunStatus.ABORTED if whole.get("limit") else RunStatus.OK,
        error=str(failure.get("message") if isinstance(failure, Mapping) else failure) if failure else "",
        started_ns=reader.first_ns,
        ended_ns=reader.last_ns,
        model=model,
        told=list(_told(whole, task)),
        gaps={"events of Inspect": f"not read: {left}"} if left else {},
        packages={name: str(version) for name, version in mapping_in(task, "packages").items()},
        code=str(revision.get("commit") or ""),
    )


def _flat(turns: list[Turn]) -> Iterator[Turn]:
    return Trajectory(NAME, "", b"", "", turns).all_turns()


def _asked(given: Any) -> Iterator[UserTurn]:
    if isinstance(given, str):
        yield UserTurn(given)
    for message in given if isinstance(given, list) else ():
        if isinstance(message, Mapping) and message.get("role") == "user":
            yield UserTurn(message.get("content"))


def _error(given: Any) -> str:
    error = given.get("error") if isinstance(given, Mapping) else None
    return str(error.get("message") or error.get("type")) if isinstance(error, Mapping) else ""


def _told(sample: Mapping[str, Any], task: Mapping[str, Any]) -> Iterator[Said]:
    if task.get("task"):
        yield Said("task", str(task["task"]))
    for name, label in (("id", "sample"), ("epoch", "trial")):
        if isinstance(sample.get(name), (int, str)):
            yield Said(label, sample[name])
    for name, score in mapping_in(sample, "scores").items():
        value = score.get("value") if isinstance(score, Mapping) else score
        kept = value if isinstance(value, (int, float, str)) else json.dumps(value)
        yield Said(f"score.{name}", kept, str((isinstance(score, Mapping) and score.get("explanation")) or ""))
