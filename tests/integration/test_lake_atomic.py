"""What a reader of the lake sees while it is written, after a crash, and after damage."""

from __future__ import annotations

import dataclasses
import pickle

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from otel_agent_replay.errors import DamagedRecording, RunNotFound, UnsupportedFormat
from otel_agent_replay.lake import parquet_file, writer
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.lake.layout import all_files
from otel_agent_replay.lake.schema import file_facts
from otel_agent_replay.lake.verify import FindingKind, verify
from otel_agent_replay.lake.writer import write_runs
from tests.support.lake_runs import STARTED_MS, RunMaker, answer, full_run


def _paths(lake, table):
    return [file.path for file in all_files(lake, table)]


def _everything(lake):
    return sorted(path.relative_to(lake).as_posix() for path in lake.rglob("*") if path.is_file())


def test_a_run_is_found_by_id_trace_and_prefix(tmp_path):
    """A run id, a trace id and a unique prefix of either name the run; what fits two runs or none is refused."""
    runs = [full_run(0), full_run(1)]
    write_runs(tmp_path, runs, segments=["s"])
    lake = Lake(tmp_path)
    for recorded in runs:
        run_id = recorded.run.run_id
        assert lake.has(run_id)
        assert lake.find(run_id.hex()) == run_id
        assert lake.find(recorded.run.trace_id.hex().upper()) == run_id
        assert lake.find(run_id.hex()[:31]) == run_id
    with pytest.raises(RunNotFound) as ambiguous:
        lake.find(runs[0].run.run_id.hex()[:12])
    assert ambiguous.value.candidates == tuple(run.run.run_id.hex() for run in runs)
    for asked in ("", "zz", "f" * 32):
        with pytest.raises(RunNotFound):
            lake.find(asked)
    assert pickle.loads(pickle.dumps(ambiguous.value)).candidates == ambiguous.value.candidates


def test_an_absent_lake_has_no_runs(tmp_path):
    """Reading makes no folder and finds nothing."""
    lake = Lake(tmp_path / "absent")
    assert lake.runs() == []
    assert not lake.has(full_run().run.run_id)
    with pytest.raises(RunNotFound):
        lake.load(full_run().run.run_id)
    assert not (tmp_path / "absent").exists()


def test_siblings_are_the_runs_of_one_process_in_order(tmp_path):
    """Runs of one process are listed by ordinal, over partitions and files; another process' runs are not."""
    later = STARTED_MS + 7_200_000
    first = [full_run(number) for number in (2, 0)]
    write_runs(tmp_path, [*first, full_run(1, started_ms=later)], segments=["s"])
    write_runs(tmp_path, [full_run(3, process="other")], segments=["s"])
    members = Lake(tmp_path).siblings(first[0].run.run_id)
    assert [Lake(tmp_path).load(member).run.ordinal for member in members] == [0, 1, 2]
    assert len(_paths(tmp_path, "spans")) == 3


def test_runs_come_newest_first_within_a_window(tmp_path):
    """`since_ns`, `until_ns` and `limit` choose by the start of a run."""
    hour = 3_600_000
    runs = [full_run(number, started_ms=STARTED_MS + number * hour) for number in range(4)]
    write_runs(tmp_path, runs, segments=["s"])
    lake = Lake(tmp_path)
    assert [summary.run.ordinal for summary in lake.runs()] == [3, 2, 1, 0]
    assert [summary.run.ordinal for summary in lake.runs(limit=2)] == [3, 2]
    window = lake.runs(since_ns=runs[1].run.started_ns, until_ns=runs[3].run.started_ns)
    assert [summary.run.ordinal for summary in window] == [2, 1]
    assert (window[0].step_count, window[0].model_call_count, window[0].cost_usd) == (8, 2, 0.5)


def test_writing_the_same_runs_again_replaces_the_same_files(tmp_path):
    """A sealing that is repeated after a crash doubles nothing."""
    write_runs(tmp_path, [full_run(0), full_run(1)], segments=["s"])
    before = _everything(tmp_path)
    write_runs(tmp_path, [full_run(1), full_run(0)], segments=["s"])
    assert _everything(tmp_path) == before
    assert len(Lake(tmp_path).runs()) == 2


def test_the_segments_of_a_file_are_named_in_it(tmp_path):
    """A sealer can tell from the file which journal segments it holds."""
    (path,) = write_runs(tmp_path, [full_run()], segments=["a-1", "a-2"])
    assert file_facts(pq.read_metadata(path).metadata, path).segments == ("a-1", "a-2")


def test_nothing_is_left_when_writing_fails(tmp_path, monkeypatch):
    """A failure before publication leaves no file, whole or half."""

    def full_disk(temporary, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(parquet_file, "publish", full_disk)
    with pytest.raises(OSError, match="No space"):
        write_runs(tmp_path, [full_run()], segments=["s"])
    assert _everything(tmp_path) == []


def test_payloads_are_there_before_the_spans_that_name_them(tmp_path, monkeypatch):
    """A reader that comes between two publications finds no run rather than a run without its payloads."""
    published = []
    real = parquet_file.publish

    def watched(temporary, target):
        assert not Lake(tmp_path).has(full_run().run.run_id)
        real(temporary, target)
        published.append(target.relative_to(tmp_path).parts[0])

    monkeypatch.setattr(parquet_file, "publish", watched)
    write_runs(tmp_path, [full_run()], segments=["s"])
    assert published == ["payloads", "losses", "spans"]
    assert Lake(tmp_path).has(full_run().run.run_id)


def test_a_file_in_the_making_is_not_read(tmp_path):
    """What lies under a temporary name is no file of the lake."""
    (path,) = write_runs(tmp_path, [full_run()], segments=["s"])
    (path.parent / f".{path.name}.0.tmp").write_bytes(b"half")
    assert len(Lake(tmp_path).runs()) == 1


def test_a_run_without_its_root_is_refused(tmp_path):
    """The facts of a run lie on its root row: without one nothing is written."""
    recorded = full_run()
    with pytest.raises(ValueError, match="no root span"):
        write_runs(tmp_path, [dataclasses.replace(recorded, spans=recorded.spans[1:])], segments=["s"])
    assert _everything(tmp_path) == []


def test_runs_of_a_large_file_are_found_and_keep_their_order(tmp_path, monkeypatch):
    """With many row groups, root rows lie apart; each run still comes back whole and in order."""
    monkeypatch.setattr(writer, "ROW_GROUP_ROWS", 7)
    monkeypatch.setattr(writer, "ROOT_GROUP_ROWS", 4)
    runs = [full_run(number) for number in range(9)]
    (path,) = write_runs(tmp_path, runs, segments=["s"])
    assert pq.read_metadata(path).num_row_groups > 5
    lake = Lake(tmp_path)
    assert len(lake.runs()) == 9
    for recorded in runs:
        assert repr(lake.load(recorded.run.run_id).spans) == repr(recorded.spans)


def test_a_batch_too_large_for_one_file_becomes_several(tmp_path, monkeypatch):
    """Files stay small enough to be pruned by name."""
    monkeypatch.setattr(writer, "FILE_ROWS", 20)
    runs = [full_run(number) for number in range(5)]
    assert len(write_runs(tmp_path, runs, segments=["s"])) == 3
    assert len(Lake(tmp_path).runs()) == 5


def test_payloads_in_many_row_groups_come_back(tmp_path, monkeypatch):
    """Pieces of one body may lie in several row groups."""
    from otel_agent_replay.lake import payload_store

    monkeypatch.setattr(payload_store, "ROW_GROUP_BYTES", 64)
    write_runs(tmp_path, [full_run()], segments=["s"])
    loaded = Lake(tmp_path).load(full_run().run.run_id)
    assert pq.read_metadata(_paths(tmp_path, "payloads")[0]).num_row_groups > 3
    assert verify(loaded) == []


# --- damage ---


def _rewrite(path, change):
    """Write a Parquet file again with one column of one row changed, as somebody who edits it would."""
    metadata = pq.read_metadata(path).metadata
    table = pq.read_table(path, partitioning=None)
    rows = table.to_pylist()
    change(rows)
    table = pa.Table.from_pylist(rows, table.schema.remove_metadata())
    pq.write_table(table.replace_schema_metadata({k: v for k, v in metadata.items() if k.startswith(b"agent")}), path)


def _flip(data):
    return bytes([data[0] ^ 1]) + data[1:]


def _loaded_after(lake, table, change):
    write_runs(lake, [full_run()], segments=["s"])
    assert verify(Lake(lake).load(full_run().run.run_id)) == []
    _rewrite(_paths(lake, table)[0], change)
    return Lake(lake).load(full_run().run.run_id)


def _span_row(rows, step):
    return next(row for row in rows if row["step"] == step)


def test_an_altered_payload_is_named(tmp_path):
    """One byte of a tool's result changes: verify names that payload, reading it raises, all else holds."""

    def change(rows):
        row = next(row for row in rows if row["data"] == b'{"price":12}')
        row["data"] = b'{"price":13}'

    loaded = _loaded_after(tmp_path, "payloads", change)
    (finding,) = verify(loaded)
    assert (finding.kind, finding.what, finding.step) == (FindingKind.ALTERED, "result payload", 2)
    with pytest.raises(DamagedRecording, match="altered"):
        loaded.payload(loaded.nodes[2].outcome.result.digest)


def test_an_altered_message_damages_each_request_that_holds_it(tmp_path):
    """One byte of a message changes: both requests that repeat it are named."""

    def change(rows):
        row = next(row for row in rows if row["role"] == "user" and b"Refund" in row["data"])
        row["data"] = row["data"].replace(b"Refund", b"Rebate")

    findings = verify(_loaded_after(tmp_path, "payloads", change))
    assert [(finding.what, finding.step) for finding in findings] == [("request payload", 1), ("request payload", 3)]


def test_an_altered_recipe_is_named(tmp_path):
    """The order in which pieces are joined changes: the request no longer has its digest."""

    def change(rows):
        row = next(row for row in reversed(rows) if row["pieces"])
        row["pieces"] = row["pieces"][::-1] if len(row["pieces"]) > 1 else [{"first": 0, "count": 1}]

    assert [finding.what for finding in verify(_loaded_after(tmp_path, "payloads", change))] == ["request payload"]


def test_a_recipe_that_points_outside_is_named(tmp_path):
    """A piece number that the file does not hold is damage, not a crash."""

    def change(rows):
        next(row for row in rows if row["pieces"])["pieces"] = [{"first": 10_000, "count": 1}]

    assert {finding.kind for finding in verify(_loaded_after(tmp_path, "payloads", change))} == {FindingKind.ALTERED}


@pytest.mark.parametrize("column", ["request_digest", "result_digest"])
def test_an_altered_digest_is_named(column, tmp_path):
    """A digest that changes fits neither its payload nor its manifest entry."""

    def change(rows):
        row = _span_row(rows, 2)
        row[column] = _flip(row[column])

    findings = verify(_loaded_after(tmp_path, "spans", change))
    side = column.partition("_")[0]
    assert [(finding.what, finding.step) for finding in findings] == [
        (f"{side} payload", 2),
        ("node", 2),
        ("manifest", None),
    ]


def _alter_exchange(row):
    row["exchange"] = row["exchange"].replace(b"POST", b"PUSH")


def _alter_read(row):
    row["reads"][0]["number"] += 1.0


def _alter_outcome(row):
    row["outcome"] = "error"


def _alter_side_effect(row):
    row["side_effect"] = "none"


def _alter_sequence(row):
    row["end_sequence"] += 1


@pytest.mark.parametrize(
    ("step", "alter"),
    [(1, _alter_exchange), (2, _alter_read), (2, _alter_outcome), (4, _alter_side_effect), (5, _alter_sequence)],
)
def test_an_altered_node_is_named(step, alter, tmp_path):
    """Heads, reads, outcomes, side effects and order are held by the manifest, which names the node."""
    findings = verify(_loaded_after(tmp_path, "spans", lambda rows: alter(_span_row(rows, step))))
    assert [(finding.what, finding.step) for finding in findings] == [("node", step), ("manifest", None)]


def test_altered_facts_of_the_run_are_named(tmp_path):
    """The manifest holds status and versions, too."""

    def change(rows):
        rows[0]["run"]["versions"] = [("agent", "9.9")]

    assert [finding.what for finding in verify(_loaded_after(tmp_path, "spans", change))] == ["manifest"]


def test_an_altered_manifest_digest_is_named(tmp_path):
    """The stored digest itself is one of the places."""

    def change(rows):
        rows[0]["run"]["manifest_digest"] = _flip(rows[0]["run"]["manifest_digest"])

    assert [finding.what for finding in verify(_loaded_after(tmp_path, "spans", change))] == ["manifest"]


def test_a_missing_step_is_named(tmp_path):
    """A row that was taken out is missed by count, by number and by the manifest."""
    findings = verify(_loaded_after(tmp_path, "spans", lambda rows: rows.remove(_span_row(rows, 3))))
    assert [(finding.kind, finding.what, finding.step) for finding in findings] == [
        (FindingKind.MISSING, "spans", None),
        (FindingKind.MISSING, "step", 3),
        (FindingKind.ALTERED, "manifest", None),
    ]


def test_missing_payloads_are_named(tmp_path):
    """With the payloads file gone every payload that was kept is missing; reading gives None."""
    write_runs(tmp_path, [full_run()], segments=["s"])
    _paths(tmp_path, "payloads")[0].unlink()
    loaded = Lake(tmp_path).load(full_run().run.run_id)
    assert loaded.payload(loaded.nodes[0].call.request.digest) is None
    findings = verify(loaded)
    assert {finding.kind for finding in findings} == {FindingKind.MISSING}
    assert len(findings) == 18


def test_a_digest_that_was_never_kept_is_no_finding(tmp_path):
    """Capture level `digest` stores no bytes, and that is not damage."""
    maker = RunMaker()
    maker.model([{"role": "user", "content": "hi"}], answer("ho"))
    maker.bodies.clear()
    write_runs(tmp_path, [maker.run()], segments=["s"])
    loaded = Lake(tmp_path).load(maker.run_id)
    assert loaded.payload(loaded.nodes[1].call.request.digest) is None
    assert verify(loaded) == []


@pytest.mark.parametrize("table", ["spans", "payloads"])
def test_a_flipped_byte_on_disk_never_passes_for_the_recording(table, tmp_path):
    """Whichever byte of the data pages flips, reading says so or gives exactly what was stored."""
    recorded = full_run()
    write_runs(tmp_path, [recorded], segments=["s"])
    path = _paths(tmp_path, table)[0]
    whole = path.read_bytes()
    footer = int.from_bytes(whole[-8:-4], "little") + 8
    said = 0
    for place in range(4, len(whole) - footer, 97):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        try:
            loaded = Lake(tmp_path).load(recorded.run.run_id)
            said += bool(verify(loaded))
            same = repr(loaded.spans) == repr(recorded.spans)
        except (DamagedRecording, RunNotFound):
            said += 1
            continue
        assert same
    assert said > 0


def test_a_cut_file_is_damage(tmp_path):
    """A file without its end is named in the error."""
    (path,) = write_runs(tmp_path, [full_run()], segments=["s"])
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DamagedRecording, match=path.name):
        Lake(tmp_path).load(full_run().run.run_id)


def test_a_newer_format_is_refused_by_name(tmp_path):
    """A file that needs a newer reader says so instead of being half understood."""
    (path,) = write_runs(tmp_path, [full_run()], segments=["s"])
    table = pq.read_table(path, partitioning=None)
    newer = dict(pq.read_metadata(path).metadata) | {b"agent_replay.reader_version": b"2"}
    pq.write_table(table.replace_schema_metadata(newer), path)
    with pytest.raises(UnsupportedFormat, match="reader of version 2"):
        Lake(tmp_path).load(full_run().run.run_id)
