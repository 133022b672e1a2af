"""Runs at the start of a Python process that `agent-replay record` or `replay` started (it is on PYTHONPATH).

First another `sitecustomize` further down the path gets its turn, then recording or playback is configured
from the environment. Never breaks the host.
"""

import importlib.machinery
import importlib.util
import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))


def _run_next_sitecustomize() -> None:
    path = [entry for entry in sys.path if os.path.abspath(entry or ".") != _here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is not None and spec.loader is not None and spec.origin != __file__:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


def _configure() -> None:
    try:
        from otel_agent_replay.configure import bootstrap
    except Exception as error:
        sys.stderr.write(f"agent-replay: cannot be imported here: {type(error).__name__}: {error}\n")
        if os.environ.get("AGENT_REPLAY_MODE", "record") != "record":
            sys.stderr.flush()
            os._exit(125)  # python goes on after a failed sitecustomize: the agent would run live
        return
    bootstrap()


try:
    _run_next_sitecustomize()
finally:
    _configure()
