"""Runs `make smoke` under every supported Python that this machine has, and says which ones it has not.

    python .ci/pythons.py

The classifiers of pyproject.toml say which are supported. They are looked for as `python3.x` in every folder of the
path, and among the versions of pyenv and uv. Exit codes: 0 all that were found passed, 1 one failed, 2 none was found.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
_ASK = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"


def supported() -> list[str]:
    """Return the supported Pythons as `3.x`, oldest first."""
    return re.findall(r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text("utf-8"))


def _candidates(version: str) -> Iterator[Path]:
    for folder in os.get_exec_path():
        yield Path(folder) / f"python{version}"
    home = Path.home()
    pyenv = Path(os.environ.get("PYENV_ROOT") or home / ".pyenv") / "versions"
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or home / ".local/share/uv/python")
    for folder in (*pyenv.glob(f"{version}.*"), *uv.glob(f"cpython-{version}.*")):
        yield folder / "bin" / f"python{version}"


def found(version: str) -> Path | None:
    """Return an interpreter of that version which runs and can make an environment, or None.

    What lies on the path may be a shim that knows no such version, or a Python without `venv`.
    """
    for path in _candidates(version):
        if path.is_file():
            said = subprocess.run([path, "-c", _ASK], capture_output=True, text=True, check=False)
            if said.returncode == 0 and said.stdout.strip() == version:
                return path
    return None


def main() -> int:
    """Run them one after another; print a line each at the end."""
    results = {}
    for version in supported():
        python = found(version)
        if python is None:
            results[version] = "not found"
            continue
        print(f"--- Python {version}: {python}", flush=True)
        began = time.monotonic()
        failed = subprocess.run(["make", "smoke", f"PYTHON={python}"], cwd=ROOT, check=False).returncode
        results[version] = f"{'FAILED' if failed else 'passed'} in {time.monotonic() - began:.0f} s ({python})"
    for version, result in results.items():
        print(f"Python {version}: {result}")
    ran = [result for result in results.values() if result != "not found"]
    if not ran:
        return 2
    return int(any(result.startswith("FAILED") for result in ran))


if __name__ == "__main__":
    sys.exit(main())
