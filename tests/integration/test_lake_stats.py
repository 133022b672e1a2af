"""`agent-replay stats`: rows, bytes, sharing and files, as they lie on disk."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from otel_agent_replay.cli.main import main
from otel_agent_replay.lake.compaction import compact
from otel_agent_replay.lake.layout import all_files
from otel_agent_replay.lake.stats import stats_of
from otel_agent_replay.lake.writer import write_runs
from tests.support.lake_runs import STARTED_MS, RunMaker, answer, full_run

HOUR_MS = 3_600_000


@pytest.fixture
def lake(tmp_path):
    for number in range(3):
        write_runs(tmp_path, [full_run(number)], segments=[f"{number}"])
    write_runs(tmp_path, [full_run(3, started_ms=STARTED_MS + HOUR_MS)], segments=["3"])
    return tmp_path


def shown(lake, *arguments, status=0):
    done = CliRunner().invoke(main, ["stats", "--lake", str(lake), *arguments])
    assert done.exit_code == status, done.output
    return done


def told(lake, status=0):
    return json.loads(shown(lake, "--json", status=status).stdout)


def test_rows_and_bytes_are_those_on_disk(lake):
    """Per table: files, rows, bytes; its columns and its footers together are its bytes."""
    document = told(lake)
    assert (document["schema"], document["schema_version"], document["runs"]) == ("agent-replay/stats", 1, 4)
    for table, one in document["tables"].items():
        paths = sorted((lake / table).rglob("*.parquet"))
        assert one["files"] == len(paths)
        assert one["rows"] == sum(pq.read_metadata(path).num_rows for path in paths)
        assert one["bytes"] == sum(path.stat().st_size for path in paths)
        assert sum(one["columns"].values()) + one["footer_bytes"] == one["bytes"]
        assert all(size > 0 for size in one["columns"].values())
    assert {"run_id", "attributes", "request_digest"} <= document["tables"]["spans"]["columns"].keys()


def test_payloads_are_told_by_kind(lake):
    """Pieces by their role, whole payloads, and those in pieces; their bytes are those of the table."""
    kinds = told(lake)["payload_kinds"]
    rows = [row for path in (lake / "payloads").rglob("*.parquet") for row in pq.read_table(path).to_pylist()]
    for role in ("system", "user", "assistant", "envelope"):
        of_role = [row for row in rows if row["role"] == role]
        assert kinds[role] == {"rows": len(of_role), "bytes": sum(len(row["data"]) for row in of_role)}
    whole = [row for row in rows if row["role"] is None and row["data"] is not None]
    assert kinds["whole"] == {"rows": len(whole), "bytes": sum(len(row["data"]) for row in whole)}
    assert kinds["in pieces"]["rows"] == sum(row["data"] is None for row in rows)


def test_the_dedup_ratio_is_bytes_given_for_each_that_is_stored(tmp_path):
    """A conversation whose requests repeat it is given many times and stored once; compaction shares it further."""
    for number in range(3):
        maker = RunMaker(number)
        messages = [{"role": "system", "content": "Be kind. " * 100}]
        for turn in range(20):
            messages.append({"role": "user", "content": f"{turn} " + "word " * 50})
            maker.model(messages, answer("yes"))
        write_runs(tmp_path, [maker.run()], segments=[f"{number}"])
    before = stats_of(tmp_path)
    given = sum(before.given.values())
    sizes = [row for path in (tmp_path / "spans").rglob("*.parquet") for row in pq.read_table(path).to_pylist()]
    assert given == sum(
        row[f"{side}_size"] for row in sizes for side in ("request", "result") if row[f"{side}_payload"] is not None
    )
    assert before.dedup_ratio == given / before.stored > 5
    assert before.given["model"] > before.given["run"]
    compact(tmp_path, grace_s=0)
    after = stats_of(tmp_path)
    assert sum(after.given.values()) == given
    assert after.dedup_ratio > 2.5 * before.dedup_ratio


def test_files_are_told_by_hour_with_advice(lake):
    """How many files each hour has, how many are small, what compaction would make of them; then none is left."""
    document = told(lake)
    assert [(one["files"], one["small"]) for one in document["partitions"]] == [(3, 3), (1, 1)]
    assert sum(one["size"] for one in document["partitions"]) == sum(
        one["bytes"] for one in document["tables"].values()
    )
    assert document["small_file_share"] == 1.0
    assert document["mergeable_files"] == 9
    assert document["advice"] == ["9 files would become 3: agent-replay compact"]
    compact(lake, grace_s=0)
    document = told(lake)
    assert (document["mergeable_files"], document["advice"]) == (0, [])
    assert [one["files"] for one in document["partitions"]] == [1, 1]


def test_people_get_tables(lake):
    """Runs, tables, columns, kinds, sharing, hours and advice stand there; `--all` shows every column."""
    output = shown(lake).output
    for text in (
        "4 runs",
        "payloads.data",
        "spans: footers",
        "envelope",
        "that is stored",
        "2026-11-18 11",
    ):
        assert text in output
    assert "advice: 9 files would become 3: agent-replay compact" in output
    assert len(shown(lake, "--all").output.splitlines()) > len(output.splitlines())


def test_files_that_cannot_be_read_are_named_and_the_rest_is_told(lake):
    """Exit code 1; the others are counted."""
    file = next(all_files(lake, "payloads"))
    file.path.write_bytes(b"PAR1 torn")
    document = told(lake, status=1)
    assert [one["path"] for one in document["unreadable"]] == [str(file.path)]
    assert document["tables"]["payloads"]["files"] == 3
    assert "agent-replay doctor --deep" in document["advice"][-1]


def test_an_empty_lake_takes_nothing(tmp_path):
    """No rows, no ratio, no advice, and no folder is made."""
    document = told(tmp_path / "none")
    assert (document["runs"], document["dedup_ratio"], document["partitions"]) == (0, None, [])
    assert document["advice"] == []
    assert not (tmp_path / "none").exists()
