"""Makes `format-1/`: `python -m tests.golden.make_format_1` records its agent, keeps the journal segment, seals it.

For use until format 1 is released; from then on its recordings are never made again. `format-1/README.md` says more.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from otel_agent_replay import bootstrap
from otel_agent_replay.export.sealer import seal
from otel_agent_replay.testing import Reply, ScriptedProvider
from otel_agent_replay.testing.provider import SeenRequest
from otel_agent_replay.testing.replies import openai_chat, openai_chat_stream

FOLDER = Path(__file__).parent / "format-1"
ANSWER = ["Ihr ", "Paket ", "ist ", "verloren; ", "49,00 € ", "kommen ", "zurück ", "\U0001f91d"]
MOST_BYTES = 200_000


def script(request: SeenRequest) -> Reply:
    """Play the shop and its model: the stock, a tool call, then a streamed answer cut inside a character."""
    if request.path == "/stock/17":
        return Reply.of_json({"stock": 0, "where": "Köln"}, coding="gzip")
    if request.json.get("stream"):
        whole = openai_chat_stream(ANSWER, model="gpt-4o")
        inside = whole.body.index("€".encode()) + 1
        return openai_chat_stream(ANSWER, model="gpt-4o", cuts=[*whole.cuts, inside])
    calls = [{"id": "call_1", "name": "find_order", "arguments": '{"order_id": "17"}'}]
    return openai_chat(None, model="gpt-4o", tool_calls=calls)


def environment(url: str, lake: Path) -> dict[str, str]:
    """Return the recorded process's environment: nothing of this machine's own reaches the recording."""
    root = Path(bootstrap.__file__).parents[2]
    return {
        "PATH": os.environ.get("PATH", ""),
        "PYTHONPATH": os.pathsep.join((str(Path(bootstrap.__file__).parent), str(root))),
        "PYTHONHASHSEED": "17",
        "SHOP_URL": url,
        "SHOP_KEY": "sk-" + "shopkey" * 4,
        "SHOP_REGION": "eu-1",
        "OTEL_SERVICE_NAME": "shop",
        "AGENT_REPLAY_LAKE": str(lake),
        "AGENT_REPLAY_SEAL": "off",
    }


def main() -> None:
    """Record, keep the segment, seal, and put both where the test reads them."""
    with tempfile.TemporaryDirectory() as folder, ScriptedProvider(script) as provider:
        lake = Path(folder) / "lake"
        shutil.copy(FOLDER / "agent.py", folder)
        subprocess.run([sys.executable, "agent.py"], cwd=folder, env=environment(provider.url, lake), check=True)
        for part in ("journal", "lake"):
            shutil.rmtree(FOLDER / part, ignore_errors=True)
        (segment,) = (lake / "journal").glob("*.log")
        (FOLDER / "journal").mkdir()
        shutil.copy(segment, FOLDER / "journal")
        report = seal(lake)
        assert report.runs == 1
        assert not report.losses
        for table in ("spans", "payloads"):
            shutil.copytree(lake / table, FOLDER / "lake" / table)
    size = sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file())
    assert size < MOST_BYTES, size
    print(f"{FOLDER}: {size} bytes")


if __name__ == "__main__":
    main()
