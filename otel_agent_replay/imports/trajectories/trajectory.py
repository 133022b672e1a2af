"""An agent's trajectory as a file tells it: turns in order, before they become the steps of a run. Pure data.

Readers of formats make these, `recorded` makes runs of them. Times are Unix nanoseconds, 0 where a file does not tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

from otel_agent_replay.model import AttributeValue, Fidelity, RunStatus, SideEffect

CHAT = "openai.chat_completions"
"""Protocol whose form messages are kept in, whatever the provider behind them spoke."""


@dataclass(frozen=True, slots=True)
class Beginning(Sequence[Any]):
    """The first `length` elements of a list that goes on: every request repeats the messages before it."""

    of: Sequence[Any]
    length: int

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        """Return an element, or a list of several."""
        if isinstance(index, slice):
            return [self.of[place] for place in range(*index.indices(self.length))]
        return self.of[range(self.length)[index]]


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """A model asked with all messages before it. `request` and `answer` are JSON objects in the form of `protocol`.

    The messages of `request` may be a `Beginning`.

    `answer` is None where none came; `error` says why. `agent` is who asked, where several speak. `facts` are span
    attributes that the file tells beside the two (cost).
    """

    request: Mapping[str, Any]
    answer: Mapping[str, Any] | None
    model: str = ""
    agent: str = ""
    protocol: str = CHAT
    fidelity: Fidelity = Fidelity.MESSAGES
    facts: Mapping[str, AttributeValue] = field(default_factory=dict)
    error: str = ""
    begun_ns: int = 0
    ended_ns: int = 0


@dataclass(frozen=True, slots=True)
class ToolTurn:
    """A tool called: `arguments` and `result` are JSON values. `answered` is False where the file has no result.

    `takes_ns` is how long it took where only that is told.
    """

    name: str
    arguments: Any
    result: Any = None
    call_id: str = ""
    side_effect: SideEffect = SideEffect.EXTERNAL
    error: str = ""
    answered: bool = True
    begun_ns: int = 0
    ended_ns: int = 0
    takes_ns: int = 0


@dataclass(frozen=True, slots=True)
class UserTurn:
    """What the user said next; `after` is what the agent had said last, None at the beginning."""

    said: Any
    after: Any = None
    begun_ns: int = 0
    ended_ns: int = 0


@dataclass(frozen=True, slots=True)
class ScopeTurn:
    """A named part of the run with turns of its own: a sub-agent, a solver."""

    name: str
    turns: Sequence[Turn]
    begun_ns: int = 0
    ended_ns: int = 0


Turn = ModelTurn | ToolTurn | UserTurn | ScopeTurn


@dataclass(frozen=True, slots=True)
class Said:
    """What the file says of a run beside its steps (a reward, a task): it becomes a label of that name."""

    name: str
    value: AttributeValue
    note: str = ""


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One run. `identity` are bytes that tell it from all others: its record in the file.

    `told` become labels, `gaps` entries of the coverage report: what the file does not tell, and why.
    """

    format: str
    place: str
    identity: bytes
    agent: str
    turns: Sequence[Turn]
    input: Any = None
    output: Any = None
    status: RunStatus = RunStatus.OK
    error: str = ""
    started_ns: int = 0
    ended_ns: int = 0
    model: str = ""
    told: Sequence[Said] = ()
    gaps: Mapping[str, str] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)
    code: str = ""

    def all_turns(self) -> Iterator[Turn]:
        """Yield every turn, scopes before what lies in them."""
        waiting = list(reversed(self.turns))
        while waiting:
            turn = waiting.pop()
            yield turn
            if isinstance(turn, ScopeTurn):
                waiting.extend(reversed(turn.turns))
