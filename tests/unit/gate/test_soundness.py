"""Why a case folder is no test: the first fault that is to be mended, with what of it is wrong."""

from __future__ import annotations

import pytest

from otel_agent_replay.gate.manifest import Tampered, Tampering
from otel_agent_replay.gate.soundness import folder_fault
from otel_agent_replay.gate.verdict import Reason

ALTERED = Tampering(Tampered.FILE_ALTERED, "lake/spans/a.parquet")
MISSING = Tampering(Tampered.FILE_MISSING, "lake/spans/a.parquet")
UNREAD = Tampering(Tampered.PART_ALTERED, "lake/spans/a.parquet is no Parquet file")


@pytest.mark.parametrize(
    ("tampering", "reason"),
    [
        ([ALTERED, UNREAD], Reason.TAMPERED),
        ([MISSING], Reason.NO_RECORDING),
        ([MISSING, ALTERED], Reason.NO_RECORDING),
        ([], Reason.NO_RECORDING),
    ],
)
def test_a_recording_that_is_not_there_is_told_from_one_that_was_altered(tampering, reason):
    """Whatever of an altered file can still be read, it was tampered with; one that is gone has to be brought back."""
    found = folder_fault(tampering, has_run=False, has_fixtures=False)
    assert found is not None
    assert found[0] is reason
    assert all(
        one.what in found[1] for one in tampering if one.kind is not Tampered.FILE_ALTERED or reason is Reason.TAMPERED
    )


def test_a_folder_as_it_was_sealed_is_a_test():
    """Nothing is wrong where nothing was touched."""
    assert folder_fault([], has_run=True, has_fixtures=False) is None
