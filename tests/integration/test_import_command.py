"""`agent-replay import`: files of every packing, several at once, broken ones among them; how it ends."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from google.protobuf.internal.encoder import _VarintBytes
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, LogsData, ResourceLogs, ScopeLogs

from otel_agent_replay.cli.main import main
from otel_agent_replay.errors import ConfigurationError, DamagedRecording
from otel_agent_replay.export.otlp_files import write_spans
from otel_agent_replay.imports import opened_file
from otel_agent_replay.imports.files import read_spans
from otel_agent_replay.imports.opened_file import OpenedFile
from otel_agent_replay.model import Span
from otel_agent_replay.otlp.json_messages import document_of
from otel_agent_replay.otlp.parts import messages_of

BEGUN = 1_764_400_000_000_000_000


def span(number: int, parent: int = 0, trace: int = 7, **more) -> Span:
    above = parent.to_bytes(8, "big") if parent else b""
    end = BEGUN + 10**9 - number
    return Span(bytes([trace]) * 16, number.to_bytes(8, "big"), f"s{number}", BEGUN + number, end, above, **more)


SPANS = [span(1), span(2, 1, attributes={"k": "v" * 100}), span(3, 1)]


def run(lake: Path, *arguments: object):
    return CliRunner().invoke(main, ["import", "--lake", str(lake), *map(str, arguments)])


def message(spans: list[Span] = SPANS) -> bytes:
    return next(messages_of(spans)).SerializeToString()


def packings() -> dict[str, bytes]:
    document = json.dumps(document_of(SPANS))
    lines = "\n".join(json.dumps(document_of([one])) for one in SPANS) + "\n\n"
    one_each = [message([one]) for one in SPANS]
    return {
        "one document": document.encode(),
        "one document, indented": json.dumps(document_of(SPANS), indent=2).encode(),
        "a document a line": lines.encode(),
        "white space and a mark before it": b" \n" + document.encode(),
        "gzip": gzip.compress(document.encode()),
        "gzip of lines, in members": b"".join(gzip.compress(line.encode() + b"\n") for line in lines.splitlines()),
        "protobuf": message(),
        "protobuf, messages behind each other": b"".join(one_each),
        "protobuf, lengths as varints": b"".join(_VarintBytes(len(one)) + one for one in one_each),
        "protobuf, lengths of four bytes": b"".join(len(one).to_bytes(4, "big") + one for one in one_each),
        "gzip of protobuf": gzip.compress(message()),
    }


@pytest.mark.parametrize("name", packings())
def test_every_packing_is_told_and_read(tmp_path, name):
    """The spans are the same in whatever packing, told from the contents alone."""
    path = tmp_path / "traces"
    path.write_bytes(packings()[name])
    read = read_spans(path)
    assert (read.spans, read.anomalies) == (SPANS, [])


def test_files_given_together_are_one_import(tmp_path):
    """A trace over two files is told once, whole; the file first to tell of it is its source."""
    write_spans(SPANS[1:], tmp_path / "b.jsonl")
    write_spans(SPANS[:1], tmp_path / "a.binpb")
    write_spans([span(1, trace=8)], tmp_path / "c.json")
    done = run(tmp_path / "lake", "--json", *(tmp_path / name for name in ("b.jsonl", "a.binpb", "c.json")))
    said = json.loads(done.stdout)
    assert (done.exit_code, said["span_count"], said["anomalies"]) == (0, 4, [])
    assert [(one["span_count"], one["orphans"], one["max_depth"]) for one in said["traces"]] == [(3, [], 1), (1, [], 0)]
    assert len(list((tmp_path / "lake").rglob("spans/**/*.parquet"))) == 1
    shown = CliRunner().invoke(main, ["show", "--lake", str(tmp_path / "lake"), "--json", said["traces"][0]["run"]])
    assert str(tmp_path / "b.jsonl") in shown.stdout or "b.jsonl" in json.dumps(json.loads(shown.stdout))


def test_a_bad_file_does_not_keep_the_others_out(tmp_path):
    """What can be read is imported; the file that cannot is an error at the end, with code 125."""
    write_spans(SPANS, tmp_path / "good.json")
    (tmp_path / "bad.json").write_text('{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "07')
    (tmp_path / "empty.json").write_text(" \n")
    done = run(tmp_path / "lake", tmp_path / "bad.json", tmp_path / "good.json", tmp_path / "empty.json")
    assert done.exit_code == 125
    assert "3 spans in 1 run" in done.stdout
    assert "bad.json" in done.stderr
    assert "empty.json is empty" in done.stderr


def test_a_cut_line_is_left_out_and_told(tmp_path):
    """The last line that a crash cut is told, the lines before it are imported, and the code is 1."""
    write_spans(SPANS, tmp_path / "a.jsonl")
    whole = (tmp_path / "a.jsonl").read_bytes()
    (tmp_path / "a.jsonl").write_bytes(whole + whole[:200] + b"\n" + b'{"resourceLogs": []}\n')
    done = run(tmp_path / "lake", "--json", tmp_path / "a.jsonl")
    said = json.loads(done.stdout)
    assert (done.exit_code, said["span_count"]) == (1, 3)
    assert [one["code"] for one in said["anomalies"]] == ["unreadable", "unreadable"]
    assert "line 2" in said["anomalies"][0]["detail"]


def test_gzip_that_ends_in_the_middle_gives_what_came_before(tmp_path):
    """Lines before the cut are imported, and the cut is told."""
    lines = b"".join(json.dumps(document_of([span(n, trace=n)])).encode() + b"\n" for n in range(1, 60))
    packed = gzip.compress(lines, 1)
    (tmp_path / "a.jsonl.gz").write_bytes(packed[: len(packed) * 2 // 3])
    done = run(tmp_path / "lake", "--json", tmp_path / "a.jsonl.gz")
    said = json.loads(done.stdout)
    assert done.exit_code == 1
    assert 5 < said["span_count"] < 59
    assert "ends in the middle" in said["anomalies"][-1]["detail"]


def test_a_packed_file_that_fills_the_memory_is_refused(tmp_path, monkeypatch):
    """A small gzip of one endless line ends with an error that says how much it holds."""
    monkeypatch.setattr(opened_file, "MOST_AT_ONCE", 1 << 20)
    (tmp_path / "bomb.json.gz").write_bytes(gzip.compress(b'{"resourceSpans": [' + b" " * (8 << 20)))
    done = run(tmp_path / "lake", tmp_path / "bomb.json.gz")
    assert done.exit_code == 125
    assert "1 MiB" in done.stderr
    (tmp_path / "broken.gz").write_bytes(b"\x1f\x8b\x08\x00garbage that is no deflate stream")
    assert "cannot be unpacked" in run(tmp_path / "lake", tmp_path / "broken.gz").stderr


def test_other_signals_and_unknown_names_are_told(tmp_path):
    """Logs are no spans, in JSON and protobuf; an unknown `--from` names those that are known."""
    logs = LogsData(resource_logs=[ResourceLogs(scope_logs=[ScopeLogs(log_records=[LogRecord(severity_text="x")])])])
    (tmp_path / "logs.pb").write_bytes(logs.SerializeToString())
    (tmp_path / "logs.json").write_text('{"resourceLogs": []}')
    for name in ("logs.pb", "logs.json"):
        with pytest.raises(DamagedRecording):
            read_spans(tmp_path / name)
    with pytest.raises(ConfigurationError, match="otlp-json"):
        read_spans(tmp_path / "logs.json", "otel")
    assert run(tmp_path / "lake", "--from", "otel", tmp_path / "logs.json").exit_code == 2


@pytest.mark.parametrize("lengths", [True, False])
def test_a_message_of_any_size_is_known_for_protobuf(tmp_path, lengths):
    """Also one that reads as `{`, `[`, white space or the tag of another field, before it or in its first field."""
    path = tmp_path / "a.binpb"
    for size in range(200):
        whole = message([span(1, attributes={"k": "v" * size})])
        path.write_bytes(_VarintBytes(len(whole)) + whole if lengths else whole)
        assert len(read_spans(path).spans) == 1, whole[:4]


def test_messages_after_a_broken_one_are_told(tmp_path):
    """Of delimited messages those before the broken one are read, and where it broke is told."""
    one_each = [message([one]) for one in SPANS]
    framed = [_VarintBytes(len(one)) + one for one in one_each]
    (tmp_path / "a.binpb").write_bytes(framed[0] + framed[1] + framed[2][:-5])
    read = read_spans(tmp_path / "a.binpb")
    assert read.spans == SPANS[:2]
    assert "what follows message 2" in read.anomalies[0].detail


def test_a_file_is_read_piece_by_piece(tmp_path):
    """Lines come out whole however the file is cut into pieces."""
    lines = [b"x" * size for size in (1, (1 << 20) - 1, 1 << 20, 3, (1 << 20) + 1)]
    (tmp_path / "a").write_bytes(b"\n".join(lines))
    assert list(OpenedFile(tmp_path / "a").lines()) == lines
