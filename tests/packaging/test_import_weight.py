"""Importing the package in somebody's service stays light."""

import subprocess
import sys

import pytest

HEAVY = (
    "duckdb",
    "pyarrow",
    "numpy",
    "genai_prices",
    "click",
    "rich",
    "rapidfuzz",
    "starlette",
    "jinja2",
    "httpx",
    "httpx2",
    "requests",
    "aiohttp",
    "yaml",
)


@pytest.mark.parametrize(
    "statement",
    [
        "import otel_agent_replay",
        "import otel_agent_replay.instrumentor",
        "import otel_agent_replay.testing",
        "import otel_agent_replay.pytest_plugin.hooks",
    ],
)
def test_importing_loads_no_heavy_package(statement: str) -> None:
    """Importing the public API or the entry point loads no storage, client or command-line library."""
    code = f"import sys; {statement}; print(sorted(set(sys.modules) & set({HEAVY!r})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_configuring_loads_no_heavy_package(tmp_path) -> None:
    """Starting to record loads no storage or analysis library into the host, nor what reads installed packages."""
    code = (
        "import sys, otel_agent_replay as replay; replay.configure(lake=sys.argv[1], seal='off')\n"
        "@replay.agent\ndef a(x): return x\n"
        "a(1)\n"
        f"print(sorted(set(sys.modules) & {{*{HEAVY!r}, 'importlib.metadata', 'email.parser'}}))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_command_waits_for_none_of_what_it_does_not_use() -> None:
    """Showing the version or a list of commands loads neither recording nor storage nor an event loop."""
    code = (
        "import sys\n"
        "from otel_agent_replay.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "rooms = {'.'.join(name.split('.')[:2]) for name in sys.modules if name.startswith('otel_agent_replay.')}\n"
        "print(sorted(rooms), {'asyncio', 'google.protobuf', 'opentelemetry'} & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (
        done.stderr.strip()
        == str([f"otel_agent_replay.{room}" for room in ("cli", "errors", "report", "version")]) + " set()"
    )


def test_sealing_and_reading_a_small_lake_load_nothing_that_is_slow_to_import(tmp_path) -> None:
    """Recording's end, the list of runs and a loaded run need neither DuckDB nor `pyarrow.compute` (60 ms)."""
    code = (
        "import sys, pathlib, otel_agent_replay as replay; lake = pathlib.Path(sys.argv[1])\n"
        "replay.configure(lake=lake, seal='off')\n"
        "@replay.tool(side_effect='read')\ndef look(x): return {'found': [x, 1.5, None]}\n"
        "@replay.agent\ndef a(x): return look(x)\n"
        "a('1')\n"
        "replay.shutdown()\n"
        "from otel_agent_replay.export.sealer import seal\n"
        "from otel_agent_replay.lake.catalog import Lake\n"
        "seal(lake); stored = Lake(lake); (one,) = stored.runs()\n"
        "assert len(stored.load(one.run.run_id).nodes) == 2\n"
        "print(sorted(set(sys.modules) & {'duckdb', 'pyarrow.compute', 'pyarrow.dataset', 'pandas'}))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_reading_a_sealed_lake_loads_no_recorder(tmp_path) -> None:
    """A command that reads loads the sealer and what it stands on only where something lies in the journal."""
    code = (
        "import sys, pathlib, otel_agent_replay as replay; lake = pathlib.Path(sys.argv[1])\n"
        "replay.configure(lake=lake, seal='off')\n"
        "@replay.agent\ndef a(x): return x\n"
        "a('1')\n"
        "replay.shutdown()"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    reading = (
        "import sys\n"
        "from otel_agent_replay.cli.main import main\n"
        "try:\n    main(['runs', '--lake', sys.argv[1], '--json'])\nexcept SystemExit:\n    pass\n"
        "names = ('export.sealer', 'export.journal', 'capture')\n"
        "print([name for name in names if 'otel_agent_replay.' + name in sys.modules], file=sys.stderr)"
    )
    seen = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", reading, str(tmp_path)], capture_output=True, text=True, check=True
        )
        seen.append((done.stderr.strip().splitlines()[-1], done.stdout.count('"agent": "a"')))
    assert seen == [("['export.sealer', 'export.journal']", 1), ("[]", 1)]
