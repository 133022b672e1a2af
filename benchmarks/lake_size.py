"""Bytes that a recording takes: per model step of real trajectories, with the length of a run, with an image.

Floor: the same request and response bodies in one Parquet file with zstd, without ids, times or spans.
"""

from __future__ import annotations

import base64
import random
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import pyarrow as pa
import pyarrow.parquet as pq
from airline import Airline, corpus, exchanges
from measure import Figure, report

import otel_agent_replay as replay
from otel_agent_replay.export.sealer import seal


def size_of(folder: Path, pattern: str = "*") -> int:
    return sum(path.stat().st_size for path in folder.rglob(pattern) if path.is_file())


def recorded(conversations: list[dict], folder: Path) -> tuple[int, int, dict[str, int]]:
    """Record the conversations into a lake; return (sealed bytes, journal bytes before sealing, bytes by table)."""
    replay.configure(lake=folder, seal="off")
    airline = Airline()
    for conversation in conversations:
        airline.drive(conversation)
    replay.shutdown()
    journal = size_of(folder / "journal", "*.log")
    seal(folder)
    tables = {name: size_of(folder / name) for name in ("spans", "payloads", "losses")}
    return sum(tables.values()), journal, tables


def floor(conversations: list[dict], path: Path) -> int:
    bodies = [body for conversation in conversations for pair in exchanges(conversation["traj"]) for body in pair]
    pq.write_table(
        pa.table({"body": bodies}),
        path,
        compression="zstd",
        compression_level=9,
        use_dictionary=False,
        data_page_size=64 << 20,
    )
    return path.stat().st_size


def conversation_of(steps: int, seed: int = 7) -> dict:
    """A run of `steps` model steps whose texts do not repeat."""
    draw = random.Random(seed)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(3, 9))) for _ in range(4000)]
    trajectory: list[dict] = [{"role": "system", "content": " ".join(draw.choices(words, k=400))}]
    for _ in range(steps):
        trajectory.append({"role": "user", "content": " ".join(draw.choices(words, k=60))})
        trajectory.append({"role": "assistant", "content": " ".join(draw.choices(words, k=90))})
    return {"task_id": 0, "trial": 0, "traj": trajectory}


def with_image(turns: int) -> dict:
    image = base64.b64encode(random.Random(3).randbytes(750_000)).decode()
    picture = {
        "role": "user",
        "content": [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image}"}}],
    }
    trajectory: list[dict] = [{"role": "system", "content": "Describe."}, picture]
    for number in range(turns):
        trajectory += [
            {"role": "assistant", "content": f"Answer {number}."},
            {"role": "user", "content": f"Question {number}?"},
        ]
    return {"task_id": 0, "trial": 0, "traj": trajectory}


def main() -> int:
    folder = Path(tempfile.mkdtemp(prefix="bench-"))
    figures = []
    conversations = corpus()
    if conversations is None:
        print("the airline trajectories are not here: the bytes per model step are not measured")
    else:
        steps = sum(len(exchanges(one["traj"])) for one in conversations)
        sealed, _, tables = recorded(conversations, folder / "airline")
        bare = floor(conversations, folder / "bare.parquet") / steps
        per_table = ", ".join(f"{name} {size / steps:.0f}" for name, size in tables.items())
        figures.append(
            Figure(
                "lake bytes per model step, airline trajectories",
                sealed / steps,
                450,
                "bytes",
                detail=f"({steps} steps; {per_table}; bare Parquet of the bodies {bare:.0f})",
            )
        )
    sizes = {}
    for count in (100, 200):
        sealed, journal, _ = recorded([conversation_of(count)], folder / f"run{count}")
        sizes[count] = (sealed, journal)
    figures.append(
        Figure(
            "a 200-step run against a 100-step run, lake",
            sizes[200][0] / sizes[100][0],
            2.2,
            "x",
            detail=f"({sizes[200][0]} bytes)",
        )
    )
    figures.append(
        Figure(
            "a 200-step run against a 100-step run, journal",
            sizes[200][1] / sizes[100][1],
            2.2,
            "x",
            detail=f"({sizes[200][1]} bytes)",
        )
    )
    sealed, journal, _ = recorded([with_image(30)], folder / "image")
    figures.append(
        Figure(
            "30 turns carrying one 1 MB image, lake",
            sealed / 1e6,
            1.2,
            "MB",
            detail=f"(journal {journal / 1e6:.2f} MB)",
        )
    )
    return report("lake_size", figures)


if __name__ == "__main__":
    raise SystemExit(main())
