"""The page on cases is true: its case states every invariant, its query runs, its Python runs, its commands exist."""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from click.testing import CliRunner

from otel_agent_replay.casebook.queries import rows_of
from otel_agent_replay.casefile.document import schema
from otel_agent_replay.cli.main import main
from otel_agent_replay.gate import Case, Rule, check
from otel_agent_replay.lake.writer import write_runs
from tests.support.case_runs import good_run

PAGE = Path(__file__).parents[2] / "otel_agent_replay" / "gate" / "README.md"
TEXT = PAGE.read_text(encoding="utf-8")
(BLOCK,) = re.findall(r"^```yaml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def test_the_case_of_the_page_states_every_invariant(tmp_path):
    """It parses, has an invariant of every rule, and leaves no key out that a gate reads."""
    case = Case.of(yaml.safe_load(BLOCK), tmp_path)
    assert {one.rule for one in case.invariants} == set(Rule)
    expect = set(yaml.safe_load(BLOCK)["expect"])
    assert set(schema()["$defs"]["expect"]["properties"]) - expect == {"events"}
    for name in schema()["$defs"]["call_pattern"]["properties"]:
        assert re.search(rf"`{name}`|\b{name}:", TEXT), name


def test_the_query_of_the_page_runs(tmp_path):
    """Over a run's views it answers, and of the good run with no row."""
    run = good_run()
    write_runs(tmp_path, [run], segments=["one"])
    case = Case.of(yaml.safe_load(BLOCK), tmp_path)
    results = check(case, run, rows=rows_of(tmp_path, run.run.run_id))
    (query,) = [one for one in results if one.invariant.rule is Rule.SQL]
    assert query.state.value == "held", query.evidence


def test_the_python_of_the_page_runs():
    """Its block defines what it says."""
    (block,) = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    names: dict = {}
    exec(compile(block, str(PAGE), "exec"), names)
    assert callable(names["broken_of"])


def test_the_commands_of_the_page_exist():
    """Every subcommand and option of `case` that the page names is in its help."""
    for name in set(re.findall(r"agent-replay case (\w+)", TEXT)):
        assert CliRunner().invoke(main, ["case", name, "--help"]).exit_code == 0, name
    help_text = CliRunner().invoke(main, ["case", "add", "--help"]).output
    for option in set(re.findall(r"`(--redact[\w-]*)", TEXT)):
        assert option in help_text, option
