"""Planted secrets appear in no file written, in no form: journal, lake, verdict, command line, the service's spans."""

from __future__ import annotations

import base64
import json

import pytest
from click.testing import CliRunner

from otel_agent_replay.cli.main import main
from otel_agent_replay.model import Kind
from otel_agent_replay.testing import Reply, ScriptedProvider
from otel_agent_replay.testing.replies import openai_chat, openai_chat_stream
from tests.support.agents import Script, assert_same, nodes_of
from tests.support.canaries import found_in, found_in_folder

pytest.importorskip("httpx")

# Letters and digits only, so that no escape changes them and any file can be searched for them.
ALWAYS = {
    "request header": "Hq7Zx2Vb9Nn4Wk8Tt1Pa",
    "cookie": "Ck3Rf6Yh1Uj8Im5Ol2Xz",
    "query signature": "Qs9Wd4Ex7Rc2Tv5Yb8Un",
    "environment": "Ev2Bn5Mq8Lk1Jh4Gf7Ds",
    "response body": "sk-Rb6Tg3Yh9Uj2Ik8Ol5Pq7",
    "set-cookie": "Sc4Vf8Bg1Nh6Mj3Kk7Lz",
    "split over two chunks": "sk-Sp5Qa9Wz3Sx7Ed1Cr8Fv6",
    "exception message": "Xm8Pl3Ok6Ij1Uh9Yg4Tf",
    "exception cause": "Xc3Wn7Uv1Bh5Kt9Rz2Ls",
    "idempotency key": "sk-Ik6Vb2Nm8Lp4Qa1Ws7Ed3",
    "yielded item": "sk-Yi9Tg5Rf1Vc7Bx3Nz8Mq2",
    "thread id": "sk-Th4Jk8Ld2Fs6Gw1Qp5Xo9",
    "subject": "sk-Su7Ha3Pn9Ob5Ic1Vd8Mk4",
    "declared version": "sk-Dv3Mn7Kp1Qs9Tz5Bx2Lw8",
    "streamed upload": "sk-Up1Xe6Zr2Cy8Tu4Iw9Ov5",
    "JSON inside JSON": "Jj7Za2Xs5Cd8Vf1Bg4Nh",
    "command line": "sk-Ar4Wq8Ex2Rt6Yu1Io9Pa3",
    "span attribute": "sk-At2Zq6Wx9Ec4Rv7Tb1Yn5",
}
BY_RULE = {"tool argument": "Ta1Mn7Bv4Cx9Za2Sd6Fg", "prompt": "Pr6Lk2Jh9Gf4Ds7Ap1Oi"}
UNPROTECTED = {"unprotected": "Un5Qw9Er3Ty7Ui1Op4As"}
EVERY = {**ALWAYS, **BY_RULE, **UNPROTECTED}
RULES = [
    {"name": "social security", "action": "mask", "path": "customer.ssn"},
    {"name": "patients", "action": "hash", "pattern": r"patient-\w+"},
]

SOURCE = """
import base64, json, os, sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
import httpx
import otel_agent_replay as replay
replay.configure()

PLANTED = json.loads(PLANTED_JSON)
URL = os.environ["SERVER"]
tracer = provider.get_tracer("the service's own")

class LoginFailed(Exception):
    pass

@replay.tool(side_effect="write")
def store(customer, note):
    return {"stored": customer["ssn"][:2], "note": note}

@replay.tool(side_effect="read")
def log_in():
    try:
        raise OSError(f"no route to amqp://service:{PLANTED['exception cause']}@queue/main")
    except OSError as error:
        raise LoginFailed(f"cannot reach postgres://service:{PLANTED['exception message']}@db/main") from error

@replay.tool(side_effect="write", idempotency_key=lambda number: f"{PLANTED['idempotency key']}-{number}")
def pages(number):
    for page in range(number):
        yield f"page {page}: {PLANTED['yielded item']}"

def pieces():
    yield b"api_key is "
    yield PLANTED["streamed upload"].encode()

def chat(client, *texts, stream=False):
    body = {"model": "m", "messages": [{"role": "user", "content": text} for text in texts], "stream": stream}
    headers = {"X-Api-Key": PLANTED["request header"]}
    with client.stream("POST", URL + "/v1/chat/completions", json=body, headers=headers) as response:
        return response.read()

@replay.agent(thread_id=lambda question: PLANTED["thread id"], subject=lambda question: PLANTED["subject"],
              version=f"built with {PLANTED['declared version']}", policy_version=PLANTED["declared version"])
def leaky(question):
    secret = os.environ["DATABASE_PASSWORD"]
    client = httpx.Client(cookies={"session": PLANTED["cookie"]})
    client.get(URL + "/file", params={"X-Amz-Signature": PLANTED["query signature"], "q": "plain"})
    client.post(URL + "/file", content=pieces())
    list(pages(2))
    answer = chat(client, "what now?").decode()
    told = json.loads(answer)["choices"][0]["message"]["content"]
    packed = base64.b64encode(f"the password is {secret}, keep it".encode()).decode()
    arguments = json.dumps({"inner": json.dumps({"password": PLANTED["JSON inside JSON"], "told": told})})
    chat(client, f"the password is {secret}", f"packed: {packed}", f"patient-{PLANTED['prompt']}",
         f"seen: {PLANTED['cookie']}", arguments, PLANTED["unprotected"])
    streamed = chat(client, "stream it", stream=True).decode()
    store({"name": "Ann", "ssn": PLANTED["tool argument"]}, note=f"uses {secret} and {streamed}")
    with tracer.start_as_current_span(f"call {secret}") as span:
        span.set_attribute("http.url", f"{URL}/x?X-Amz-Signature={PLANTED['query signature']}")
        span.set_attribute("list", ["fine", PLANTED["span attribute"]])
        span.add_event("login", {"password": secret, "note": PLANTED["span attribute"]})
    with replay.step("look", note=f"with {secret}", url=f"{URL}/x?X-Amz-Signature={PLANTED['query signature']}"):
        replay.versions(policy=f"policy of {secret}")
    replay.checkpoint("half way", {"connection": f"redis://:{secret}@cache/0"}, resumable=True)
    try:
        log_in()
    except LoginFailed as error:
        return {"told": told, "failed": str(error), "streamed": streamed, "question": question}

leaky(f"do you know {PLANTED['command line']}?")
with open("spans.json", "w") as file:
    ours = [span for span in exporter.get_finished_spans() if span.instrumentation_scope.name != "the service's own"]
    file.write("\\n".join(span.to_json() for span in ours))
"""


def server():
    split = ALWAYS["split over two chunks"]

    def script(request):
        if request.path.startswith("/file"):
            return Reply(b"{}", headers=(("content-type", "application/json"), ("Set-Cookie", set_cookie)))
        if request.json["stream"]:
            body = openai_chat_stream([f"here it is: {split}."]).body
            at = body.index(split.encode())
            return Reply.of_events(body, cuts=[at + 2, at + 9, at + 15])
        inner = json.dumps({"api_key": ALWAYS["JSON inside JSON"]})
        calls = [{"id": "call_1", "name": "log_in", "arguments": json.dumps({"again": inner})}]
        return openai_chat(f"take {ALWAYS['response body']} with you", tool_calls=calls)

    set_cookie = f"sid={ALWAYS['set-cookie']}; HttpOnly"
    return ScriptedProvider(script)


def leaky_script(folder, provider, **environment):
    planted = json.dumps(json.dumps(EVERY))
    return Script(
        folder,
        SOURCE.replace("PLANTED_JSON", planted),
        SERVER=provider.url,
        DATABASE_PASSWORD=ALWAYS["environment"],
        AGENT_REPLAY_HASH_KEY="a key for hashes",
        **environment,
    )


class Planted:
    """The leaky agent recorded, searched before and after sealing, replayed, and shown by every command."""

    def __init__(self, folder, *, with_rules):
        with server() as provider:
            script = leaky_script(folder, provider)
            if with_rules:
                rules = folder / "rules.json"
                rules.write_text(json.dumps(RULES))
                script.environment["AGENT_REPLAY_REDACTION"] = str(rules)
            script.run("--api-key", ALWAYS["command line"], process_run=True)
        self.in_journal = found_in_folder(script.lake, EVERY)
        self.journal_size = len(script.journal_bytes())
        script.seal()
        (self.run,) = [script.load(run) for run in script.runs() if run.agent == "leaky"]
        self.verdict = script.replay(
            self.run,
            "--api-key",
            ALWAYS["command line"],
            process_run=True,
            allow_write=[folder / "spans.json"],
            # The environment is scrubbed; what the agent packs into base64 is only equal with the secret itself.
            identity={"DATABASE_PASSWORD": ALWAYS["environment"]},
        )
        self.in_replays_journal = found_in_folder(script.lake, EVERY)
        script.seal()
        self.in_lake = found_in_folder(script.lake, EVERY)
        self.in_spans = found_in((folder / "spans.json").read_bytes(), EVERY)
        self.in_verdict = found_in(self.verdict.to_json().encode(), EVERY)
        self.in_payloads = set().union(*(found_in(self.run.payload(digest) or b"", EVERY) for digest in self.run.kept))
        self.in_commands = {name: found_in(text.encode(), EVERY) for name, text in self._commands(script)}

    def _commands(self, script):
        run, other = self.run.run.run_id.hex(), self.verdict.replay_run_id
        steps = [node.step for node in self.run.nodes if node.step is not None]
        asked = [
            ["runs"], ["runs", "--json"], ["show", run], ["show", run, "--json"], ["show", run, "--coverage"],
            ["diff", run, other], ["diff", run, other, "--json"], ["verify", run], ["doctor"],
            ["sql", "SELECT * FROM messages"], ["sql", "SELECT * FROM tool_calls"], ["sql", "SELECT * FROM spans"],
            ["sql", "SELECT * FROM checkpoints"],
            *(["show", run, "--step", str(step)] for step in steps),
        ]  # fmt: skip
        for arguments in asked:
            done = CliRunner().invoke(main, [arguments[0], "--lake", str(script.lake), *arguments[1:]])
            assert done.output, arguments
            yield " ".join(arguments), done.output


@pytest.fixture(scope="module")
def with_rules(tmp_path_factory):
    return Planted(tmp_path_factory.mktemp("ruled"), with_rules=True)


@pytest.fixture(scope="module")
def without_rules(tmp_path_factory):
    return Planted(tmp_path_factory.mktemp("unruled"), with_rules=False)


def names_in(found):
    return set().union(*found.values())


def test_the_search_finds_a_secret_in_every_disguise():
    """The search itself works: a marker is found plain, in hexadecimal and in base64 at every alignment."""
    secret = {"one": "Ab3Cd5Ef7Gh9Ij1Kl2Mn"}
    for text in (secret["one"], secret["one"].encode().hex()):
        assert found_in(f"x{text}y".encode(), secret)
    for ahead in range(4):
        packed = base64.b64encode(b"?" * ahead + secret["one"].encode() + b" and so on")
        assert found_in(b'{"data": "' + packed + b'"}', secret)
    assert not found_in(b"nothing here", secret)


def test_with_rules_only_the_unprotected_marker_is_found(with_rules):
    """With rules nothing planted is in any file but the marker that nobody protected, which proves the search."""
    assert with_rules.journal_size > 0
    assert names_in(with_rules.in_journal) == {"unprotected"}
    assert names_in(with_rules.in_replays_journal) == {"unprotected"}
    assert names_in(with_rules.in_lake) <= {"unprotected"}
    assert with_rules.in_payloads == {"unprotected"}


def test_without_rules_credentials_are_still_kept_out(without_rules):
    """Without rules the built-in ones hold: what only a rule protects is found, and nothing else."""
    found = {"unprotected", *BY_RULE}
    assert names_in(without_rules.in_journal) == found
    assert names_in(without_rules.in_replays_journal) == found
    assert without_rules.in_payloads == found


@pytest.mark.parametrize("kind", ["with_rules", "without_rules"])
def test_no_command_and_no_verdict_shows_a_secret(kind, request):
    """What the command line prints, and the verdict, hold no protected secret; the unprotected one is shown."""
    planted = request.getfixturevalue(kind)
    allowed = {"unprotected"} if kind == "with_rules" else {"unprotected", *BY_RULE}
    leaks = {name: found - allowed for name, found in planted.in_commands.items() if found - allowed}
    assert leaks == {}
    assert "unprotected" in names_in(planted.in_commands)
    assert planted.in_verdict <= allowed


def test_the_services_backend_gets_no_secret_and_no_prompt(with_rules):
    """The spans that we emit for everyone hold no planted secret, not even the unprotected prompt."""
    assert with_rules.in_spans == set()


@pytest.mark.parametrize("kind", ["with_rules", "without_rules"])
def test_a_redacted_recording_replays_the_same(kind, request):
    """The same rules mask what is stored and what comes, so playback still matches everything."""
    assert_same(request.getfixturevalue(kind).verdict)


def test_at_level_digest_nothing_that_was_said_is_written(tmp_path):
    """With capture level `digest` not even the unprotected marker reaches a file, though the run is recorded."""
    with server() as provider:
        script = leaky_script(tmp_path, provider, AGENT_REPLAY_CAPTURE="digest")
        script.run("--api-key", ALWAYS["command line"])
    assert found_in_folder(script.lake, EVERY) == {}
    script.seal()
    assert found_in_folder(script.lake, EVERY) == {}
    (run,) = script.runs()
    assert len(nodes_of(script.load(run), Kind.MODEL)) == 3
