"""Every recording that is there, read from its file and reduced once: files, framings and folds of all protocols, in seconds.

Two parts are told: reading the files (YAML and JSON cassettes, unpacking) and reducing the exchanges in them. The claim
is of the reduction; reading is said beside it. The floor in the same run is `json.loads` of the same bodies' JSON
texts, found by a plain split, which no reduction can go below.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

from measure import Figure, paired, report, spread, timed

from otel_agent_replay.imports import read_exchanges
from otel_agent_replay.model import WireExchange
from otel_agent_replay.protocols import Protocol
from otel_agent_replay.replay.protocol import protocol_of

LIMIT_S = 5.0


def files() -> list[Path]:
    named = os.environ.get("OTEL_AGENT_REPLAY_DATA")
    root = Path(named) if named else Path(__file__).parents[2] / "shared" / "data"
    index = root / "INDEX.tsv"
    if not index.is_file():
        return []
    return [root / line.split("\t")[0] for line in index.read_text(encoding="utf-8").splitlines()[1:]]


def main() -> int:
    """Reduce them all; without recordings there is nothing to measure, and that is said."""
    paths = files()
    if not paths:
        print("left out: no recordings (set OTEL_AGENT_REPLAY_DATA)")
        return report("reduce_everything", [])
    exchanges: list[WireExchange] = []
    reading = timed(lambda: exchanges.extend(one for path in paths for one in read_exchanges(path)))
    spoken: list[tuple[Protocol, WireExchange]] = []
    for exchange in exchanges:
        protocol = protocol_of(exchange)
        if protocol is not None:
            spoken.append((protocol, exchange))
    texts = [text for _, one in spoken for text in re.findall(rb"^(?:data: ?)?(\{.*\})\r?$", one.body, re.MULTILINE)]

    def reduce() -> None:
        for protocol, exchange in spoken:
            protocol.fold(exchange.body, exchange.media_type, exchange.status)

    def floor() -> None:
        for text in texts:
            try:
                json.loads(text)
            except ValueError:
                continue

    pairs = paired(reduce, floor, rounds=7)
    seconds, low, high = spread([mine for mine, _ in pairs])
    floor_s = spread([least for _, least in pairs])[0]
    size = sum(len(exchange.body) for _, exchange in spoken)
    detail = (
        f"{len(spoken)} exchanges of {len(paths)} files, {size / 1e6:.2f} MB: {size / seconds / 1e6:.1f} MB/s, "
        f"{seconds / floor_s:.1f} times json.loads of their events"
    )
    return report(
        "reduce_everything",
        [
            Figure("all recordings reduced once", seconds, LIMIT_S, "s", low=low, high=high, detail=detail),
            Figure("all recordings read from their files and reduced once", reading + seconds, LIMIT_S, "s"),
        ],
    )


if __name__ == "__main__":
    sys.exit(main())
