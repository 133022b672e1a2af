"""A recorded run with its personal data replaced by made-up values, the same ones everywhere, so that it still replays.

What came in from outside is replaced: the run's input, answers, environment. A value that the agent's code asked with
before anything had brought it belongs to that code: a replay makes it again, so it stays, and is told. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from otel_agent_replay.boundary.http_coding import CodingError, codings_of, decoded_body, masked
from otel_agent_replay.errors import CannotJudge
from otel_agent_replay.gate.synthetic_values import KnownValues, folded_texts
from otel_agent_replay.model import (
    Call,
    Failure,
    MediaType,
    Node,
    Outcome,
    Payload,
    Read,
    RecordedRun,
    RecordedSpan,
    Run,
    Span,
    digest_of,
)
from otel_agent_replay.payload.body_texts import texts_of
from otel_agent_replay.payload.synthetic_redaction import SyntheticRedaction


class SyntheticRuns:
    """Makes the runs of one case synthetic, all of them alike. First `learn` them all, then take each `replaced`."""

    def __init__(self, values: KnownValues) -> None:
        self._values = values

    def learn(self, runs: Iterable[RecordedRun]) -> None:
        """Take in what the runs hold."""
        for recorded in runs:
            self._values.learn(recorded)

    def counts(self) -> dict[str, int]:
        """Return how many values of each sort are replaced."""
        return self._values.counts()

    def left(self) -> list[str]:
        """Return what stays because the agent's own code says it, each in few words."""
        return self._values.left()

    def replaced(self, recorded: RecordedRun) -> RecordedRun:
        """Return the run with every known value replaced. Raises CannotJudge where one would be left standing."""
        return _Replacing(recorded, self._values).run()


class _Replacing:
    """One run being replaced."""

    def __init__(self, recorded: RecordedRun, values: KnownValues) -> None:
        self._recorded = recorded
        self._values = values
        self._redaction = SyntheticRedaction(values.replacement)
        self._bodies: dict[bytes, bytes] = {}
        self._digests: dict[str, str] = {}  # hexadecimal, old -> new

    def run(self) -> RecordedRun:
        recorded = self._recorded
        nodes = {id(item): None if item.node is None else self._node(item.node) for item in self._all()}
        spans, superseded = (
            tuple(RecordedSpan(self._span(item.span), nodes[id(item)]) for item in items)
            for items in (recorded.spans, recorded.superseded)
        )
        return replace(
            recorded,
            run=self._facts(recorded.run),
            spans=spans,
            superseded=superseded,
            payload=self._bodies.get,
            losses=tuple(replace(loss, detail=self._text(loss.detail)) for loss in recorded.losses),
        )

    def _all(self) -> Iterator[RecordedSpan]:
        yield from self._recorded.spans
        yield from self._recorded.superseded

    # --- the replay side ---

    def _node(self, node: Node) -> Node:
        call = None if node.call is None else self._call(node, node.call)
        outcome = None if node.outcome is None else self._outcome(node.outcome)
        made = replace(
            node,
            name=self._text(node.name),
            path=tuple(self._text(part) for part in node.path),
            call=call,
            outcome=outcome,
            reads=tuple(self._read(read) for read in node.reads),
            strand=self._text(node.strand),
        )
        self._checked(made)
        return made

    def _call(self, node: Node, call: Call) -> Call:
        head = call.head
        headers = () if head is None else head.headers
        request, _ = self._payload(call.request, headers, ())
        if head is not None:
            kept = _with_length(self._redaction.headers(headers), call.request, request)
            head = replace(head, url=self._redaction.url(head.url), headers=kept)
        made = replace(
            call,
            name=self._text(call.name),
            request=request,
            head=head,
            attributes=self._redaction.attributes(call.attributes),
            idempotency_key=self._text(call.idempotency_key),
            notes=tuple(self._text(note) for note in call.notes),
        )
        if call.asked:
            raise CannotJudge(
                f"step {node.step} was sent in other words than it was asked for (an edited fork): its values cannot "
                "be replaced so that it still replays; keep it with --no-redact"
            )
        self._digests[call.digest.hex()] = made.digest.hex()
        return made

    def _outcome(self, outcome: Outcome) -> Outcome:
        headers = () if outcome.head is None else outcome.head.headers
        result, head, chunks = outcome.result, outcome.head, outcome.chunks
        if result is not None:
            result, sizes = self._payload(result, headers, [chunk.size for chunk in chunks])
            if sizes:
                chunks = tuple(chunk._replace(size=size) for chunk, size in zip(chunks, sizes, strict=True))
        if head is not None and outcome.result is not None and result is not None:
            head = replace(head, headers=_with_length(self._redaction.headers(head.headers), outcome.result, result))
        return replace(
            outcome,
            result=result,
            head=head,
            chunks=chunks,
            trailers=self._redaction.headers(outcome.trailers) if outcome.trailers else (),
            failure=None if outcome.failure is None else self._failure(outcome.failure),
            notes=tuple(self._text(note) for note in outcome.notes),
            attributes=self._redaction.attributes(outcome.attributes),
        )

    def _payload(
        self, payload: Payload, headers: Sequence[tuple[str, str]], sizes: Sequence[int]
    ) -> tuple[Payload, Sequence[int]]:
        """Return the payload replaced, and the sizes of its pieces."""
        data = self._recorded.bytes_of(payload)
        if data is None:
            return payload, sizes
        cut = _cut(data, sizes) if sizes and sum(sizes) == len(data) else [data]
        if payload.media_type == MediaType.VALUE.value:
            made = [self._redaction.value_bytes(data)]
        else:
            made = masked(self._redaction, cut, payload.media_type, codings_of(headers)).chunks
        whole = b"".join(made)
        new = Payload(digest_of(whole), None, payload.media_type, len(whole))
        self._bodies[new.digest] = whole
        self._digests[payload.digest.hex()] = new.digest.hex()
        return new, [len(piece) for piece in made] if len(made) == len(sizes) else sizes

    def _failure(self, failure: Failure) -> Failure:
        return replace(
            failure,
            message=self._text(failure.message),
            state=None if failure.state is None else self._redaction.value_bytes(failure.state),
            cause=None if failure.cause is None else self._failure(failure.cause),
        )

    def _read(self, read: Read) -> Read:
        return read._replace(value=self._text(read.value)) if isinstance(read.value, str) else read

    def _checked(self, node: Node) -> None:
        """Look whether a value is left in what the node holds, as a reader of the answer would see it."""
        for payload, headers in _payloads(node):
            data = self._bodies.get(payload.digest)
            if data is None:
                continue
            try:
                plain = decoded_body(data, headers)
            except CodingError as error:
                raise CannotJudge(
                    f"step {node.step} ({node.kind} {node.name}) holds bytes that cannot be looked into ({error}): "
                    "install the package of that coding, or keep the run with --no-redact"
                ) from error
            texts = [said.text for said in texts_of(plain, payload.media_type)]
            if node.outcome is not None and payload is node.outcome.result:
                texts += folded_texts(node, data)
            if any(map(self._values.holds, texts)):
                raise CannotJudge(
                    f"step {node.step} ({node.kind} {node.name}) holds personal data that cannot be replaced in its "
                    "place: keep it with --no-redact"
                )

    # --- the span and the run ---

    def _span(self, span: Span) -> Span:
        return replace(
            span,
            name=self._text(span.name),
            status_message=self._text(span.status_message),
            attributes=self._attributes(span.attributes),
            events=tuple(replace(event, attributes=self._attributes(event.attributes)) for event in span.events),
            links=tuple(replace(link, attributes=self._attributes(link.attributes)) for link in span.links),
            resource=replace(span.resource, attributes=self._attributes(span.resource.attributes)),
        )

    def _attributes(self, attributes: Mapping[str, object]) -> dict[str, object]:
        """Return attributes with values replaced; one that is a digest follows what it is the digest of."""
        found = self._redaction.attributes(attributes)
        return {
            name: self._digests.get(value, value) if isinstance(value, str) else value for name, value in found.items()
        }

    def _facts(self, run: Run) -> Run:
        return replace(
            run,
            agent=self._text(run.agent),
            thread_id=self._text(run.thread_id),
            subject=self._text(run.subject),
            entry=self._text(run.entry),
        )

    def _text(self, text: str) -> str:
        return self._redaction.text(text) if text else text


def _payloads(node: Node) -> Iterator[tuple[Payload, Sequence[tuple[str, str]]]]:
    if node.call is not None:
        yield node.call.request, () if node.call.head is None else node.call.head.headers
    if node.outcome is not None and node.outcome.result is not None:
        yield node.outcome.result, () if node.outcome.head is None else node.outcome.head.headers


def _cut(data: bytes, sizes: Sequence[int]) -> list[bytes]:
    pieces, at = [], 0
    for size in sizes:
        pieces.append(data[at : at + size])
        at += size
    return pieces


def _with_length(headers: tuple[tuple[str, str], ...], before: Payload, after: Payload) -> tuple[tuple[str, str], ...]:
    """Return headers that tell the length of the body as it is now."""
    if before.size == after.size:
        return headers
    return tuple(
        (name, str(after.size) if name.lower() == "content-length" and value == str(before.size) else value)
        for name, value in headers
    )
