"""A new case cut from a recorded run: the chosen steps become fixtures that hold the real bytes.

Owns what a recorded exchange looks like as a fixture. The recording is only read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from otel_agent_replay.casefile.yaml_text import document
from otel_agent_replay.errors import CannotJudge, ConfigurationError
from otel_agent_replay.model import Failure, Kind, Node, Outcome, OutcomeStatus, Payload, RecordedRun
from otel_agent_replay.replay.component.case import CASE_FILE, KINDS, Case

_FOLDER = "fixtures"
_DECLARED = re.compile(r"(?!__main__)[\w.]+:[\w.]+\Z")
_SPECIAL = re.compile(r"([*?\[])")
_MOST_PIECES = 2_000
_WHOLE = frozenset((OutcomeStatus.OK, OutcomeStatus.ERROR))
_PLACEHOLDER = "your.module:function"


def cut_case(recorded: RecordedRun, steps: Sequence[int], into: Path) -> list[Path]:
    """Write a case with the answers of `steps` into the folder `into`; return the files written.

    Raises ConfigurationError for a folder that holds a case already and for steps that are no prepared answers,
    CannotJudge where the recording does not hold an answer whole.
    """
    if (into / CASE_FILE).exists():
        raise ConfigurationError(f"{into / CASE_FILE} is there already: cut into another folder, and merge by hand")
    cut = _Cut(recorded, into)
    fixtures = cut.fixtures(steps)
    case: dict[str, Any] = {
        "about": f"Cut from run {recorded.run.run_id.hex()} of agent {recorded.run.agent}.",
        "entry": recorded.run.entry if _DECLARED.match(recorded.run.entry) else _PLACEHOLDER,
        "input": cut.input(),
        "fixtures": fixtures,
    }
    Case.of(json.loads(json.dumps(case)), into)
    into.mkdir(parents=True, exist_ok=True)
    for path, data in cut.files.items():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    (into / CASE_FILE).write_text(document(case), encoding="utf-8")
    return [into / CASE_FILE, *cut.files]


class _Cut:
    """Takes answers out of one run; `files` are what belongs beside the case, by path."""

    def __init__(self, recorded: RecordedRun, into: Path) -> None:
        self.files: dict[Path, bytes] = {}
        self._recorded = recorded
        self._into = into

    def input(self) -> dict[str, Any]:
        """Return the run's arguments by name, {} where they are no plain values."""
        request = self._recorded.input
        given = None if request is None else _plain(self._data(request))
        return given if isinstance(given, dict) and "*args" not in given else {}

    def fixtures(self, steps: Sequence[int]) -> list[dict[str, Any]]:
        """Return the fixtures of the chosen steps, equal calls together, in the order of their first."""
        found: dict[str, dict[str, Any]] = {}
        for step in sorted(set(steps)):
            node, took_ns = self._node(step)
            head = self._head(node)
            fixture = found.setdefault(json.dumps(head, sort_keys=True), {**head, "attempts": []})
            attempt = self._attempt(node)
            if took_ns > 0:
                attempt["takes"] = round(took_ns / 1e9, 3)
            fixture["attempts"].append(attempt)
        return list(found.values())

    def _node(self, step: int) -> tuple[Node, int]:
        for item in self._recorded.spans:
            node = item.node
            if node is not None and node.step == step:
                if node.kind.value not in KINDS or node.call is None:
                    raise ConfigurationError(f"step {step} is a {node.kind.value}: only calls are answered by fixtures")
                return node, item.span.end_ns - item.span.start_ns
        raise ConfigurationError(f"run {self._recorded.run.run_id.hex()} has no step {step}")

    def _head(self, node: Node) -> dict[str, Any]:
        """Return what tells whose fixture it is; declared functions by their arguments too."""
        head: dict[str, Any] = {node.kind.value: _SPECIAL.sub(r"[\1]", node.name)}
        if node.kind not in (Kind.MODEL, Kind.HTTP) and node.call is not None:
            arguments = _plain(self._data(node.call.request))
            if isinstance(arguments, dict) and arguments:
                head["arguments"] = arguments
        return head

    def _attempt(self, node: Node) -> dict[str, Any]:
        outcome = node.outcome
        if outcome is None or outcome.status not in _WHOLE:
            raise CannotJudge(f"step {node.step} never ended: there is no answer to take")
        if outcome.head is not None:
            return {"response": self._response(node, outcome)}
        if outcome.failure is not None:
            return {"error": self._error(node, outcome.failure)}
        data = b"null" if outcome.result is None else self._needed(node, outcome.result)
        value = _plain(data)
        if value is not None or data == b"null":
            return {"value": value}
        return {"value_file": self._file(node, "value.json", data)}

    def _response(self, node: Node, outcome: Outcome) -> dict[str, Any]:
        head = outcome.head
        if head is None:
            raise AssertionError("only an answer over HTTP is a response")
        response: dict[str, Any] = {"status": head.status, "headers": [[name, value] for name, value in head.headers]}
        if outcome.result is not None and outcome.result.size:
            response["body_file"] = self._file(node, "body", self._needed(node, outcome.result))
        sizes = [chunk.size for chunk in outcome.chunks if chunk.size]
        if 1 < len(sizes) <= _MOST_PIECES:
            response["pieces"] = sizes
        if outcome.failure is not None:
            response["error"] = self._error(node, outcome.failure)
        return response

    def _error(self, node: Node, failure: Failure) -> dict[str, Any]:
        error: dict[str, Any] = {"type": failure.type, "message": failure.message}
        if failure.state is not None:
            error["state_file"] = self._file(node, "error.json", failure.state)
        return error

    def _file(self, node: Node, what: str, data: bytes) -> str:
        name = f"{_FOLDER}/step-{node.step}.{what}"
        self.files[self._into / name] = data
        return name

    def _needed(self, node: Node, payload: Payload) -> bytes:
        data = self._data(payload)
        if data is None:
            raise CannotJudge(f"the answer of step {node.step} was not kept whole: it cannot be a fixture")
        return data

    def _data(self, payload: Payload) -> bytes | None:
        if payload.data is not None:
            return payload.data
        return self._recorded.payload(payload.digest) if payload.size else b""


def _plain(data: bytes | None) -> Any:
    """Return what typed JSON holds if it is plain JSON, else None."""
    if not data or b'"$type"' in data:
        return None
    try:
        return json.loads(data)
    except ValueError:
        return None
