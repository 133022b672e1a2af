"""The wheel holds what the package needs and nothing else, and works where nothing but its own needs is installed."""

import configparser
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "otel_agent_replay"
COLLECTOR = ROOT / "collector" / "otel_agent_replay_collector"
CONSTRAINTS = ROOT / ".ci" / "constraints.txt"
OFFLINE = re.compile(
    r"NewConnectionError|ConnectTimeout|ReadTimeout|name resolution|Name or service not known|"
    r"Network is unreachable|ProxyError|Connection refused|Connection reset",
)


def clean_environment():
    """The test's environment without anything that could lead a child to the checkout, or away from certificates."""
    ours = ("AGENT_REPLAY_", "OTEL_", "PYTHON", "VIRTUAL_ENV", "SSL_CERT_DIR")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def run(*command, cwd, timeout_s=120):
    return subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of the checkout, built by its own backend without an index."""
    folder = tmp_path_factory.mktemp("dist")
    done = run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def names(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def in_checkout(pattern):
    return {path.relative_to(ROOT).as_posix() for path in PACKAGE.glob(pattern) if path.is_file()}


@pytest.mark.parametrize(
    "pattern",
    [
        "lake/views/*.sql",
        "lake/README.md",
        "casefile/case.schema.json",
        "report/*.json",
        "report/web/*",
        "replay/component/README.md",
        "demo/recording/**/*.parquet",
        "py.typed",
        "bootstrap/sitecustomize.py",
        "wire/v1/*_pb2.py",
        "wire/v1/*_pb2.pyi",
    ],
)
def test_the_wheel_holds_the_files_that_are_not_ordinary_modules(pattern, names):
    """Views, the contract page, the demo's recording, the typing mark, the shim and the generated code are in it."""
    wanted = in_checkout(pattern)
    assert wanted
    assert wanted <= names


def test_the_wheel_holds_every_module(names):
    """Each module of the checkout is in the wheel."""
    modules = {name for name in in_checkout("**/*.py") if "__pycache__" not in name}
    assert modules <= names
    assert {f"{path.parent.name}/{path.name}" for path in COLLECTOR.glob("*.py")} <= names


def test_the_wheel_holds_nothing_else(names):
    """No tests, benchmarks, build folders, bytecode or recordings of the developer's own."""
    tops = {name.partition("/")[0] for name in names}
    assert {re.sub(r"-[\w.]+\.dist-info$", ".dist-info", top) for top in tops} == {
        "otel_agent_replay",
        "otel_agent_replay.dist-info",
        "otel_agent_replay_collector",
    }
    kinds = {Path(name).suffix for name in names if name.startswith("otel_agent_replay/")}
    assert kinds == {".py", ".pyi", ".sql", ".md", ".parquet", ".typed", ".json", ".js", ".css"}
    parts = {part for name in names for part in Path(name).parts}
    assert not parts & {"tests", "build", "__pycache__", ".agent-replay", "journal"}


def test_the_wheel_names_its_seats(wheel, names):
    """Command, instrumentor, exporter and pytest plugin are its entry points, and each leads to something."""
    (place,) = (name for name in names if name.endswith(".dist-info/entry_points.txt"))
    parser = configparser.ConfigParser()
    with zipfile.ZipFile(wheel) as archive:
        parser.read_string(archive.read(place).decode())
    found = {group: dict(parser[group]) for group in parser.sections()}
    assert found == {
        "console_scripts": {"agent-replay": "otel_agent_replay.cli.main:main"},
        "opentelemetry_instrumentor": {"agent_replay": "otel_agent_replay.instrumentor:AgentReplayInstrumentor"},
        "opentelemetry_traces_exporter": {"agent_replay": "otel_agent_replay.export.exporter:LakeSpanExporter"},
        "pytest11": {"agent_replay": "otel_agent_replay.pytest_plugin.hooks"},
    }
    for target in (target for group in found.values() for target in group.values()):
        assert target.partition(":")[0].replace(".", "/") + ".py" in names


MINIMAL = """
import importlib.util, json, sys
import otel_agent_replay as replay
absent = [name for name in ("openai", "anthropic", "httpx", "aiohttp", "botocore", "pytest")
          if importlib.util.find_spec(name) is None]
replay.configure(lake="lake", seal="off")

@replay.tool(side_effect="read")
def look(place): return f"{place} is open"

@replay.agent
def guide(question): return look(question)

print(json.dumps({"absent": absent, "answer": guide("museum"), "from": replay.__file__}))
"""


@pytest.mark.soak
def test_a_fresh_installation_works_alone(wheel, tmp_path):
    """With its own dependencies alone: it imports, records, says what is there, and `agent-replay demo` replays."""
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True, env=clean_environment())
    python, command = venv / "bin" / "python", venv / "bin" / "agent-replay"
    options = ("--quiet", "--no-input", "--no-compile", "--disable-pip-version-check", "--retries", "1")
    done = run(python, "-m", "pip", "install", *options, "--constraint", CONSTRAINTS, wheel, cwd=tmp_path)
    if done.returncode != 0 and OFFLINE.search(done.stderr):
        pytest.skip("the package index cannot be reached")
    assert done.returncode == 0, done.stderr

    empty = tmp_path / "empty"
    empty.mkdir()
    done = run(python, "-W", "error", "-c", MINIMAL, cwd=empty)
    assert (done.returncode, done.stderr) == (0, "")
    seen = json.loads(done.stdout)
    assert {"openai", "anthropic", "httpx", "aiohttp"} <= set(seen["absent"])
    assert seen["answer"] == "museum is open"
    assert Path(seen["from"]).is_relative_to(venv)

    done = run(command, "demo", "--json", cwd=empty)
    assert done.returncode == 0, done.stderr
    assert [verdict["status"] for verdict in json.loads(done.stdout)] == ["same", "departed"]

    done = run(command, "runs", "--json", "--lake", "lake", cwd=empty)
    assert [one["agent"] for one in json.loads(done.stdout)["runs"]] == ["guide"], done.stderr
    done = run(command, "doctor", cwd=empty)
    assert done.returncode == 0, done.stdout
