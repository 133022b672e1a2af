"""Exact replay of plain tool exchanges: how many a second, and whether that stays flat as a run grows.

Included in each exchange: the declared tool's front, its arguments taken by value and redacted, their digest, the
session's policy table, the tape's lookup, the answer's bytes fetched and proved by their digest, the completion order,
and the answer decoded. The recorded run lies in memory as a lake gives it: nodes without bytes, bytes by digest.
The second figure adds the replay's own recording as a run, into a journal on disk. Loading the tape is a cost of its
own and reported apart. Seconds are the thread's CPU time, the best of several replays.
"""

from __future__ import annotations

import sys
import tempfile
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from measure import Figure, report

import otel_agent_replay as replay
from otel_agent_replay.boundary.crossing import Place
from otel_agent_replay.boundary.policy import EXACT
from otel_agent_replay.boundary.runs import RunRequest
from otel_agent_replay.boundary.session import Session
from otel_agent_replay.model import AnswerSource, RecordedRun
from otel_agent_replay.payload.redaction import Redaction
from otel_agent_replay.replay.playback import Playback
from otel_agent_replay.replay.tape import Tape
from otel_agent_replay.testing.builders import run

COUNTS = (1_000, 10_000, 100_000)
_clock = (time.thread_time,)  # in a tuple: names of the module are rebound by the recorder


@replay.tool(side_effect="read")
def find_order(order_id: str, number: int) -> dict:
    raise AssertionError("a replay runs no tool")


class Nobody:
    """An observer that keeps nothing."""

    wants_facts = False

    def began(self, crossing):
        pass

    def ended(self, crossing, outcome):
        pass

    def inside(self, place):
        return nullcontext()


def recorded(count: int) -> RecordedRun:
    """Return a run of `count` tool exchanges, all different, as a lake gives it."""
    builder = run("bench")
    for number in range(count):
        builder.tool(
            "find_order", {"order_id": "17", "number": number}, {"order_id": "17", "state": "shipped", "number": number}
        )
    whole = builder.build()
    spans = []
    for span in whole.spans:
        node = span.node
        call = replace(node.call, request=node.call.request.without_data())
        outcome = replace(node.outcome, result=node.outcome.result.without_data())
        spans.append(replace(span, node=replace(node, call=call, outcome=outcome)))
    return replace(whole, spans=tuple(spans))


def exchanged(session: Session, count: int) -> float:
    """Make the calls; return the seconds of one."""
    clock = _clock[0]
    with session.entered():
        started = clock()
        for number in range(count):
            find_order("17", number)
        elapsed = clock() - started
    return elapsed / count


def played(source: RecordedRun, count: int) -> tuple[float, float]:
    """Return the seconds of an exchange, and those of loading the tape a step."""
    clock = _clock[0]
    started = clock()
    playback = Playback(Tape(source))
    loaded = (clock() - started) / count
    root = Place.root("bench")
    session = Session(
        run_id=source.run.run_id,
        root=root,
        mode=EXACT,
        observer=Nobody(),
        redaction=Redaction.default(),
        answerers={AnswerSource.TAPE: playback},
    )
    session.open()
    try:
        return exchanged(session, count), loaded
    finally:
        session.close()


def recorded_again(runtime, source: RecordedRun, count: int) -> float:
    """The same with the replay's own recording, its end included."""
    playback = Playback(Tape(source))
    session = runtime.recording.open(
        RunRequest(agent="bench"), mode=EXACT, answerers={AnswerSource.TAPE: playback}, origin_run_id=source.run.run_id
    )
    clock = _clock[0]
    seconds = exchanged(session, count)
    started = clock()
    runtime.recording.close(session, output=None, error=None)
    return seconds + (clock() - started) / count


def main() -> int:
    runtime = replay.configure(lake=Path(tempfile.mkdtemp(prefix="bench-")) / "lake", seal="off")
    plain, kept, loading = {}, {}, {}
    for count in COUNTS:
        source = recorded(count)
        times = max(2, 40_000 // count)
        found = [played(source, count) for _ in range(times)]
        plain[count] = min(seconds for seconds, _ in found)
        loading[count] = min(seconds for _, seconds in found)
        kept[count] = min(recorded_again(runtime, source, count) for _ in range(times))
    replay.shutdown()
    most = COUNTS[-1]
    table = ", ".join(f"{count}: {1e6 * plain[count]:.1f} us, recorded {1e6 * kept[count]:.1f} us" for count in COUNTS)
    return report(
        "replay_tool_exchanges",
        [
            Figure(
                "tool exchanges replayed a second, of 100,000",
                1 / plain[most],
                100_000,
                "/s",
                at_most=False,
                detail=f"({table})",
            ),
            Figure("the same with the replay's own recording", 1 / kept[most], 100_000, "/s", at_most=False),
            Figure("an exchange of 100,000 against one of 1,000", plain[most] / plain[COUNTS[0]], 1.3, "x"),
            Figure(
                "the same with the replay's own recording, of 100,000 against 1,000",
                kept[most] / kept[COUNTS[0]],
                1.3,
                "x",
            ),
            Figure("loading the tape, a step (once a run, apart)", 1e6 * loading[most], 15, "us"),
        ],
    )


if __name__ == "__main__":
    raise SystemExit(main())
