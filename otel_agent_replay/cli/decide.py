"""`agent-replay decide`: a person's word, where a run waits for one."""

from __future__ import annotations

import getpass
import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from otel_agent_replay.cli.lake_option import lake_option
from otel_agent_replay.cli.output import emit, emit_json, remark

if TYPE_CHECKING:
    from otel_agent_replay.ledger import Ledger

_EPILOG = """\b
Without RUN it lists what waits: effects that may or may not have happened, and approvals nobody answered yet.

\b
Exit codes: 0 taken down, 2 usage, 75 a worker holds the run now, 125 nothing waits there.

\b
Examples:
  agent-replay decide
  agent-replay decide 0198c2 --step 5 --happened '{"refunded": 4900}'
  agent-replay decide 0198c2 --step 5 --not-happened
  agent-replay decide 0198c2 --step 4 --approve --by ana
"""


@click.command(epilog=_EPILOG)
@lake_option
@click.option("--ledger", metavar="URL", help="The ledger.  [env AGENT_REPLAY_LEDGER; default: a file in the lake]")
@click.option("--step", type=click.IntRange(min=1), metavar="N", help="The step that waits.")
@click.option("--happened", metavar="JSON", help="The effect happened, and this is what its call returned (or @FILE).")
@click.option("--not-happened", is_flag=True, help="The effect never happened: it will be called again.")
@click.option("--approve", is_flag=True, help="Grant the approval.")
@click.option("--reject", is_flag=True, help="Refuse it.")
@click.option("--by", metavar="NAME", help="Who says so.  [default: your login name]")
@click.option("--policy", default="", metavar="NAME", help="The policy in force from now on.")
@click.option("--allow", multiple=True, metavar="ACTION", help="What else is allowed; repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.argument("run", required=False)
def decide(
    lake: Path,
    ledger: str | None,
    step: int | None,
    happened: str | None,
    not_happened: bool,
    approve: bool,
    reject: bool,
    by: str | None,
    policy: str,
    allow: tuple[str, ...],
    as_json: bool,
    run: str | None,
) -> None:
    """Say what became of an effect in doubt, or answer an approval; RUN is resumed afterwards."""
    from otel_agent_replay.export.unsealed import load_run
    from otel_agent_replay.ledger import ledger_url, open_ledger
    from otel_agent_replay.settings import Settings

    book = open_ledger(ledger_url(ledger or Settings.load().ledger or "file", lake))
    given = [happened is not None, not_happened, approve, reject]
    if run is None:
        if any(given) or step is not None:
            raise click.UsageError("name the run that is decided on")
        _list(book, as_json=as_json)
        return
    if sum(given) != 1 or step is None:
        raise click.UsageError("give --step and one of --happened, --not-happened, --approve, --reject")
    run_id = load_run(lake, run, facts=False).run.run_id
    who = by or getpass.getuser()
    if approve or reject:
        book.answer(run_id, step, granted=approve, by=who, policy=policy, allowed=allow)
    else:
        result = None if happened is None else _value(happened)
        book.decide(run_id, step, happened=happened is not None, result=result, by=who)
    if as_json:
        emit_json(
            {"schema": "agent-replay/decision", "schema_version": 1, "run": run_id.hex(), "step": step, "by": who}
        )
    else:
        remark(f"taken down. Go on with: agent-replay resume {run_id.hex()} ...")


def _list(book: Ledger, *, as_json: bool) -> None:
    rows = [
        {
            "run": effect.run_id.hex(),
            "step": effect.step,
            "waits_for": "in doubt",
            "name": effect.tool,
            "arguments": effect.arguments.decode("utf-8", "replace"),
            "if_it_happened": "--happened JSON: the run goes on with that result",
            "if_not": "--not-happened: it is called again",
        }
        for effect in book.in_doubt()
    ]
    rows += [
        {
            "run": approval.run_id.hex(),
            "step": approval.step,
            "waits_for": "approval",
            "name": approval.action,
            "arguments": approval.arguments.decode("utf-8", "replace"),
            "if_it_happened": "--approve",
            "if_not": "--reject",
        }
        for approval in book.approvals(status="waiting")
    ]
    if not rows and not as_json:
        remark("nothing waits for a person")
    emit(rows, as_json=as_json, title="waiting")


def _value(text: str) -> bytes:
    from otel_agent_replay.payload.codec import encode

    try:
        return encode(json.loads(Path(text[1:]).read_text(encoding="utf-8") if text.startswith("@") else text)).data
    except (OSError, ValueError) as error:
        raise click.UsageError(f"the result is no JSON: {error}") from error
