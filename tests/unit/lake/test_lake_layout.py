"""Partitions and file names."""

from __future__ import annotations

from pathlib import Path

import pytest

from otel_agent_replay.lake.layout import LakeFile, Partition, file_name, files_in


@pytest.mark.parametrize(
    ("unix_ms", "date", "hour"),
    [
        (0, "1970-01-01", "00"),
        (1_795_000_000_000, "2026-11-18", "11"),
        (1_795_003_199_999, "2026-11-18", "11"),
        (1_795_003_200_000, "2026-11-18", "12"),
        (1 << 48, "9999-12-31", "23"),  # a clock gone wild must not make a run unstorable
        (-5, "1970-01-01", "00"),
    ],
)
def test_a_moment_names_its_hour_in_utc(unix_ms, date, hour):
    """Partitions are whole hours of UTC."""
    assert Partition.of_ms(unix_ms) == Partition(date, hour)


def test_a_folder_is_a_hive_partition():
    """Query engines read date and hour out of the folder's name."""
    folder = Partition("2026-11-18", "07").folder(Path("lake"), "spans")
    assert folder.as_posix() == "lake/spans/date=2026-11-18/hour=07"


def test_a_file_knows_its_neighbour_in_another_table():
    """The payloads of a spans file have the same name in the same partition."""
    path = Path("/l/spans/date=2026-11-18/hour=07") / file_name(1, 2, 3)
    assert LakeFile(path, 1, 2, 3).beside("payloads") == Path("/l/payloads/date=2026-11-18/hour=07") / path.name


def test_a_folder_that_is_not_there_has_no_files():
    """Absence is emptiness."""
    assert files_in(Path("/nowhere/at/all")) == []
