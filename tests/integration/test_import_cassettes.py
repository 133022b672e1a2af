"""`agent-replay import` of HTTP cassettes: a run of raw exchanges."""

from __future__ import annotations

import gzip
import json

import pytest
import yaml
from click.testing import CliRunner

from otel_agent_replay.cli.main import main
from otel_agent_replay.imports.files import read_file
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.model import Fidelity, Kind, SideEffect
from otel_agent_replay.protocols import OPENAI_CHAT
from tests.support.recordings import data_folder
from tests.support.trajectories import imported

URL = "https://api.openai.com/v1/chat/completions"
SECRET = "sk-proj-" + "a1B2c3D4e5F6g7H8i9J0" * 2
DELTA = {"delta": {"content": "hé"}, "finish_reason": "stop"}
CHUNK = {"object": "chat.completion.chunk", "model": "gpt-4o-mini", "choices": [DELTA]}
SSE = f"data: {json.dumps(CHUNK, ensure_ascii=False)}\n\n"
ASKED = json.dumps({"model": "gpt-4o-mini", "stream": True, "messages": [{"role": "user", "content": "zip"}]})


def cassette(tmp_path, name="a.yaml"):
    head = {"authorization": [f"Bearer {SECRET}"], "content-type": ["application/json"]}
    model = {
        "request": {"method": "POST", "uri": URL, "headers": head, "body": ASKED},
        "response": {
            "status": {"code": 200, "message": "OK"},
            "headers": {"Content-Type": ["text/event-stream"], "Content-Encoding": ["gzip"], "X-Echo": [SECRET]},
            "body": {"string": gzip.compress(SSE.encode())},
        },
    }
    other = {
        "request": {"method": "DELETE", "uri": "https://shop.test/orders/7?api_key=1234", "headers": {}, "body": None},
        "response": {"status": {"code": 404, "message": "no"}, "headers": {}, "body": {"string": '{"why": "gone"}'}},
    }
    path = tmp_path / name
    path.write_text(yaml.safe_dump({"interactions": [model, other], "version": 1}), encoding="utf-8")
    return path


def test_a_cassette_is_a_run_of_raw_exchanges(tmp_path):
    """One step an interaction, with the unpacked bytes of both bodies, and what a model call says of itself."""
    (one,) = imported(cassette(tmp_path))
    model, other = one.run.nodes[1:]
    assert (model.kind, model.name, model.fidelity) == (Kind.MODEL, "chat", Fidelity.EXCHANGE)
    assert one.run.payload(model.call.request.digest).decode() == ASKED
    assert one.run.payload(model.outcome.result.digest).decode() == SSE
    assert one.run.spans[1].span.attributes["gen_ai.request.model"] == "gpt-4o-mini"
    assert (other.kind, other.name, other.side_effect) == (Kind.HTTP, "DELETE shop.test/orders/7", SideEffect.WRITE)
    assert other.outcome.head.status == 404
    told = {entry.what: entry.state for entry in one.run.run.coverage.entries}
    assert told["chunk boundaries"] == told["times"] == told["tools"] == "not_captured"


def test_credentials_stay_outside(tmp_path):
    """The authorization header is dropped, its secret masked wherever it stands, and a key in a URL too."""
    (one,) = imported(cassette(tmp_path))
    assert SECRET not in repr(one.run.spans)
    assert "api_key=1234" not in repr(one.run.spans)
    assert "authorization" not in repr(one.run.spans).lower()


def test_an_imported_cassette_is_asked_about_like_a_recording(tmp_path):
    """`protocol` reads its streams again, `sql` sees its messages, and `show` says what a cassette does not tell."""
    lake = tmp_path / "lake"
    done = CliRunner().invoke(main, ["import", "--lake", str(lake), str(cassette(tmp_path)), "--json"])
    run = json.loads(done.stdout)["traces"][0]["run"]
    read = CliRunner().invoke(main, ["protocol", "--lake", str(lake), run, "--json"])
    assert read.exit_code == 0, read.output
    assert "h\\u00e9" in read.stdout or "hé" in read.stdout
    rows = CliRunner().invoke(
        main, ["sql", "--lake", str(lake), "SELECT text FROM messages ORDER BY direction", "--json"]
    )
    assert [row["text"] for row in json.loads(rows.stdout)] == ["zip", "hé"]
    shown = CliRunner().invoke(main, ["show", "--lake", str(lake), run, "--coverage"])
    assert "chunk boundaries" in shown.output


def test_unsafe_tags_are_text(tmp_path):
    """YAML that names Python objects runs nothing: an unknown tag is an error, known ones are plain text."""
    path = tmp_path / "bad.yaml"
    path.write_text("interactions:\n- !!python/object/apply:os.system ['touch /tmp/x']\n", encoding="utf-8")
    done = CliRunner().invoke(main, ["import", "--lake", str(tmp_path / "lake"), str(path)])
    assert done.exit_code == 125
    assert "is no exchange" in done.output
    assert Lake(tmp_path / "lake").runs() == []


def test_recordings_of_nock_are_runs_too(tmp_path):
    """A list of nock's scopes is a run, though it is JSON."""
    entry = {
        "scope": "https://api.openai.com:443", "method": "POST", "path": "/v1/chat/completions",
        "body": json.loads(ASKED), "status": 200, "response": SSE, "rawHeaders": ["Content-Type", "text/event-stream"],
    }  # fmt: skip
    path = tmp_path / "nock.json"
    path.write_text(json.dumps([entry]), encoding="utf-8")
    assert read_file(path).format == "vcr"
    (one,) = imported(path)
    assert [node.kind for node in one.run.nodes[1:]] == [Kind.MODEL]


@pytest.mark.real
@pytest.mark.skipif(data_folder() is None, reason="no recordings: set OTEL_AGENT_REPLAY_DATA to the data folder")
def test_case_s19():
    """Packed and unpacked bodies under one header give the same message, whatever the content-length says."""
    folder = data_folder() / "cases" / "S19-vcr-gzip-body"
    expected = json.loads((folder / "expected.json").read_text())
    (one,) = imported(folder / "input.yaml")
    models = [node for node in one.run.nodes if node.kind is Kind.MODEL]
    assert len(models) == expected["interactions"]
    for node in models:
        body = one.run.payload(node.outcome.result.digest)
        folded = OPENAI_CHAT.fold(body, node.outcome.result.media_type, node.outcome.head.status)
        wanted = expected["result_each"]
        assert (folded.complete, folded.finish_reason, folded.text, list(folded.tool_calls)) == (
            wanted["complete"], wanted["finish_reason"], wanted["text"], wanted["tool_calls"],
        )  # fmt: skip


@pytest.mark.real
@pytest.mark.skipif(data_folder() is None, reason="no recordings: set OTEL_AGENT_REPLAY_DATA to the data folder")
def test_every_real_cassette_is_a_run():
    """Every VCR and nock file of the index imports, one step an interaction."""
    lines = (data_folder() / "INDEX.tsv").read_text(encoding="utf-8").splitlines()
    columns = lines[0].split("\t")
    rows = [dict(zip(columns, line.split("\t"), strict=False)) for line in lines[1:]]
    wanted = [row for row in rows if row["format"] in ("vcr-yaml", "vcr-json", "nock", "nock-json")]
    assert len(wanted) > 100
    for row in wanted[::5]:
        (one,) = imported(data_folder() / row["path"])
        assert len(one.run.nodes) - 1 == int(row["interactions"]), row["path"]
