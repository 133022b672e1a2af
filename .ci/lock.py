"""Merges what `pip freeze` says under several Pythons into one constraints file, with markers where they differ.

    python .ci/lock.py 3.10.txt 3.11.txt ... > constraints.txt

Each file is named after its Python. A package that only some Pythons need is pinned for all: a constraint installs
nothing. Refuses a line that is not `name==version`: a pin must mean the same on every machine.
"""

import re
import sys
from pathlib import Path

_PIN = re.compile(r"([A-Za-z0-9][\w.-]*)==([\w.!+-]+)")


def pins(path: Path) -> dict[str, tuple[str, str]]:
    """Return (name, version) by normal name. Raises SystemExit with the line that is no pin."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        match = _PIN.fullmatch(line.strip())
        if match is None:
            raise SystemExit(f"{path}: {line!r} is not name==version; install that package from an index")
        name, version = match.groups()
        found[re.sub(r"[-_.]+", "-", name).lower()] = (name, version)
    return found


def lines_for(name: str, versions: list[tuple[str, str]]) -> list[str]:
    """Return the constraint lines of one package; `versions` are (Python, version), in the order of the Pythons."""
    ranges: list[tuple[str, str]] = []  # (first Python, version)
    for python, version in versions:
        if not ranges or ranges[-1][1] != version:
            ranges.append((python, version))
    lines = []
    for place, (first, version) in enumerate(ranges):
        marks = [] if place == 0 else [f"python_version >= '{first}'"]
        if place + 1 < len(ranges):
            marks.append(f"python_version < '{ranges[place + 1][0]}'")
        lines.append(f"{name}=={version}" + (f"; {' and '.join(marks)}" if marks else ""))
    return lines


def merged(freezes: dict[str, dict[str, tuple[str, str]]]) -> list[str]:
    """Return the lines of the constraints file; `freezes` maps a Python (`3.10`) to its pins."""
    pythons = sorted(freezes, key=lambda python: tuple(map(int, python.split("."))))
    lines = []
    for key in sorted({key for found in freezes.values() for key in found}):
        there = [(python, freezes[python][key]) for python in pythons if key in freezes[python]]
        lines += lines_for(there[-1][1][0], [(python, version) for python, (_, version) in there])
    return lines


if __name__ == "__main__":
    found = {Path(name).stem: pins(Path(name)) for name in sys.argv[1:]}
    sys.stdout.write("".join(f"{line}\n" for line in merged(found)))
