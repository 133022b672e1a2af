"""One exchange through its parsers again: whether they read the same, and the same in every chunking.

Only what was looked at is called the same: keys that one side does not have are named as not compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from otel_agent_replay.model import WireExchange
from otel_agent_replay.payload.difference import Difference, differences
from otel_agent_replay.protocols import MESSAGE_KEYS, Folded, Protocol, message_json
from otel_agent_replay.replay.protocol.chunkings import Chunking, chunking, pieces, smallest
from otel_agent_replay.replay.protocol.parsers import OURS, RAISED, Parser, our_parser

AS_RECORDED = -1
"""The number of the chunking that the recording itself holds."""


@dataclass(frozen=True, slots=True)
class Rechunked:
    """What became of cutting the body in other ways for one parser: `count` ways were tried.

    Where one gave another value than the whole body, `cuts` is the least of it that still does, `number` which one it
    was (`AS_RECORDED`: the recorded pieces) and `differences` what it gave, whole body first. Empty `cuts` then mean
    that the parser does not give the same twice.
    """

    parser: str
    count: int
    number: int | None = None
    cuts: Chunking = ()
    differences: Sequence[Difference] = ()

    @property
    def same(self) -> bool:
        """Whether every chunking gave the same."""
        return self.number is None


@dataclass(frozen=True, slots=True)
class Compared:
    """Two parsers on one body: where they differ, and the keys that only one of them has."""

    left: str
    right: str
    differences: Sequence[Difference] = ()
    not_compared: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Judged:
    """One exchange: the value of each parser by its name, how they compare, and how each took other chunkings.

    `folded` is our own reduction, None where the protocol is unknown (""). `streamed` tells that its body is cut into
    events as it comes; one that is a single value is kept until its end. `unjudged` says why two parsers could not be
    held against each other, "" where they were, or nobody asked.
    """

    exchange: WireExchange
    protocol: str
    folded: Folded | None
    streamed: bool
    values: Mapping[str, Any]
    compared: Sequence[Compared] = ()
    rechunked: Sequence[Rechunked] = ()
    unjudged: str = ""

    @property
    def same(self) -> bool:
        """Whether nothing that was looked at differs."""
        return all(item.same for item in self.rechunked) and not any(pair.differences for pair in self.compared)


def judge(
    exchange: WireExchange,
    protocol: Protocol | None,
    adapters: Sequence[Parser] = (),
    *,
    rechunk: int = 0,
    seed: int = 0,
    tell: Callable[[], None] = lambda: None,
) -> Judged:
    """Read `exchange` by our reduction of `protocol` (none where it is None) and by each of `adapters`.

    One adapter is held against ours; several, each against the first. With `rechunk` every parser reads that many
    cuttings of the body too, drawn from `seed`; `tell` is called after each. The recorded pieces are always read.
    """
    folded = None if protocol is None else protocol.fold(exchange.body, exchange.media_type, exchange.status)
    parsers = [*([] if protocol is None else [our_parser(protocol)]), *adapters]
    values = {} if folded is None else {OURS: message_json(folded)}
    values |= {parser.name: parser.read(exchange, [exchange.body]) for parser in adapters}
    compared, unjudged = _compare(values, [parser.name for parser in adapters])
    cuttings: list[tuple[int, Chunking]] = [(AS_RECORDED, exchange.cuts)] if exchange.cuts else []
    cuttings += [(number, chunking(exchange.body, number, seed)) for number in range(rechunk)]
    rechunked = [_rechunk(exchange, parser, values[parser.name], cuttings, tell) for parser in parsers if cuttings]
    return Judged(
        exchange=exchange,
        protocol="" if protocol is None else protocol.name,
        folded=folded,
        streamed=protocol is not None and protocol.framing(exchange.body[:64], exchange.media_type) is not None,
        values=values,
        compared=compared,
        rechunked=rechunked,
        unjudged=unjudged,
    )


def _rechunk(
    exchange: WireExchange,
    parser: Parser,
    whole: Any,
    cuttings: Sequence[tuple[int, Chunking]],
    tell: Callable[[], None],
) -> Rechunked:
    def read(cuts: Chunking) -> Any:
        return parser.read(exchange, pieces(exchange.body, cuts))

    for done, (number, cuts) in enumerate(cuttings, 1):
        if differences(whole, read(cuts), limit=1):
            least = smallest(cuts, lambda fewer: bool(differences(whole, read(fewer), limit=1)))
            return Rechunked(parser.name, done, number, least, differences(whole, read(least)))
        tell()
    return Rechunked(parser.name, len(cuttings))


def _compare(values: Mapping[str, Any], adapters: Sequence[str]) -> tuple[list[Compared], str]:
    if not adapters:
        return [], ""
    if len(adapters) > 1:
        first = adapters[0]
        return [Compared(first, name, differences(values[first], values[name])) for name in adapters[1:]], ""
    name = adapters[0]
    if OURS not in values:
        return [], f"the API is unknown, so there is nothing of ours to hold {name} against; name it with --api"
    ours, theirs = values[OURS], values[name]
    if isinstance(theirs, dict) and theirs.keys() == {RAISED}:
        return [Compared(OURS, name, [Difference("", ours, theirs)])], ""
    if not isinstance(theirs, dict) or not theirs.keys() & set(MESSAGE_KEYS):
        return [], (
            f"{name} returned no message (none of the keys {', '.join(MESSAGE_KEYS)}), so it cannot be held against "
            "ours; return some of them, or give a second --adapter, or --rechunk"
        )
    skipped: list[str] = []
    left, right = _shared(ours, theirs, "", skipped)
    return [Compared(OURS, name, differences(left, right), tuple(dict.fromkeys(skipped)))], ""


def _shared(ours: Any, theirs: Any, path: str, skipped: list[str]) -> tuple[Any, Any]:
    """Both values without the keys that only one of them has; those are added to `skipped`."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        skipped.extend(f"{path}{key}" for key in theirs if key not in ours)
        skipped.extend(f"{path}{key}" for key in ours if key not in theirs)
        shared = [key for key in ours if key in theirs]
        both = {key: _shared(ours[key], theirs[key], f"{path}{key}.", skipped) for key in shared}
        return {key: pair[0] for key, pair in both.items()}, {key: pair[1] for key, pair in both.items()}
    if isinstance(ours, list) and isinstance(theirs, list):
        pairs = [_shared(left, right, path, skipped) for left, right in zip(ours, theirs, strict=False)]
        rest = len(pairs)
        return [pair[0] for pair in pairs] + ours[rest:], [pair[1] for pair in pairs] + theirs[rest:]
    return ours, theirs
