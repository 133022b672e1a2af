"""Whether a case is worth keeping: it rejects its bad run, accepts good ones, and notices what is made wrong. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from otel_agent_replay.gate.case import Case, CaseKind
from otel_agent_replay.gate.manifest import Tampering
from otel_agent_replay.gate.mutants import Mutant, mutants_of
from otel_agent_replay.gate.result import InvariantResult, State
from otel_agent_replay.model import RecordedRun, Word

Judge = Callable[[RecordedRun], Sequence[InvariantResult]]
"""Holds the case's invariants against a run."""


class Worth(Word):
    """What came of a case."""

    SOUND = "sound"
    TAMPERED = "tampered"
    ACCEPTS_BAD = "accepts its bad run"
    REJECTS_GOOD = "rejects a good run"
    UNKNOWN = "cannot judge"


@dataclass(frozen=True, slots=True)
class Held:
    """A run held against the case: its id in hexadecimal, whether it must be rejected, and what came of it."""

    run: str
    bad: bool
    results: Sequence[InvariantResult]

    @property
    def broken(self) -> list[InvariantResult]:
        """The invariants that it breaks."""
        return [one for one in self.results if one.state is State.BROKEN]

    @property
    def unknown(self) -> list[InvariantResult]:
        """The invariants of which the recording does not tell."""
        return [one for one in self.results if one.state is State.UNKNOWN]


@dataclass(frozen=True, slots=True)
class Tried:
    """A mutant, and the invariants that held of its original and are broken by it: none, and it survived."""

    mutant: Mutant
    killed_by: Sequence[str]


@dataclass(frozen=True, slots=True)
class CaseWorth:
    """What came of one case. `mutants` are those of its first good run, or of the recorded one where it has none."""

    case: Case
    worth: Worth
    tampering: Sequence[Tampering] = ()
    added: Sequence[str] = ()
    held: Sequence[Held] = ()
    mutants: Sequence[Tried] = ()

    @property
    def killed(self) -> int:
        """How many mutants were noticed."""
        return sum(1 for one in self.mutants if one.killed_by)

    @property
    def survived(self) -> list[Mutant]:
        """The mutants that nothing in the case notices."""
        return [one.mutant for one in self.mutants if not one.killed_by]


def worth_of(held: Sequence[Held], tampering: Sequence[Tampering]) -> Worth:
    """Return what came of a case whose runs were held against it."""
    if tampering:
        return Worth.TAMPERED
    if any(one.broken for one in held if not one.bad):
        return Worth.REJECTS_GOOD
    bad = [one for one in held if one.bad]
    if any(not one.broken and not one.unknown for one in bad):
        return Worth.ACCEPTS_BAD
    undecided = any(not one.broken for one in bad) or any(one.unknown for one in held if not one.bad)
    return Worth.UNKNOWN if undecided or not held else Worth.SOUND


def is_bad(case: Case) -> bool:
    """Whether the recorded run of the case must be rejected."""
    return case.kind is CaseKind.BAD


def try_mutants(
    original: RecordedRun, results: Sequence[InvariantResult], judge: Judge, *, most: int = 200
) -> list[Tried]:
    """Return the mutants of a run, each with what of the case notices it. `results` are those of the run itself."""
    held = {one.invariant.name for one in results if one.holds}
    return [Tried(mutant, list(_broken(judge(mutant.recorded), held))) for mutant in mutants_of(original, most=most)]


def _broken(results: Iterable[InvariantResult], held: set[str]) -> Iterable[str]:
    return (one.invariant.name for one in results if one.state is State.BROKEN and one.invariant.name in held)
