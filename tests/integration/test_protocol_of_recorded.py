"""A stream that our recorder took from a real socket, in its own pieces, through `agent-replay protocol` again."""

from __future__ import annotations

import json
import textwrap

import pytest
from click.testing import CliRunner

from otel_agent_replay.cli.main import main
from otel_agent_replay.testing import Reply, ScriptedProvider
from otel_agent_replay.testing.recorded_bodies import chat_stream
from tests.support.agents import Script

pytest.importorskip("httpx")

SOURCE = """
    import os, httpx
    import otel_agent_replay as replay

    @replay.agent(name="reader")
    def reader():
        body = {"model": "m", "messages": [{"role": "user", "content": "q"}], "stream": True}
        with httpx.Client() as client:
            with client.stream("POST", os.environ["SERVER"] + "/v1/chat/completions", json=body) as answer:
                return sum(map(len, answer.iter_raw()))

    reader()
"""

# One decodes each piece by itself, and breaks where a character was cut; the other joins them first.
ADAPTER = """
    def parse(chunks, media_type, status):
        return {"text": "".join(chunk.decode("utf-8", "replace") for chunk in chunks)}

    def whole(chunks, media_type, status):
        return {"text": b"".join(chunks).decode()}
"""


def test_recorded_pieces_show_what_a_parser_does_with_them(tmp_path, monkeypatch):
    """The pieces that the network gave are on the tape: a parser that breaks at one of them is told at that cut."""
    body = chat_stream(["Sun", "ny"]).data + ": ☀\n\n".encode()
    inside = body.index("☀".encode()) + 1
    reply = Reply.of_events(body, cuts=(40, inside))
    with ScriptedProvider([reply]) as provider:
        script = Script(tmp_path, SOURCE, SERVER=provider.url)
        recorded = script.record()["reader"]
    (tmp_path / "their_parser_of_pieces.py").write_text(textwrap.dedent(ADAPTER), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    adapters = ["--adapter", "their_parser_of_pieces:whole", "--adapter", "their_parser_of_pieces:parse"]
    command = ["protocol", recorded.run.run_id.hex(), "--lake", str(script.lake), "--json", *adapters]
    result = CliRunner().invoke(main, command, catch_exceptions=False)
    assert result.exit_code == 1, result.stderr
    (exchange,) = json.loads(result.stdout)["exchanges"]
    assert exchange["text"] == "Sunny"
    found = {item["parser"]: item for item in exchange["rechunked"]}
    assert found["ours"]["same"]
    assert found["their_parser_of_pieces:whole"]["same"]
    assert found["their_parser_of_pieces:parse"]["failed"] == "recorded"
    assert found["their_parser_of_pieces:parse"]["cut_at"] == [inside]
