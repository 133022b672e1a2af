"""What a calibration found of one agent, as data: two recordings, what varied between them, what no tape gives back."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from otel_agent_replay.compare import Comparison
from otel_agent_replay.compare.nondeterminism import Varying
from otel_agent_replay.replay.settling import Settled, Unrecorded

_POSITION = re.compile(r"\[\d+\]")


@dataclass(frozen=True, slots=True)
class Calibration:
    """`varying` are the requests that differ between both recordings, `settled` what replays of the first showed.

    `reads` counts the recorded reads of clock, chance and environment, by name: each replay gets them again. `known`
    are the volatile rules that held before.
    """

    comparison: Comparison
    varying: Sequence[Varying]
    settled: Settled
    reads: Mapping[str, int]
    known: Sequence[str] = ()

    @property
    def proposed(self) -> list[str]:
        """The rules that are new."""
        return [rule for rule in self.settled.rules if rule not in self.known]

    def unrecorded(self, varying: Varying) -> Unrecorded | None:
        """Return what a replay could not give back at this place; None: it gave it back, or did not come so far.

        Positions of an array do not count: in another order its items differ at other ones.
        """
        shape = _POSITION.sub("[*]", varying.path)
        lost = (one for one in self.settled.found if one.step == varying.step)
        return next((one for one in lost if _POSITION.sub("[*]", one.path) == shape), None)
