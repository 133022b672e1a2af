"""Laws of the journal: what is read back is a prefix of what was written, whatever happened to the file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_agent_replay.export import journal_bodies
from otel_agent_replay.export.assemble import recorded_run
from otel_agent_replay.export.journal import Journal
from otel_agent_replay.export.record_index import RecordIndex
from otel_agent_replay.export.segments import SegmentData, list_segments
from otel_agent_replay.model import HttpResponseHead, Kind, OutcomeStatus, Payload, RecordedRun
from otel_agent_replay.wire.frames import frame, read_frames
from otel_agent_replay.wire.v1 import journal_pb2 as wire
from tests.support.journal_files import segment_paths
from tests.support.journal_runs import JournalRun, value


@contextmanager
def index_of(lake: Path) -> Iterator[RecordIndex]:
    loaded = [SegmentData(segment) for segment in list_segments(lake)]
    try:
        yield RecordIndex(loaded)
    finally:
        for data in loaded:
            data.close()


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=8), st.data())
def test_a_cut_segment_gives_its_whole_frames(records: list[bytes], data: st.DataObject) -> None:
    """Cut anywhere, a segment gives exactly the records that lie wholly before the cut, and says where it is torn."""
    whole = b"".join(map(frame, records))
    cut = data.draw(st.integers(0, len(whole)))
    frames = read_frames(whole[:cut])
    read = [record for _, record in frames]
    assert read == records[: len(read)]
    boundary = sum(len(record) + 8 for record in read)
    assert frames.end == boundary
    assert frames.torn == (cut != boundary)
    assert frames.cut == frames.torn
    if len(read) < len(records):
        assert cut < boundary + len(records[len(read)]) + 8


@given(st.lists(st.binary(min_size=1, max_size=50), min_size=1, max_size=8), st.data())
def test_a_flipped_bit_ends_the_segment_before_it(records: list[bytes], data: st.DataObject) -> None:
    """No altered record is ever given out: reading stops before the frame with the flipped bit."""
    whole = bytearray(b"".join(map(frame, records)))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= 1 << data.draw(st.integers(0, 7))
    frames = read_frames(bytes(whole))
    read = [record for _, record in frames]
    assert frames.torn
    assert read == records[: len(read)]
    assert frames.end <= at


def test_a_run_cut_at_every_offset(tmp_path: Path) -> None:
    """At every byte offset, what was written wholly before the cut is in the run: begins, ends, reads, bodies."""
    journal = Journal(tmp_path / "whole")
    run = JournalRun(journal, given=value("hello"))
    path = segment_paths(tmp_path / "whole")[0]
    marks: list[tuple[int, str, bytes]] = [(path.stat().st_size, "run", run.root)]
    for number in range(3):
        span_id = run.begin(f"tool{number}", value(["x" * 600, number]))
        marks.append((path.stat().st_size, "begin", span_id))
        run.reads([(Kind.CLOCK, "time.time", 1.0 + number)], span_id)
        marks.append((path.stat().st_size, "read", span_id))
        run.end(span_id, value({"n": number}))
        marks.append((path.stat().st_size, "end", span_id))
    run.finish(output=value("bye"))
    whole = path.read_bytes()
    lake = tmp_path / "cut"
    (lake / "journal").mkdir(parents=True)
    target = lake / "journal" / path.name
    for cut in range(len(whole) + 1):
        target.write_bytes(whole[:cut])
        acknowledged = [(what, span_id) for size, what, span_id in marks if size <= cut]
        with index_of(lake) as index:
            if not acknowledged:
                continue
            recorded = recorded_run(index, run.key)
            nodes = {span.span.span_id: span.node for span in recorded.spans}
            for what, span_id in acknowledged:
                node = nodes[span_id]
                assert node is not None
                if what == "begin":
                    assert recorded.payload(node.call.request.digest) is not None
                elif what == "end":
                    assert node.outcome.status is OutcomeStatus.OK
                    assert recorded.payload(node.outcome.result.digest) is not None
                elif what == "read":
                    assert len(node.reads) == 1
            ended = {span_id for what, span_id in acknowledged if what == "end"}
            pending = [node for span_id, node in nodes.items() if span_id not in ended and span_id != run.root]
            # A frame may be whole although the write that followed it in the same append was not acknowledged.
            assert len(pending) <= 1


@dataclass
class Told:
    """What the machine was told to record: the truth that the journal must give back."""

    run: JournalRun
    nodes: dict[bytes, dict[str, object]] = field(default_factory=dict)
    finished: bool = False


texts = st.sampled_from([b"", b"a", b"b" * 700, b"c" * 3000])
operations = st.lists(
    st.tuples(
        st.sampled_from(["run", "begin", "end", "partial", "finish", "rotate"]),
        st.integers(0, 5),
        st.integers(0, 5),
        texts,
    ),
    min_size=10,
    max_size=60,
)


@settings(deadline=None)
@given(operations, st.sampled_from([1500, 8000, 1 << 20]))
def test_whatever_was_recorded_is_assembled(steps, segment_bytes: int) -> None:
    """Runs interleaved in any order, over any number of segments, come out with every node, body and status."""
    with tempfile.TemporaryDirectory() as folder:
        lake = Path(folder) / "lake"
        journal = Journal(lake, segment_bytes=segment_bytes)
        told = [Told(JournalRun(journal)), Told(JournalRun(journal))]
        shared = b"the beginning of every request " * 40
        for number, (what, which, node_number, text) in enumerate(steps):
            if what == "run":
                told.append(Told(JournalRun(journal)))
                continue
            if what == "rotate":
                journal.rotate()
                continue
            live = [one for one in told if not one.finished]
            if not live:
                continue
            one = live[which % len(live)]
            open_nodes = [span_id for span_id, facts in one.nodes.items() if facts["status"] is OutcomeStatus.PENDING]
            if what == "begin":
                request = shared + text + str(number).encode()
                span_id = one.run.begin("call", Payload.of(request, "text/plain"))
                one.nodes[span_id] = {"status": OutcomeStatus.PENDING, "request": request, "result": None, "chunks": 0}
            elif what == "finish":
                one.run.finish()
                one.finished = True
            elif open_nodes:
                span_id = open_nodes[node_number % len(open_nodes)]
                if what == "end":
                    one.run.end(span_id, Payload.of(text, "text/plain"))
                    one.nodes[span_id] |= {"status": OutcomeStatus.OK, "result": text}
                else:
                    _partial(one, span_id, text)
        journal.close()
        with index_of(lake) as index:
            assert set(index.runs) == {one.run.key for one in told}
            for one in told:
                _compare(one, recorded_run(index, one.run.key))


def _partial(one: Told, span_id: bytes, text: bytes) -> None:
    part = wire.PartialResult(run_id=one.run.run_id, span_id=span_id, data=text)
    part.chunking.sizes.append(len(text))
    part.chunking.after_ns_delta.append(5)
    part.response.status = 200
    one.run.journal.append(wire.Record(partial=part))
    facts = one.nodes[span_id]
    facts["result"] = (facts["result"] or b"") + text
    facts["chunks"] += 1


def _compare(one: Told, recorded: RecordedRun) -> None:
    root, *spans = recorded.spans
    assert root.span.span_id == one.run.root
    assert root.node.outcome.status is (OutcomeStatus.OK if one.finished else OutcomeStatus.PENDING)
    assert [span.span.span_id for span in spans] == list(one.nodes)
    assert not recorded.losses
    for span in spans:
        facts, node = one.nodes[span.span.span_id], span.node
        outcome = node.outcome
        assert recorded.payload(node.call.request.digest) == facts["request"]
        assert node.call.request.size == len(facts["request"])
        assert outcome.status is facts["status"]
        assert (node.end_sequence == 0) == (outcome.status is OutcomeStatus.PENDING)
        result = None if outcome.result is None else recorded.payload(outcome.result.digest)
        assert result == facts["result"]
        if outcome.status is OutcomeStatus.PENDING and facts["chunks"]:
            assert outcome.head == HttpResponseHead(200)
            assert sum(chunk.size for chunk in outcome.chunks) == len(facts["result"])
            assert len(outcome.chunks) == facts["chunks"]


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3000), st.binary(max_size=40), st.booleans()), min_size=1, max_size=25),
    st.sampled_from([4000, 1 << 20]),
)
def test_every_body_is_rebuilt(edits, segment_bytes: int) -> None:
    """Bodies that grow out of one another, written as differences over several segments, come back byte for byte."""
    with tempfile.TemporaryDirectory() as folder:
        lake = Path(folder) / "lake"
        journal = Journal(lake, segment_bytes=segment_bytes)
        run = JournalRun(journal)
        body = bytes(range(256)) * 8
        bodies = []
        for at, insert, restart in edits:
            if restart:
                body = bytes(range(256)) * 8
            body = body[: at % (len(body) + 1)] + insert + body[at % (len(body) + 1) :]
            bodies.append(body)
            run.end(run.begin("call", Payload.of(body, "text/plain")))
        run.finish()
        with index_of(lake) as index:
            recorded = recorded_run(index, run.key)
            found = [recorded.payload(node.call.request.digest) for node in recorded.nodes[1:]]
            backwards = [recorded.payload(node.call.request.digest) for node in reversed(recorded.nodes[1:])]
            assert found == bodies
            assert backwards == bodies[::-1]


def test_assembling_is_linear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each record is read once for the run, and in its order each body is rebuilt once, from the one before it."""
    journal = Journal(tmp_path / "lake")
    run = JournalRun(journal)
    body = b"the beginning of every request " * 40
    steps = 300
    for number in range(steps):
        body += b"message %d " % number
        run.end(run.begin("call", Payload.of(body, "text/plain")))
    run.finish()
    assert segment_paths(tmp_path / "lake")[0].stat().st_size < 600 * steps
    proved, read = [], []
    real_digest, real_read = journal_bodies.digest_of, SegmentData.record_at
    monkeypatch.setattr(journal_bodies, "digest_of", lambda data: proved.append(len(data)) or real_digest(data))
    monkeypatch.setattr(SegmentData, "record_at", lambda *args: read.append(args) or real_read(*args))
    with index_of(tmp_path / "lake") as index:
        assert not read
        recorded = recorded_run(index, run.key)
        assert len(read) == 2 * steps + 2
        assert not proved
        for node in recorded.nodes[1:]:
            assert recorded.payload(node.call.request.digest) is not None
        assert len(proved) == steps
        assert len(read) == 3 * steps + 2


def test_a_body_that_is_not_its_digest_is_not_given(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A frame whose checksum holds but whose body is not what its digest says is left out and said."""
    journal = Journal(tmp_path / "lake")
    run = JournalRun(journal)
    digest = Payload.of(b"truth", "text/plain").digest
    journal.append(wire.Record(body=wire.Body(digest=digest, data=b"fraud")))
    run.finish()
    with index_of(tmp_path / "lake") as index:
        assert index.bodies.payload(digest) is None
    assert digest.hex() in caplog.text
