"""House rules that a machine can hold."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted(path for path in (ROOT / "otel_agent_replay").rglob("*.py") if "wire/v1" not in path.as_posix())


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_module_says_why_it_exists_and_stays_small(path: Path) -> None:
    """Each module has a docstring and at most 500 lines."""
    text = path.read_text(encoding="utf-8")
    assert ast.get_docstring(ast.parse(text)), "no module docstring"
    assert text.count("\n") <= 500


def test_no_module_is_called_after_nothing() -> None:
    """No utils, helpers, common, misc or base."""
    assert not [path for path in MODULES if path.stem in {"utils", "helpers", "common", "misc", "base"}]


def test_the_environment_is_read_in_few_places() -> None:
    """Options are read by `settings` alone; interception and child processes touch the environment by name."""
    allowed = {
        "settings.py",
        "environment.py",
        "surroundings.py",
        "configure.py",
        "launch.py",
        "child.py",
        "record.py",
        "replay.py",
        "__main__.py",
        "demo.py",
    }
    readers = {path.name for path in MODULES if "os.environ" in path.read_text(encoding="utf-8")}
    assert readers <= allowed
