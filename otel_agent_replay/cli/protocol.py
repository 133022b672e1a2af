"""`agent-replay protocol RUN|FILE...`: recorded provider bytes through a parser again, ours or the user's."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from otel_agent_replay.cli.lake_option import json_option, lake_option, verbose_option
from otel_agent_replay.cli.output import CANNOT_JUDGE, SCHEMA_VERSION, complain, emit_json, remark
from otel_agent_replay.errors import RecordingError

if TYPE_CHECKING:
    from otel_agent_replay.model import WireExchange
    from otel_agent_replay.protocols import Protocol
    from otel_agent_replay.replay.protocol import Judged, Parser

_EPILOG = """\b
FILE is a response body (server-sent events, JSON, JSON lines, an AWS event stream; gzip or hex around it, or bare
event payloads a line each), or a cassette (VCR as YAML or JSON, nock). RUN is a run of the lake.

\b
An adapter is your own parser:
  def parse(chunks, media_type, status): ...
with the body as an iterator of bytes. What it returns in the keys of `--json` is held against ours; any other JSON
value against a second adapter, or with --rechunk against itself.

\b
Exit codes: 0 the same, 1 something differs, 2 usage, 125 cannot judge (unknown API, damaged file).

\b
Example:
  agent-replay protocol answer.sse
  agent-replay protocol cassettes/*.yaml --rechunk 200 --seed 7
  agent-replay protocol 0198c2 --step 4 --adapter app.streams:parse --rechunk 200
  agent-replay protocol 0198c2 --adapter app.streams:parse --adapter app.old_streams:parse
"""


def _api(_context: click.Context, _parameter: click.Parameter, given: str | None) -> Protocol | None:
    from otel_agent_replay.protocols import PROTOCOLS, protocol_named

    if given is None:
        return None
    found = protocol_named(given)
    if found is None:
        raise click.BadParameter(f"no API {given!r}; known are {', '.join(sorted(PROTOCOLS))}")
    return found


@dataclass(frozen=True, slots=True)
class _Asked:
    """The options that hold for every exchange."""

    protocol: Protocol | None
    adapters: Sequence[Parser]
    rechunk: int
    seed: int


@dataclass(slots=True)
class _Found:
    """One argument: what is in it, and what became of it. `bare`: it is one body and nothing else.

    `skipped` are exchanges that are none of a model, or of an API that nobody knows; `unreadable` those whose bytes
    are missing or damaged. Both are pairs of where and why.
    """

    name: str
    bare: bool = False
    exchanges: Sequence[WireExchange] = ()
    skipped: list[tuple[str, str]] = field(default_factory=list)
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    judged: list[Judged] = field(default_factory=list)


@click.command(epilog=_EPILOG)
@lake_option
@click.argument("sources", nargs=-1, required=True, metavar="RUN|FILE...")
@click.option("--step", type=click.IntRange(min=1), metavar="N", help="Of a run, step N only.")
@click.option(
    "--api",
    "protocol_asked",
    callback=_api,
    metavar="NAME",
    help="The API that was spoken.  [default: found by itself]",
)
@click.option(
    "--adapter",
    "adapters",
    multiple=True,
    metavar="PKG.MOD:FUNC",
    help="Your parser, held against ours; given twice, the second is held against the first. Its module is imported.",
)
@click.option(
    "--rechunk", type=click.IntRange(min=0), default=0, metavar="N", help="Cut each body in N random ways too."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Where the random ways are drawn from.")
@json_option
@verbose_option
def protocol(
    lake: Path,
    sources: tuple[str, ...],
    step: int | None,
    protocol_asked: Protocol | None,
    adapters: tuple[str, ...],
    rechunk: int,
    seed: int,
    as_json: bool,
    verbose: bool,
) -> int:
    """Reduce recorded answers from their raw bytes again: by our parser, by yours, in any chunking.

    No agent, no tool and no network: what a provider sent goes through framing, events and message once more.
    """
    from otel_agent_replay.replay.protocol import load_parser

    if len(set(adapters)) < len(adapters):
        raise click.UsageError("the same --adapter is given twice; name two versions by two modules or functions")
    asked = _Asked(protocol_asked, [load_parser(entry) for entry in adapters], rechunk, seed)
    codes = set()
    for found in _read(sources, lake, step, verbose=verbose):
        with _progress(found, asked) as tell:
            _judge(found, asked, tell)
        _print(found, asked, as_json=as_json)
        codes.add(_code(found, asked))
    return 1 if 1 in codes else max(codes)


def _read(sources: Sequence[str], lake: Path, step: int | None, *, verbose: bool) -> Iterator[_Found]:
    """What each argument holds. One that cannot be read is complained of, and the others go on."""
    runs: Callable[[str], _Found] = _lake_reader(lake, step, verbose=verbose)
    for source in sources:
        path = Path(source)
        try:
            yield _file(path, step) if path.exists() else runs(source)
        except RecordingError as error:
            complain(error.code, str(error))
            yield _Found(source, unreadable=[(source, str(error))])
        except OSError as error:
            complain("unreadable", f"{source} cannot be read: {error.strerror or error}")
            yield _Found(source, unreadable=[(source, str(error))])


def _file(path: Path, step: int | None) -> _Found:
    from otel_agent_replay.imports import is_bare, read_exchanges

    if step is not None:
        raise click.UsageError(f"--step is of a run; {path} is a file")
    exchanges = read_exchanges(path)
    return _Found(str(path), is_bare(path, exchanges), exchanges)


def _lake_reader(lake: Path, step: int | None, *, verbose: bool) -> Callable[[str], _Found]:
    """A reader of runs, which opens the lake when it is first asked."""
    opened: list[Any] = []

    def read(name: str) -> _Found:
        from otel_agent_replay.cli.reading import open_lake
        from otel_agent_replay.replay.protocol import model_exchanges

        if not all(character in "0123456789abcdef-" for character in name.lower()):
            raise click.UsageError(f"{name} is no file, and no id of a run")
        if not opened:
            opened.append(open_lake(lake, verbose=verbose))
        recorded = opened[0].load(opened[0].find(name))
        exchanges, unreadable = model_exchanges(recorded, step)
        if not exchanges and not unreadable:
            where = "has no model step" if step is None else f"has no model step {step}"
            raise RecordingError(f"run {recorded.run.run_id.hex()} {where}; `agent-replay show` lists its steps")
        return _Found(name, False, exchanges, unreadable=unreadable)

    return read


def _judge(found: _Found, asked: _Asked, tell: Callable[[], None]) -> None:
    from otel_agent_replay.replay.protocol import judge, protocol_of

    for exchange in found.exchanges:
        spoken = asked.protocol or protocol_of(exchange)
        if spoken is None and (exchange.request is not None or not asked.adapters):
            found.skipped.append((exchange.source, _unknown(exchange)))
            continue
        found.judged.append(judge(exchange, spoken, asked.adapters, rechunk=asked.rechunk, seed=asked.seed, tell=tell))


def _unknown(exchange: WireExchange) -> str:
    head = exchange.request
    what = f"its body begins {exchange.body[:40]!r}" if head is None else f"{head.method} {head.url}"
    return f"no API that is known here ({what}); name it with --api if it is one of a model"


@contextmanager
def _progress(found: _Found, asked: _Asked) -> Iterator[Callable[[], None]]:
    """Count the chunkings on a terminal; say nothing elsewhere."""
    total = len(found.exchanges) * (1 + len(asked.adapters)) * asked.rechunk
    if not total or not sys.stderr.isatty():
        yield lambda: None
        return
    with click.progressbar(length=total, label=f"{found.name}: chunkings", file=sys.stderr) as bar:
        yield lambda: bar.update(1)


def _print(found: _Found, asked: _Asked, *, as_json: bool) -> None:
    from otel_agent_replay.report.protocol_report import judged_json, judged_lines
    from otel_agent_replay.report.terminal import print_lines

    for source, why in (*found.unreadable, *found.skipped):
        if not as_json and found.exchanges:
            remark(f"note: {source} is left out: {why}")
    if not found.judged and found.exchanges:
        complain("unknown_api", f"nothing in {found.name} could be reduced: {found.skipped[0][1]}")
    if not as_json:
        for judged in found.judged:
            print_lines(judged_lines(judged, seed=asked.seed))
        return
    head = {"schema": "agent-replay/protocol", "schema_version": SCHEMA_VERSION}
    documents = [judged_json(judged, seed=asked.seed) for judged in found.judged]
    if found.bare and documents:
        emit_json({**head, **documents[0]}, on_one_line=True)
        return
    left_out = [{"source": source, "why": why} for source, why in (*found.unreadable, *found.skipped)]
    emit_json({**head, "source": found.name, "exchanges": documents, "left_out": left_out}, on_one_line=True)


def _code(found: _Found, asked: _Asked) -> int:
    if not all(judged.same for judged in found.judged):
        return 1
    unjudged = not asked.rechunk and any(judged.unjudged for judged in found.judged)
    return CANNOT_JUDGE if found.unreadable or unjudged or not found.judged else 0
