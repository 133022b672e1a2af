"""House rules that a machine can hold."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = (ROOT / "otel_agent_replay", ROOT / "collector" / "otel_agent_replay_collector")
MODULES = sorted(path for package in PACKAGES for path in package.rglob("*.py") if "wire/v1" not in path.as_posix())


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_module_says_why_it_exists_and_stays_small(path: Path) -> None:
    """Each module has a docstring and at most 500 lines."""
    text = path.read_text(encoding="utf-8")
    assert ast.get_docstring(ast.parse(text)), "no module docstring"
    assert text.count("\n") <= 500


def test_no_module_is_called_after_nothing() -> None:
    """No utils, helpers, common, misc or base."""
    assert not [path for path in MODULES if path.stem in {"utils", "helpers", "common", "misc", "base"}]


def _reads_the_environment(path: Path) -> bool:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return any(
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "os"
        and node.attr in {"environ", "getenv"}
        for node in ast.walk(tree)
    )


def test_options_are_read_by_the_settings_alone() -> None:
    """Outside `settings` the environment is touched only to intercept it, to describe it and to start children."""
    allowed = {
        "bootstrap/sitecustomize.py",
        "boundary/environment.py",
        "capture/surroundings.py",
        "cli/drill.py",
        "cli/record.py",
        "configure.py",
        "demo/__main__.py",
        "demo/make_recording.py",
        "demo/pocket_agent.py",
        "export/sealer.py",
        "replay/child.py",
        "replay/component/launch.py",
        "replay/component/running.py",
        "replay/enclosed.py",
        "replay/launch_continued.py",
        "settings.py",
    }
    readers = {
        path.relative_to(package).as_posix()
        for package in PACKAGES
        for path in MODULES
        if path.is_relative_to(package) and _reads_the_environment(path)
    }
    assert readers <= allowed
