"""`agent-replay export RUN...`: runs out of the lake as OTLP, nothing lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import click

from otel_agent_replay.cli.lake_option import json_option, lake_option, verbose_option
from otel_agent_replay.cli.output import SCHEMA_VERSION, emit_json, remark
from otel_agent_replay.cli.progress import CountLine
from otel_agent_replay.cli.reading import open_lake
from otel_agent_replay.report import amounts
from otel_agent_replay.settings import variables

if TYPE_CHECKING:
    from otel_agent_replay.model import Span

_HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"

_EPILOG = """\b
--otlp takes an address or a file: .json (one document), .jsonl (one a line), .binpb (protobuf);
.gz behind any of them. At an address OTLP is spoken over HTTP; over gRPC at grpc://HOST:PORT (with
TLS, but for --insecure), and where OTEL_EXPORTER_OTLP_PROTOCOL is grpc: with TLS at https://,
without at http://. Certificates are those of OTEL_EXPORTER_OTLP_CERTIFICATE, ..._CLIENT_CERTIFICATE
and ..._CLIENT_KEY.

\b
A run of ours goes with everything a replay needs, so that `agent-replay import`, or our collector,
makes it the same run again. What was imported goes as it came.
An address where nobody answers is given up after four tries: 3.5 seconds where it refuses, 23.5 where
it says nothing. One that has answered is asked up to eight times, for a minute.
Exit codes: 0 sent, 2 usage, 125 there is no such run, or it was not taken.

\b
Example:
  agent-replay export 0198c2 --otlp run.jsonl.gz
  agent-replay export 0198c2 0198d7 --otlp http://127.0.0.1:4318
  agent-replay export 0198c2 --otlp grpc://127.0.0.1:4317 --insecure
"""


@click.command(epilog=_EPILOG)
@lake_option
@click.option("--otlp", "target", required=True, metavar="ENDPOINT|FILE", help="Where the spans go.")
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="NAME=VALUE",
    help="A header of each request, beside OTEL_EXPORTER_OTLP_HEADERS.",
)
@click.option("--insecure", is_flag=True, help="Speak gRPC without TLS at grpc://.")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@json_option
@verbose_option
def export(
    lake: Path,
    target: str,
    headers: tuple[str, ...],
    insecure: bool,
    runs: tuple[str, ...],
    as_json: bool,
    verbose: bool,
) -> int:
    """Send RUNs as OTLP spans to an endpoint, or write them into a file."""
    from otel_agent_replay.export.otlp_files import is_otlp_file
    from otel_agent_replay.export.otlp_target import SCHEMES, Target, sender_to
    from otel_agent_replay.export.outgoing import STANDARD
    from otel_agent_replay.export.sent_runs import runs_to_send, spans_to_send
    from otel_agent_replay.otlp.parts import messages_of

    if insecure and not target.startswith("grpc://"):
        raise click.UsageError("--insecure is for grpc://HOST:PORT: http:// and https:// say themselves which it is")
    sender = None
    if target.startswith(SCHEMES):
        sender = sender_to(Target.at(target, _headers(headers), variables(STANDARD), insecure=insecure))
    elif not is_otlp_file(target):
        raise click.UsageError(
            f"{target!r} is neither an address (http://..., grpc://...) nor a .json, .jsonl or .binpb file"
        )
    stored = open_lake(lake, verbose=verbose)
    chosen = runs_to_send(stored, [stored.find(run) for run in runs])
    counted = _Counted(chosen, lambda run_id: spans_to_send(stored, [run_id]))
    if sender is not None:
        for message in messages_of(counted):
            sender.send(message)
    else:
        from otel_agent_replay.export.otlp_files import write_spans

        try:
            write_spans(counted, Path(target))
        except OSError as error:
            raise click.UsageError(f"cannot write {target!r}: {error.strerror or error}") from error
    counted.end()
    if as_json:
        head = {"schema": "agent-replay/export", "schema_version": SCHEMA_VERSION}
        emit_json({**head, "span_count": counted.count, "runs": [run_id.hex() for run_id in chosen], "to": target})
    else:
        click.echo(f"{amounts.counted(counted.count, 'span')} of {amounts.counted(len(chosen), 'run')} -> {target}")
        if len(chosen) > len(runs):
            remark(f"note: {len(chosen) - len(runs)} more runs went with them: their origins, and agents they called")
    return 0


class _Counted:
    """Spans on their way, counted; long work says how far it is, run by run."""

    def __init__(self, runs: Sequence[bytes], spans_of: Callable[[bytes], Iterable[Span]]) -> None:
        self._runs = runs
        self._spans_of = spans_of
        self._line = CountLine(len(runs), "runs sent")
        self.count = 0

    def __iter__(self) -> Iterator[Span]:
        for run_id in self._runs:
            for span in self._spans_of(run_id):
                self.count += 1
                yield span
            self._line.add(1)

    def end(self) -> None:
        """Leave the screen as it was."""
        self._line.end()


def _headers(given: tuple[str, ...]) -> dict[str, str]:
    """Return the headers of the standard variable, and over them those given."""
    found: dict[str, str] = {}
    standard = variables([_HEADERS]).get(_HEADERS, "")
    for text in (*map(unquote, standard.split(",")), *given):
        name, equals, value = text.partition("=")
        if text.strip() and not equals:
            raise click.UsageError(f"{name!r} is no header: NAME=VALUE is wanted")
        if text.strip():
            found[name.strip()] = value.strip()
    return found
