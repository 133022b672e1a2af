"""The whole story in a minute: record a real agent, replay it with the server gone, change it, see where it parts.

`make demo` runs it from a checkout; it needs the `openai` package. Everything it writes goes to one folder.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from otel_agent_replay.demo import server

_HERE = Path(__file__).parent
_BEFORE = 'f"You are a support agent. Today is'
_AFTER = 'f"You are a friendly support agent. Today is'


def main(folder: Path) -> int:
    """Run the story in `folder`; returns 0 when every act ended as it should."""
    folder = folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    agent = folder / "support_agent.py"
    shutil.copy(_HERE / "support_agent.py", agent)
    refunds = folder / "refunds.txt"

    _say("1. Record: the agent runs against a model server on 127.0.0.1")
    with server.serving() as url:
        status = _agent_replay(folder, "record", "--", sys.executable, agent.name, model=url)
    if status != 0 or not refunds.exists():
        return _failed("the recorded run did not end well")
    run_id = _recorded_run(folder)
    print(f"   refunds.txt now has {_lines(refunds)} line: the side effect happened once")

    _say(f"2. Show: agent-replay show {run_id[:12]}")
    _agent_replay(folder, "show", run_id)

    _say("3. Replay exactly: the server is gone, the network is shut, the refund is answered from the tape")
    status = _agent_replay(folder, "replay", run_id, "--isolate", "--", sys.executable, agent.name)
    print(f"   exit code {status}; refunds.txt still has {_lines(refunds)} line")
    if status != 0 or _lines(refunds) != 1:
        return _failed("the unchanged agent did not replay exactly")

    _say("4. Change the prompt's assembly and replay again")
    source = agent.read_text(encoding="utf-8")
    agent.write_text(source.replace(_BEFORE, _AFTER), encoding="utf-8")
    print(f"   - {_BEFORE} ...\n   + {_AFTER} ...")
    status = _agent_replay(folder, "replay", run_id, "--", sys.executable, agent.name)
    print(f"   exit code {status}: `git bisect run agent-replay replay ...` would find this change")
    if status != 1 or _lines(refunds) != 1:
        return _failed("the changed agent was expected to depart")

    _say("5. Ask the lake: what did each model call use?")
    question = (
        "SELECT step, request_model, input_tokens, output_tokens, finish_reasons FROM model_calls "
        "WHERE source = 'live' ORDER BY step"
    )
    if _agent_replay(folder, "sql", question) != 0:
        return _failed("the query failed")
    print(f"\nDone. Everything is in {folder}; try `agent-replay runs --lake {folder / '.agent-replay'}`.")
    return 0


def _agent_replay(folder: Path, *arguments: str, model: str = "http://127.0.0.1:9/v1") -> int:
    environment = {
        **os.environ,
        "OPENAI_BASE_URL": model,
        "OPENAI_API_KEY": "sk-demo-not-a-real-key-0000000000",
        "AGENT_REPLAY_LAKE": str(folder / ".agent-replay"),
    }
    command = [sys.executable, "-m", "otel_agent_replay", *arguments]
    return subprocess.call(command, cwd=folder, env=environment)


def _recorded_run(folder: Path) -> str:
    from otel_agent_replay.lake.catalog import Lake

    return next(one.run.run_id.hex() for one in Lake(folder / ".agent-replay").runs() if one.run.agent == "support")


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def _say(text: str) -> None:
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}", flush=True)


def _failed(why: str) -> int:
    print(f"demo failed: {why}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("build") / "demo"))
