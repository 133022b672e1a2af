"""The tests can be run under every Python that is promised, wherever it lies."""

import importlib.util
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OWN = "{}.{}".format(*sys.version_info)


@pytest.fixture
def pythons():
    spec = importlib.util.spec_from_file_location("pythons", ROOT / ".ci" / "pythons.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_what_is_promised_is_what_is_run(pythons):
    """The smoke run goes by the classifiers, and those are what the pins are tested for."""
    assert pythons.supported() == ["3.10", "3.11", "3.12", "3.13"]


@pytest.mark.skipif(os.name != "posix", reason="the stand-ins are shell scripts")
def test_a_python_is_found_behind_a_shim_that_knows_none(pythons, tmp_path, monkeypatch):
    """What does not run, or runs as another version, is passed over; pyenv's versions are looked at too."""
    monkeypatch.setenv("PATH", os.pathsep.join((str(tmp_path / "shims"), str(tmp_path / "other"))))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setenv("UV_PYTHON_INSTALL_DIR", str(tmp_path / "uv"))
    program(tmp_path / "shims" / f"python{OWN}", "exit 127")
    program(tmp_path / "other" / f"python{OWN}", "echo 2.7")
    assert pythons.found(OWN) is None
    real = program(
        tmp_path / "pyenv" / "versions" / f"{OWN}.99" / "bin" / f"python{OWN}", f'exec {sys.executable} "$@"'
    )
    assert pythons.found(OWN) == real
