"""The reading commands of `agent-replay` on a real lake: outputs, exit codes, errors."""

import csv
import io
import json
import subprocess
import sys
import textwrap

import pytest
from click.testing import CliRunner

from otel_agent_replay.cli.main import COMMANDS, main
from otel_agent_replay.lake.writer import write_runs
from otel_agent_replay.model import Loss, LossReason, RunStatus
from otel_agent_replay.testing.builders import run

READING = ("runs", "show", "diff", "sql", "verify", "seal", "doctor")


def agent(seed, temperature=21):
    builder = run("weather", seed=seed, started_ns=1_764_547_200_000_000_000 + seed * 3_600_000_000_000)
    builder.model("weather?", "let me look", tokens=(100, 7), cost_usd=0.01)
    builder.tool("forecast", {"city": "Paris"}, {"temperature": temperature})
    return builder


@pytest.fixture
def lake(tmp_path):
    root = tmp_path / "lake"
    runs = [
        agent(1).build("21"),
        agent(2).build("21"),
        agent(3, 30).build("30"),
        agent(4).loss(Loss(LossReason.DROPPED, "records", 2)).covered("aiohttp", "not_captured").build("21"),
        run("weather", seed=5).model("weather?", pending=True).build(status=RunStatus.PENDING),
    ]
    write_runs(root, runs, segments=["test-1"])
    return root, [one.run.run_id.hex() for one in runs]


def call(*arguments, env=None, stdin=None):
    return CliRunner().invoke(main, list(arguments), env={"AGENT_REPLAY_LAKE": "", **(env or {})}, input=stdin)


def test_runs_lists_newest_first(lake):
    """One line a run, with status, steps and tokens."""
    root, ids = lake
    result = call("runs", "--lake", str(root))
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].split()[:2] == ["run", "started"]
    assert [line.split()[0] for line in lines[1:]] == sorted(ids, reverse=True)


def test_runs_json_has_totals_and_says_when_more_exist(lake):
    """The document names its schema and does not cut in silence."""
    root, ids = lake
    document = json.loads(call("runs", "--json", "--lake", str(root), "--limit", "2").stdout)
    assert (document["schema"], document["schema_version"]) == ("agent-replay/runs", 1)
    assert document["more_exist"] is True
    assert len(document["runs"]) == 2
    assert document["runs"][0]["run"] == max(ids)
    limited = call("runs", "--lake", str(root), "--limit", "2")
    assert "older runs are not shown" in limited.stderr


def test_the_lake_comes_from_the_environment_too(lake):
    """AGENT_REPLAY_LAKE names the lake; an argument wins over it."""
    root, ids = lake
    assert len(json.loads(call("runs", "--json", env={"AGENT_REPLAY_LAKE": str(root)}).stdout)["runs"]) == len(ids)
    result = call("runs", "--lake", str(root / "none"), env={"AGENT_REPLAY_LAKE": str(root)})
    assert "no lake at" in result.stderr


@pytest.mark.parametrize(
    "command",
    ["runs", "sql SELECT+1", "stats", "seal", "compact", "upgrade", "audit", "audit verify", "retain --days 30"],
)
def test_a_lake_that_is_not_there_is_told(tmp_path, command):
    """A slip in --lake does not pass for a lake that holds nothing, and makes no folder."""
    words = [word.replace("+", " ") for word in command.split()]
    result = call(*words, "--lake", str(tmp_path / "slip"))
    assert result.exit_code == 0
    assert result.stderr.count(f"no lake at {tmp_path / 'slip'}: ") == 1
    assert not (tmp_path / "slip").exists()


def test_a_file_of_no_format_is_not_taken_for_a_run(lake, tmp_path):
    """`diff` names the endings that it knows, instead of a run that is not there."""
    (tmp_path / "trace.txt").write_text("{}")
    result = call("diff", str(tmp_path / "trace.txt"), lake[1][0], "--lake", str(lake[0]))
    assert result.exit_code == 2
    assert ".jsonl" in result.stderr


def test_show_draws_the_tree_and_one_step_in_full(lake):
    """The tree names each step; `--step` shows its bodies; `--json` is a document."""
    root, ids = lake
    tree = call("show", ids[0], "--lake", str(root))
    assert tree.exit_code == 0
    assert "tool forecast" in tree.stdout
    assert "100 -> 7 tokens" in tree.stdout
    step = call("show", ids[0], "--step", "2", "--lake", str(root))
    assert '"city": "Paris"' in step.stdout
    document = json.loads(call("show", ids[0], "--step", "2", "--json", "--lake", str(root)).stdout)
    assert document["result_body"] == {"temperature": 21}
    assert json.loads(call("show", ids[0], "--json", "--lake", str(root)).stdout)["run"]["run_id"] == ids[0]


def test_show_coverage_tells_what_was_not_captured(lake):
    """Coverage and losses in one place."""
    root, ids = lake
    result = call("show", ids[3], "--coverage", "--lake", str(root))
    assert "aiohttp" in result.stdout
    assert "lost: 2 records (dropped)" in result.stdout
    assert (
        json.loads(call("show", ids[3], "--coverage", "--json", "--lake", str(root)).stdout)["losses"][0]["count"] == 2
    )


def test_a_step_that_is_not_there_cannot_be_judged(lake):
    """The error names the run and the steps it has."""
    root, ids = lake
    result = call("show", ids[0], "--step", "9", "--lake", str(root))
    assert result.exit_code == 125
    assert result.stderr.startswith("error[cannot_judge]: ")
    assert "steps 1 to 2" in result.stderr


def test_diff_of_equal_runs_is_one_line_and_exit_code_0(lake):
    """The same agent recorded twice."""
    root, ids = lake
    result = call("diff", ids[0], ids[1], "--lake", str(root))
    assert result.exit_code == 0
    assert result.stdout.count("\n") == 1
    assert "identical" in result.stdout


def test_diff_names_the_changed_tool_first(lake):
    """With one tool result changed the diff names exactly that node, in every format, and exits with 1."""
    root, ids = lake
    terminal = call("diff", ids[0], ids[2], "--lake", str(root))
    assert terminal.exit_code == 1
    assert terminal.stdout.startswith("B departs from A at step 2 · tool forecast")
    document = json.loads(call("diff", ids[0], ids[2], "--json", "--lake", str(root)).stdout)
    assert document["departure"]["at"]["step"] == 2
    assert document["departure"]["cause"] == "tool result differed for equal arguments"
    assert document == json.loads(call("diff", ids[0], ids[2], "--format", "json", "--lake", str(root)).stdout)
    markdown = call("diff", ids[0], ids[2], "--format", "markdown", "--lake", str(root))
    assert markdown.exit_code == 1
    assert "#### First departure: <code>step 2 · tool forecast</code>" in markdown.stdout


def test_diff_with_a_run_that_died_cannot_judge(lake):
    """Not observed is neither same nor different: 125."""
    root, ids = lake
    result = call("diff", ids[0], ids[4], "--lake", str(root))
    assert result.exit_code == 125
    assert "cannot be compared: ending not observed" in result.stdout


def test_sql_prints_tables_json_and_csv(lake):
    """One query, three forms, the same rows."""
    root, _ = lake
    query = "SELECT agent, count(*) AS n FROM runs GROUP BY agent"
    assert call("sql", query, "--lake", str(root)).stdout.split() == ["agent", "n", "weather", "5"]
    assert json.loads(call("sql", query, "--json", "--lake", str(root)).stdout) == [{"agent": "weather", "n": 5}]
    rows = list(csv.reader(io.StringIO(call("sql", query, "--csv", "--lake", str(root)).stdout)))
    assert rows == [["agent", "n"], ["weather", "5"]]


def test_sql_reads_standard_input_without_a_query(lake):
    """A pipe is a query."""
    root, _ = lake
    assert json.loads(call("sql", "--json", "--lake", str(root), stdin="SELECT 1 AS a, 2 AS a").stdout) == [
        {"a": 1, "a_2": 2}
    ]


def test_sql_errors_say_what_and_what_next(lake):
    """A wrong query is a usage error, no traceback."""
    root, _ = lake
    result = call("sql", "SELECT nothing FROM nowhere", "--lake", str(root))
    assert result.exit_code == 2
    first, *further = result.stderr.splitlines()
    assert first.startswith("error[sql]: ")
    assert further[-1] == "  `agent-replay sql --help` lists the views"
    assert all(not line or line.startswith("  ") for line in further)
    assert "Traceback" not in result.output


def test_sql_prints_json_also_of_numbers_that_json_has_not(lake):
    """What is no finite number is a text in JSON, as Protocol Buffers spell it."""
    query = "SELECT 'inf'::DOUBLE AS high, ['-inf'::DOUBLE] AS low, 'nan'::DOUBLE AS none, 1.5::DOUBLE AS one"
    told = json.loads(call("sql", "--json", query, "--lake", str(lake[0])).stdout, parse_constant=pytest.fail)
    assert told == [{"high": "Infinity", "low": ["-Infinity"], "none": "NaN", "one": 1.5}]


@pytest.mark.parametrize("arguments", [("sql", "SELECT 1"), ("compare", "--a", "true", "--b", "true")], ids=" ".join)
def test_a_torn_file_is_an_error_of_the_lake(lake, arguments):
    """What asks a lake whose files are torn says so, and what looks closer; no traceback."""
    for file in (lake[0] / "spans").rglob("*.parquet"):
        file.write_bytes(file.read_bytes()[:-100])
    result = call(*arguments, "--lake", str(lake[0]))
    assert result.exit_code == 125
    assert result.stderr.startswith("error[damaged]: ")
    assert "agent-replay doctor --deep" in result.stderr


def test_doctor_says_what_it_cannot_read(lake):
    """A lake that the system does not let it read is a finding beside all others, with and without a deep look."""
    root, _ = lake
    hour = next((root / "spans").glob("*/*"))
    hour.rename(hour.with_name("kept"))
    hour.write_text("no folder")
    for more in ([], ["--deep"]):
        result = call("doctor", "--lake", str(root), "--json", *more)
        assert result.exit_code == 1
        assert {"what": "reading", "ok": False} in [
            {"what": check["what"], "ok": check["ok"]}
            for check in json.loads(result.stdout)[["lake", "files"][len(more)]]
        ]


def test_a_recorded_command_ends_as_it_ends_where_its_lake_cannot_be_listed(lake):
    """That the runs cannot be shown is a remark: the exit code is the command's."""
    root, _ = lake
    (root / "spans").rename(root / "kept")
    (root / "spans").write_text("no folder")
    result = call("record", "--lake", str(root), "--", sys.executable, "-c", "raise SystemExit(3)")
    assert (result.exit_code, result.stdout) == (3, "")
    assert "note: what was recorded cannot be listed: " in result.stderr


def test_what_the_system_refuses_is_an_error(lake):
    """What cannot be opened is named with a way out, exit code 125; no traceback."""
    root, ids = lake
    (root / "journal" / ".seal.lock").mkdir(parents=True)
    result = call("replay", ids[0], "--entry", "app:agent", "--lake", str(root))
    assert result.exit_code == 125
    assert result.stderr.startswith(f"error[system]: {root / 'journal' / '.seal.lock'}: Is a directory; ")
    assert "Traceback" not in result.output


def test_verify_holds_and_says_so(lake):
    """An untouched run verifies."""
    root, ids = lake
    result = call("verify", ids[0], "--lake", str(root))
    assert result.exit_code == 0, result.output
    assert "holds" in result.stdout
    assert json.loads(call("verify", ids[0], "--json", "--lake", str(root)).stdout)["holds"] is True


def test_verify_names_what_is_missing(lake):
    """With its payload file gone, each missing payload is a finding and the exit code is 1."""
    root, ids = lake
    for path in (root / "payloads").rglob("*.parquet"):
        path.unlink()
    result = call("verify", ids[0], "--lake", str(root))
    assert result.exit_code == 1
    assert "missing" in result.stdout
    assert "payload" in result.stdout


def test_an_unknown_and_an_ambiguous_run_are_told_apart(lake):
    """Both say what to do, with exit code 125."""
    root, _ = lake
    unknown, ambiguous = call("show", "ffff", "--lake", str(root)), call("show", "0", "--lake", str(root))
    assert unknown.exit_code == ambiguous.exit_code == 125
    assert "error[run_not_found]" in unknown.stderr
    assert "ambiguous" in ambiguous.stderr


def test_usage_errors_have_exit_code_2_and_name_the_help():
    """Missing arguments, unknown commands, contradicting options."""
    for arguments in (["diff", "a"], ["nothing"], ["sql", "--json", "--csv", "SELECT 1"], ["runs", "--limit", "x"]):
        result = call(*arguments)
        assert result.exit_code == 2, arguments
        assert result.stderr.startswith("error[usage]: ")
        assert "--help` shows how" in result.stderr


def test_a_wrong_setting_is_a_usage_error():
    """An environment variable that does not parse is named with its source."""
    result = call("runs", env={"AGENT_REPLAY_SEGMENT_MB": "many"})
    assert result.exit_code == 2
    assert "AGENT_REPLAY_SEGMENT_MB" in result.stderr


@pytest.mark.parametrize("name", [*READING, "stats", "compact", "retain", "upgrade"])
def test_every_command_has_an_example_in_its_help(name):
    """`--help` shows how it is used."""
    result = call(name, "--help")
    assert result.exit_code == 0
    assert "Example:" in result.stdout
    assert f"agent-replay {name}" in result.stdout


def test_help_lists_every_command_without_importing_heavy_things():
    """`agent-replay --help` loads no duckdb, pyarrow or rich."""
    code = textwrap.dedent(
        """
        import sys
        from otel_agent_replay.cli.main import main
        try:
            main(["--help"])
        except SystemExit as stop:
            assert stop.code == 0
        heavy = {"duckdb", "pyarrow", "rich", "numpy", "genai_prices", "rapidfuzz"} & set(sys.modules)
        assert not heavy, heavy
        """
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert all(name in result.stdout for name in COMMANDS)


def test_what_was_just_recorded_is_sealed_and_shown(tmp_path):
    """A reading command first seals closed journals; with -v it says so on standard error."""
    script = textwrap.dedent(
        """
        import sys
        import otel_agent_replay as replay
        replay.configure(lake=sys.argv[1], seal="off")

        @replay.tool(side_effect="read")
        def add(a: int, b: int) -> int:
            return a + b

        @replay.agent
        def sums(n: int) -> int:
            return add(n, 1)

        sums(41)
        """
    )
    lake = tmp_path / "lake"
    subprocess.run([sys.executable, "-c", script, str(lake)], check=True, timeout=60)
    result = call("runs", "--json", "-v", "--lake", str(lake))
    assert "sealed 1 run," in result.stderr
    (listed,) = json.loads(result.stdout)["runs"]
    assert listed["agent"].endswith("sums")
    assert listed["steps"] == 1
    shown = call("show", listed["run"], "--lake", str(lake))
    assert "tool" in shown.stdout
    assert "add" in shown.stdout
    assert call("runs", "-v", "--lake", str(lake)).stderr.startswith("sealed 0 runs")


def test_seal_says_what_it_did(tmp_path):
    """Nothing to do is no error."""
    result = call("seal", "--lake", str(tmp_path), "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["runs"] == 0


def test_doctor_shows_settings_with_their_source(lake):
    """Each setting says where it came from; secrets are not shown; an exporter that does not exist is an error."""
    root, _ = lake
    good = call("doctor", "--json", "--lake", str(root), env={"AGENT_REPLAY_HASH_KEY": "s3cret"})
    document = json.loads(good.stdout)
    settings = {row["setting"]: row for row in document["settings"]}
    assert settings["lake"]["source"] == "argument"
    assert settings["hash_key"] == {"setting": "hash_key", "value": "(set)", "source": "env AGENT_REPLAY_HASH_KEY"}
    assert settings["fsync"]["source"] == "default"
    assert "s3cret" not in good.output
    assert any(check["what"] == "httpx" and check["ok"] for check in document["clients"])
    bad = call("doctor", "--lake", str(root), env={"OTEL_TRACES_EXPORTER": "otlp,no_such_exporter"})
    assert bad.exit_code == 1
    assert "no_such_exporter" in bad.stdout
