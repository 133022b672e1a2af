"""A component case: what of `case.yaml` prepares the answers of a run, and says what must come out.

Pure but for reading the folder's files. Nothing is imported, and no file outside the folder is read.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from otel_agent_replay.casefile.document import CASE_FILE, CaseDocument, schema
from otel_agent_replay.casefile.duration import duration_ns
from otel_agent_replay.casefile.transitions import Transitions
from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.model import Kind

__all__ = [
    "CASE_FILE",
    "Attempt",
    "Begun",
    "CallBack",
    "Case",
    "Fixture",
    "Transitions",
    "attempt_of",
    "duration_ns",
    "schema",
]

EVENTS_FILE = "events.yaml"
KINDS = {
    kind.value: kind
    for kind in (Kind.MODEL, Kind.HTTP, Kind.TOOL, Kind.RETRIEVAL, Kind.DECISION, Kind.APPROVAL, Kind.INPUT)
}
"""The kinds of crossings that fixtures answer, by the key that names them in a case."""

DEFAULT_START = "2026-01-01T00:00:00Z"
DEFAULT_MAX_STEPS = 10_000
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_BESIDE = frozenset(("takes", "raises", "begins", "calls_back"))


@dataclass(frozen=True, slots=True)
class Begun:
    """An operation that a call begins; it is complete `completes_after_ns` nanoseconds later."""

    operation: str
    completes_after_ns: int = 0


@dataclass(frozen=True, slots=True)
class CallBack:
    """A function of the application (`pkg.mod:func`) that is called `after_ns` nanoseconds after the call began."""

    entry: str
    arguments: Mapping[str, Any]
    after_ns: int


@dataclass(frozen=True, slots=True)
class Attempt:
    """One prepared answer. `shape` names its form, `given` is what the case says of it.

    The answer comes `takes_ns` nanoseconds after the call; `raises` is the class of the error that a declared function
    gets ("": the shape's own).
    """

    shape: str
    given: Any
    takes_ns: int = 0
    raises: str = ""
    begins: Begun | None = None
    calls_back: CallBack | None = None


@dataclass(frozen=True, slots=True)
class Fixture:
    """What answers the calls of one kind and name (`*` fits any part), one attempt a call.

    `arguments` must be found in the call's; with `repeat` the last attempt answers all later calls. `effect` tells
    whether its calls change something (None: as they declare). `number` is its place in the case, from 1.
    """

    number: int
    kind: Kind
    name: str
    attempts: Sequence[Attempt]
    arguments: Mapping[str, Any] | None = None
    repeat: bool = False
    effect: bool | None = None

    @property
    def label(self) -> str:
        """What errors and event logs call it."""
        return f"{self.kind.value} {self.name}"


@dataclass(frozen=True, slots=True)
class Case:
    """One case. `folder` is where its files lie, `expect` what the case file says must come out."""

    folder: Path
    entry: str
    input: Mapping[str, Any] = field(default_factory=dict)
    about: str = ""
    seed: str = "1"
    start_ns: int = 0
    ahead_s: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)
    max_steps: int = DEFAULT_MAX_STEPS
    fixtures: Sequence[Fixture] = ()
    transitions: Transitions = field(default_factory=Transitions)
    at_most_once: bool = True
    expect: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: Path | str) -> Case:
        """Read the case in `folder` (or the `case.yaml` itself). Raises ConfigurationError saying where it is wrong."""
        return cls._of(CaseDocument.load(folder))

    @classmethod
    def of(cls, document: Any, folder: Path) -> Case:
        """Return the case of a document as YAML or JSON gives it; files that it names lie in `folder`."""
        return cls._of(CaseDocument.of(document, folder))

    @classmethod
    def _of(cls, given: CaseDocument) -> Case:
        document, folder = given.content, given.folder
        if "entry" not in document:
            raise given.wrong("'entry' is missing: a component run needs the orchestrator, pkg.mod:func")
        clock = document.get("clock", {})
        return cls(
            folder=folder,
            entry=document["entry"],
            input=document.get("input", {}),
            about=document.get("about", ""),
            seed=str(document.get("seed", "1")),
            start_ns=_moment_ns(clock.get("start", DEFAULT_START), folder),
            ahead_s=_ahead_s(clock.get("zone", "+00:00")),
            environment=document.get("environment", {}),
            max_steps=document.get("max_steps", DEFAULT_MAX_STEPS),
            fixtures=[_fixture(number, one) for number, one in enumerate(document.get("fixtures", ()), 1)],
            transitions=Transitions.of(given.section("transitions")),
            at_most_once=bool(given.section("effects").get("at_most_once", True)),
            expect=document.get("expect", {}),
        )

    def file(self, name: str) -> Path:
        """Return the path of a file that the case names. Raises ConfigurationError for one outside its folder."""
        return CaseDocument(self.folder, {}).file(name)

    def read(self, name: str) -> bytes:
        """Return the bytes of a file that the case names. Raises ConfigurationError."""
        try:
            return self.file(name).read_bytes()
        except OSError as error:
            raise ConfigurationError(f"cannot read {name!r} of the case {self.folder}: {error.strerror}") from error

    @property
    def events_file(self) -> Path | None:
        """The file that holds the expected event log; None where the case has it inline."""
        named = self.expect.get("events", EVENTS_FILE)
        return self.file(named) if isinstance(named, str) else None


def attempt_of(given: Mapping[str, Any]) -> Attempt:
    """Return the attempt of a mapping that fits the schema."""
    shape = next(name for name in given if name not in _BESIDE)
    begins, back = given.get("begins"), given.get("calls_back")
    return Attempt(
        shape,
        given[shape],
        duration_ns(given.get("takes", 0)),
        given.get("raises", ""),
        None if begins is None else Begun(begins["operation"], duration_ns(begins.get("completes_after", 0))),
        None if back is None else CallBack(back["entry"], back.get("arguments", {}), duration_ns(back.get("after", 0))),
    )


def _fixture(number: int, given: Mapping[str, Any]) -> Fixture:
    kind = next(name for name in given if name in KINDS)
    attempts = [attempt_of(one) for one in given["attempts"]]
    repeat, effect = given.get("repeat", False), given.get("effect")
    return Fixture(number, KINDS[kind], given[kind], attempts, given.get("arguments"), repeat, effect)


def _moment_ns(text: str, folder: Path) -> int:
    try:
        moment = dt.datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError as error:
        raise ConfigurationError(f"{folder / CASE_FILE} is wrong: clock.start: {error}") from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=dt.timezone.utc)
    return (moment - _EPOCH) // dt.timedelta(microseconds=1) * 1000


def _ahead_s(text: str) -> int:
    hours, minutes = text[1:].split(":")
    return (-1 if text[0] == "-" else 1) * (int(hours) * 3600 + int(minutes) * 60)
