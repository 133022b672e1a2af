"""The pinned versions are valid under every Python that is supported, and mean the same on every machine."""

import importlib.util
import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
LINES = (ROOT / ".ci" / "constraints.txt").read_text(encoding="utf-8").splitlines()
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def lock_module():
    spec = importlib.util.spec_from_file_location("lock", ROOT / ".ci" / "lock.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def applying(python, name):
    """The pins of a package under one Python."""
    environment = {"python_version": python, "python_full_version": f"{python}.0"}
    found = []
    for line in LINES:
        pin = Requirement(line)
        if normal(pin.name) == normal(name) and (pin.marker is None or pin.marker.evaluate(environment)):
            found.append(str(pin.specifier).removeprefix("=="))
    return found


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def wanted():
    """Every requirement of the package and its extras, as pyproject.toml lists them."""
    lists = re.findall(r"^(?:dependencies|dev|bench) = \[(.*?)\]$", PROJECT, re.MULTILINE | re.DOTALL)
    assert len(lists) == 3
    return [Requirement(text) for block in lists for text in re.findall(r'"([^"]+)"', block)]


@pytest.mark.parametrize("line", LINES)
def test_a_line_is_one_version_without_an_address(line):
    """`name==version`, at most with a condition on the Python: no address, path, range or hash."""
    assert re.fullmatch(r"[\w.-]+==[\w.!+-]+(; python_version (>=|<) '3\.\d+'( and python_version < '3\.\d+')?)?", line)


@pytest.mark.parametrize("python", PYTHONS)
def test_each_requirement_has_one_pin_that_satisfies_it(python):
    """Under each Python every requirement that applies is pinned once, within its range."""
    for requirement in wanted():
        if requirement.marker is not None and not requirement.marker.evaluate({"python_version": python}):
            continue
        (version,) = applying(python, requirement.name)
        assert requirement.specifier.contains(version), (requirement, version)


def test_the_lock_marks_what_differs():
    """Equal versions make one line; others are split where they change, and a gap takes its neighbour's."""
    freezes = {
        "3.9": {"a": ("A", "1"), "b": ("b", "1"), "old": ("old", "5")},
        "3.10": {"a": ("A", "1"), "b": ("b", "2")},
        "3.11": {"a": ("A", "1"), "b": ("b", "3")},
    }
    assert lock_module().merged(freezes) == [
        "A==1",
        "b==1; python_version < '3.10'",
        "b==2; python_version >= '3.10' and python_version < '3.11'",
        "b==3; python_version >= '3.11'",
        "old==5",
    ]


@pytest.mark.parametrize("line", ["a @ file:///wheels/a.whl", "-e .", "a>=1"])
def test_the_lock_refuses_what_is_no_pin(line, tmp_path):
    """An address or a range ends the lock with the line."""
    (tmp_path / "3.11.txt").write_text(f"b==1\n{line}\n")
    with pytest.raises(SystemExit, match=re.escape(line)):
        lock_module().pins(tmp_path / "3.11.txt")
