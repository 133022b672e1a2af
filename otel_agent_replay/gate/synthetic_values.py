"""Which values of recorded runs are replaced: personal data that came in from outside, not what the code itself says.

A run is read in its own order: what a request holds that nothing had brought before is the agent's own. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from otel_agent_replay import semconv
from otel_agent_replay.boundary.http_coding import CodingError, decoded_body
from otel_agent_replay.model import Kind, Node, Payload, RecordedRun
from otel_agent_replay.payload.body_texts import Said, texts_of
from otel_agent_replay.payload.personal import PersonalData, Replacement
from otel_agent_replay.payload.synthetic import TEXT, SyntheticValues, plain_of
from otel_agent_replay.protocols import PROTOCOLS
from otel_agent_replay.protocols.recognise_answer import recognise_answer

_Headers = Sequence[tuple[str, str]]
_SHOWN = 2


class KnownValues:
    """The values of the runs of one case. `key` makes the made-up ones: one key, the same values.

    `fields` and `patterns` are regular expressions that name more of them. With `own` those of the agent's own code are
    replaced too: a replay then departs where it says them.
    """

    def __init__(
        self, key: bytes, *, fields: Iterable[str] = (), patterns: Iterable[str] = (), own: bool = False
    ) -> None:
        self._personal = PersonalData(fields, patterns)
        self._made = SyntheticValues(key)
        self._own_too = own
        self._values: dict[str, str] = {}
        self._own: dict[str, str] = {}
        self._known: set[tuple[str, str]] = set()
        self._replacement: Replacement | None = None

    def learn(self, recorded: RecordedRun) -> None:
        """Take in the values of a run."""
        self._replacement = None
        said_by_code: list[str] = []
        for incoming, said in _in_order(recorded):
            for value, sort in self._personal.found(said):
                known = sort, plain_of(value, sort)
                if known in self._known:
                    continue
                self._known.add(known)
                own = not incoming or (sort == TEXT and _says(said_by_code, value))
                if own:
                    self._own[value] = sort
                else:
                    self._values[value] = sort
            if not incoming:
                said_by_code.append(said.text)

    @property
    def replacement(self) -> Replacement:
        """What replaces the known values in a text."""
        if self._replacement is None:
            values = {**self._own, **self._values} if self._own_too else self._values
            self._replacement = Replacement(values, self._made)
        return self._replacement

    def holds(self, text: str) -> bool:
        """Whether a text holds a value that is to be replaced."""
        return self.replacement(text) != text

    def counts(self) -> dict[str, int]:
        """Return how many values of each sort are replaced."""
        values = {**self._own, **self._values} if self._own_too else self._values
        counts: dict[str, int] = {}
        for sort in values.values():
            counts[sort] = counts.get(sort, 0) + 1
        return counts

    def left(self) -> list[str]:
        """Return the values that stay, as their first letters and their sort."""
        return [] if self._own_too else [f"{value[:_SHOWN]}... ({sort})" for value, sort in self._own.items()]


def _says(texts: Sequence[str], value: str) -> bool:
    pattern = re.compile(rf"(?<!\w){re.escape(value)}(?!\w)")
    return any(pattern.search(text) for text in texts)


def _in_order(recorded: RecordedRun) -> Iterator[tuple[bool, Said]]:
    """Yield every text of the run in the order it was said, with whether it came in from outside."""
    run = recorded.run
    yield True, Said("", run.entry)
    yield True, Said("thread_id", run.thread_id)
    if run.subject:
        yield True, Said("customer_name", run.subject)
    moments: list[tuple[int, bool, Node]] = []
    for item in (*recorded.superseded, *recorded.spans):
        if item.node is not None:
            moments.append((item.node.sequence, False, item.node))
            moments.append((item.node.end_sequence or item.node.sequence, True, item.node))
    for _, ended, node in sorted(moments, key=lambda moment: moment[:2]):
        if ended:
            yield from ((node.kind is not Kind.RUN, said) for said in _answered(node, recorded))
        else:
            yield from ((node.kind is Kind.RUN, said) for said in _asked(node, recorded))
            for read in node.reads:
                if isinstance(read.value, str):
                    yield True, Said("", read.value)


def _asked(node: Node, recorded: RecordedRun) -> Iterator[Said]:
    call = node.call
    if call is None:
        return
    if call.head is not None:
        yield Said("", call.head.url)
        yield from (Said(name, value) for name, value in call.head.headers)
    yield Said("", call.idempotency_key)
    yield from _said(call.request, () if call.head is None else call.head.headers, recorded)


def _answered(node: Node, recorded: RecordedRun) -> Iterator[Said]:
    outcome = node.outcome
    if outcome is None:
        return
    if outcome.failure is not None:
        yield Said("", outcome.failure.message)
        if outcome.failure.state is not None:
            yield from texts_of(outcome.failure.state, "application/json")
    headers = () if outcome.head is None else outcome.head.headers
    yield from (Said(name, value) for name, value in headers)
    if outcome.result is not None:
        yield from _said(outcome.result, headers, recorded)
        data = recorded.bytes_of(outcome.result)
        yield from (Said("", text) for text in folded_texts(node, data))


def folded_texts(node: Node, data: bytes | None) -> list[str]:
    """Return what a model's answer says as its reader gets it: its text, its reasoning, the arguments of its calls."""
    outcome = node.outcome
    if node.kind is not Kind.MODEL or data is None or outcome is None or outcome.result is None or outcome.head is None:
        return []
    try:
        plain = decoded_body(data, outcome.head.headers)
    except CodingError:
        return []
    name = None if node.call is None else node.call.attributes.get(semconv.PROTOCOL)
    protocol = PROTOCOLS.get(str(name)) or recognise_answer(plain)
    if protocol is None:
        return []
    folded = protocol.fold(plain, outcome.result.media_type, outcome.head.status)
    return [folded.text, folded.reasoning or "", *(call.arguments_raw for call in folded.tool_calls)]


def _said(payload: Payload, headers: _Headers, recorded: RecordedRun) -> Iterator[Said]:
    data = recorded.bytes_of(payload)
    if data is None:
        return
    try:
        yield from texts_of(decoded_body(data, headers), payload.media_type)
    except CodingError:
        return  # what cannot be looked into is refused when the run is made synthetic
