"""A re-run's plan: what is changed, who may answer, how much it may use. Data that travels in a file to its process."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.protocols.request_edits import RequestEdits
from otel_agent_replay.replay.ask.candidate import Candidate as Asked
from otel_agent_replay.replay.spending import Spending

OBSERVED, BASELINE, CANDIDATE = "observed", "baseline", "candidate"
"""The lanes: production as it was recorded, the same version once more, the new one."""

EVERYTHING = "*"
"""Stands, among the stubs, for every crossing that is not to be live by its name."""

_AGE = re.compile(r"(\d+)(s|m|h|d)\Z")
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True, slots=True)
class Candidate:
    """Another way to the model: `model` asked for, `base_url` of its endpoint, `key` the variable that holds its key.

    Empty text: as the agent does it. `price` is what it costs, US dollars a million tokens given and made, where the
    known prices do not count.
    """

    model: str = ""
    base_url: str = ""
    key: str = ""
    price: tuple[float, float] | None = None

    @classmethod
    def parse(cls, text: str) -> Candidate:
        """Return the candidate of `model=NEW,base_url=URL,key_env=NAME,price=IN/OUT`; the form is `ask`'s.

        Raises ConfigurationError for anything else, and for `api=`: a re-run speaks what the agent's client speaks.
        """
        given = Asked.from_arguments(text, read=str)
        if given.protocol:
            raise ConfigurationError(f"api= is nothing for a re-run: the agent's own client speaks there ({text!r})")
        price = None if given.price is None else (given.price.input_usd, given.price.output_usd)
        return cls(given.edits.model or "", given.base_url, given.key_variable, price)

    def told(self) -> list[str]:
        """Return what it is, one `name=value` each; of the key only that there is one."""
        shown = {"model": self.model, "base_url": self.base_url}
        return [f"{name}={value}" for name, value in shown.items() if value] + (["key"] if self.key else [])


@dataclass(frozen=True, slots=True)
class RerunPlan:
    """How one run is run again.

    `candidate` and `edits` change its model requests. `live` are names of crossings that are asked live although they
    are reads, `stub` those that never are (`*`: all others). `pool` are the ids (hex) of runs that may answer reads,
    not older than `pool_age_ns`; `own_worlds` tells that each run had a world of its own. The user's further turns
    come from `script` (JSON values), else from the function `simulator` (`pkg.mod:func`). `seed` draws what the tape
    has not, `live_clock` makes clocks show today. `lane` and `repeat` (from 1) say which re-run of the run this is.
    """

    lane: str = CANDIDATE
    repeat: int = 1
    candidate: Candidate = field(default_factory=Candidate)
    edits: RequestEdits = field(default_factory=RequestEdits)
    live: tuple[str, ...] = ()
    stub: tuple[str, ...] = ()
    pool: tuple[str, ...] = ()
    pool_age_ns: int | None = None
    own_worlds: bool = False
    script: tuple[Any, ...] | None = None
    simulator: str = ""
    seed: str = "rerun"
    live_clock: bool = False
    spending: Spending = field(default_factory=Spending)

    def __post_init__(self) -> None:
        both = sorted(set(self.live) & set(self.stub))
        if both:
            raise ConfigurationError(f"{both[0]!r} is to be live and to be stubbed: say one of the two")

    def told(self) -> list[str]:
        """Return what is changed, one line each; [] for a baseline."""
        parts = [part for part in self.edits.parts if part != "model"]
        return [*self.candidate.told(), *(f"edited: {part}" for part in parts)]

    def to_json(self) -> str:
        """Return the plan as JSON."""
        return json.dumps({**asdict(self), "edits": self.edits.to_json()})

    def write(self, path: Path) -> None:
        """Write it to a file."""
        path.write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> RerunPlan:
        """Return the plan in a file. Raises ConfigurationError."""
        try:
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            values: dict[str, Any] = {
                name: tuple(value) if isinstance(value, list) else value for name, value in found.items()
            }
            price = found["candidate"]["price"]
            values["candidate"] = Candidate(**{**found["candidate"], "price": None if price is None else tuple(price)})
            values["edits"] = RequestEdits.from_json(found["edits"])
            values["spending"] = Spending(**found["spending"])
            return cls(**values)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigurationError(f"{path} is no plan of a re-run: {error}") from error


def edits_of(
    candidate: Candidate, settings: Sequence[str], prompt: str | None, *, read: Callable[[str], str]
) -> RequestEdits:
    """Return the edits that a candidate, `--set` and `--prompt` make. Raises ConfigurationError."""
    given = [*settings, *([f"prompt={prompt}"] if prompt is not None else [])]
    if candidate.model:
        if any(one.startswith("model=") for one in settings):
            raise ConfigurationError("the model is given by --candidate and by --set: say it once")
        given.append(f"model={candidate.model}")
    return RequestEdits.from_arguments(given, read=read) if given else RequestEdits()


def age_ns(text: str) -> int:
    """Return the nanoseconds of `90s`, `30m`, `12h` or `7d`. Raises ConfigurationError."""
    match = _AGE.match(text.strip())
    if match is None:
        raise ConfigurationError(f"an age is a number with s, m, h or d behind it, like 12h, not {text!r}")
    return int(match[1]) * _UNITS_S[match[2]] * 1_000_000_000


def script_of(text: str) -> tuple[Any, ...]:
    """Return the user's turns of a script: a JSON array of values, or plain text, a turn a line."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if isinstance(value, list):
        return tuple(value)
    return tuple(line for line in text.splitlines() if line.strip())
