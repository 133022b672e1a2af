"""How a recorded program ended is how its run ended: by itself, by an exception, or with an exit code."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

PROGRAM = """
import sys, threading, time

class NoOrders(SystemExit):
    def __init__(self, order):
        super().__init__(f"no order {order}")
        self.code = 4

def main(how):
    time.time()
    if how == "raises":
        raise ValueError("no orders")
    if how == "caught inside":
        thread = threading.Thread(target=sys.exit, args=(3,))
        thread.start()
        thread.join()
        try:
            sys.exit(3)
        except SystemExit as error:
            return error.code - 3
    if how == "raised":
        raise SystemExit(3)
    if how == "a class of its own":
        raise NoOrders(17)
    if how == "a message":
        sys.exit("no orders")
    return int(how)

if sys.argv[1] == "caught outside":
    try:
        sys.exit(main("3"))
    except SystemExit:
        pass
else:
    sys.exit(main(sys.argv[1]))
"""


def cli(folder, *arguments):
    command = [sys.executable, "-m", "otel_agent_replay", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def record(folder, how):
    (folder / "program.py").write_text(PROGRAM)
    done = cli(folder, "record", "--json", "--", sys.executable, "program.py", how)
    return json.loads(done.stdout)["recorded"][0], done


@pytest.mark.parametrize(
    ("how", "status", "exit_code"),
    [
        ("0", "ok", 0),
        ("3", "error", 3),
        ("raises", "error", 1),
        ("raised", "error", 3),
        ("a message", "error", 1),
        ("a class of its own", "error", 4),
        ("caught inside", "ok", 0),
        ("caught outside", "ok", 0),
    ],
)
def test_the_run_ended_as_the_program(tmp_path, how, status, exit_code):
    """An exit with a code, however raised, and an uncaught exception are errors; one caught, or a thread's, is none."""
    run, done = record(tmp_path, how)
    assert (run["status"], done.returncode) == (status, exit_code)


def test_another_exit_code_is_another_outcome(tmp_path):
    """The run says which code it was; a replay that ends with it is the same, one that does not departs."""
    run, _ = record(tmp_path, "3")
    nodes = json.loads(cli(tmp_path, "show", run["run"], "--json").stdout)
    assert '"message": "3"' in json.dumps(nodes)
    assert "SystemExit" in json.dumps(nodes)
    replay = ("replay", run["run"], "--json", "--", sys.executable, "program.py")
    assert json.loads(cli(tmp_path, *replay, "3").stdout)["status"] == "same"
    assert json.loads(cli(tmp_path, *replay, "4").stdout)["status"] == "departed"
