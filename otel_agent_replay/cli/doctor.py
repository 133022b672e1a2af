"""`agent-replay doctor`: effective settings, lake health, covered clients, our seats in OpenTelemetry."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from otel_agent_replay.cli.doctor_check import Check
from otel_agent_replay.cli.lake_option import json_option
from otel_agent_replay.cli.output import emit_json, table
from otel_agent_replay.report.amounts import counted
from otel_agent_replay.settings import Settings

if TYPE_CHECKING:
    from otel_agent_replay.model import CoverageEntry

_EPILOG = """\b
Exit codes: 0 nothing is wrong, 1 something is.

\b
Example:
  agent-replay doctor --json
  agent-replay doctor --deep      # minutes on a large lake
  agent-replay doctor --repair
"""
_SECRET = frozenset({"hash_key", "otlp_headers"})
_ABSENT = "not installed"


@click.command(epilog=_EPILOG)
@click.option("--lake", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="Folder of the lake.")
@click.option("--deep", is_flag=True, help="Look at every file, digest and reference of the lake.")
@click.option("--repair", is_flag=True, help="The same, and repair what can be; nothing recorded is ever deleted.")
@click.option("--traces-exporter", envvar="OTEL_TRACES_EXPORTER", hidden=True, default="")
@click.option("--disabled", envvar="OTEL_PYTHON_DISABLED_INSTRUMENTATIONS", hidden=True, default="")
@click.option("--sdk-disabled", envvar="OTEL_SDK_DISABLED", hidden=True, default="")
@json_option
def doctor(
    lake: Path | None, deep: bool, repair: bool, traces_exporter: str, disabled: str, sdk_disabled: str, as_json: bool
) -> int:
    """Show the effective settings and their sources, and what of this installation is and is not covered."""
    settings = Settings.load({"lake": lake})
    rows = [
        {"setting": name, "value": _shown(name, getattr(settings, name)), "source": settings.sources[name]}
        for name in Settings.options()
    ]
    groups = {
        "lake": list(_as_far_as_readable(_lake(settings.lake))),
        "clients": [_client(entry) for entry in _coverage()],
        "opentelemetry": list(_seats(traces_exporter, disabled, sdk_disabled)),
    }
    if deep or repair:
        from otel_agent_replay.cli.doctor_lake import checks_of_files

        groups["files"] = list(_as_far_as_readable(checks_of_files(settings.lake, repair=repair)))
    wrong = [check for checks in groups.values() for check in checks if check.ok is False]
    if as_json:
        head = {"schema": "agent-replay/doctor", "schema_version": 1, "ok": not wrong, "settings": rows}
        emit_json({**head, **{name: [asdict(check) for check in checks] for name, checks in groups.items()}})
        return 1 if wrong else 0
    _print("settings", rows)
    for name, checks in groups.items():
        words = {True: "ok", False: "WRONG", None: ""}
        shown = [(words[check.ok], check.what, check.found, check.advice) for check in checks]
        _print(name, [dict(zip(("ok?", "what", "found", "advice"), row, strict=True)) for row in shown])
    return 1 if wrong else 0


def _print(title: str, rows: list[dict[str, Any]]) -> None:
    click.echo(title)
    for text in table(rows):
        click.echo(f"  {text}".rstrip())
    click.echo()


def _shown(name: str, value: object) -> str:
    if name in _SECRET and value:
        return "(set)"
    return ",".join(map(str, value)) if isinstance(value, tuple) else "" if value is None else str(value)


def _as_far_as_readable(checks: Iterator[Check]) -> Iterator[Check]:
    """Yield checks up to where the system refuses to go on, which is one more that is wrong."""
    try:
        yield from checks
    except OSError as error:
        yield Check("reading", f"{error.filename or ''} {error.strerror or error}".strip(), False, "let it be read")


def _lake(lake: Path) -> Iterator[Check]:
    import os
    import shutil

    if not lake.exists():
        yield Check("folder", f"{lake.absolute()} does not exist yet", None, "it is made by the first recording")
        return
    writable = os.access(lake, os.W_OK)
    yield Check("folder", str(lake.absolute()), writable, "" if writable else "nothing can be recorded: not writable")
    free = shutil.disk_usage(lake).free
    yield Check("free space", f"{free / 1e9:.1f} GB", free > 1e9, "" if free > 1e9 else "recordings may be lost soon")
    from otel_agent_replay.export.segment_file import journal_folder
    from otel_agent_replay.export.segments import list_segments

    segments = list_segments(lake)
    written = sum(not segment.closed for segment in segments)
    waiting = len(segments) - written
    yield Check("journal", f"{counted(written, 'segment')} being written, {waiting} to be sealed")
    damaged = sorted(path.name for path in journal_folder(lake).glob("*.damaged"))
    if damaged:
        yield Check("damaged segments", ", ".join(damaged), False, "kept aside by the sealer; records in them are lost")
    yield _runs(lake)


def _runs(lake: Path) -> Check:
    from otel_agent_replay.errors import RecordingError
    from otel_agent_replay.lake.catalog import Lake

    try:
        found = Lake(lake).runs()
    except RecordingError as error:
        return Check("runs", str(error), False, "restore the file, or move it out of the lake")
    lossy = sum(1 for summary in found if summary.loss_count)
    return Check("runs", f"{len(found)} sealed, {lossy} of them with losses")


def _coverage() -> Iterator[CoverageEntry]:
    """Say what the hooks of this installation stand in front of: put in place, asked, taken out again."""
    import importlib

    from otel_agent_replay.boundary import transports
    from otel_agent_replay.boundary.transports.uncovered import SDKS
    from otel_agent_replay.model import CoverageEntry

    for name in transports.FAMILIES:
        if _is_installed(name):
            importlib.import_module(name)  # a hook tells a version it does not know only when the library is there
    if in_place := transports.coverage():
        yield from in_place
    else:
        entries = transports.install()
        transports.uninstall()
        yield from (
            entry if _is_installed(entry.what) else CoverageEntry(entry.what, "captured", _ABSENT) for entry in entries
        )
    for name, why in SDKS.items():
        if _is_installed(name):
            yield CoverageEntry(name, "not_captured", why)


def _is_installed(name: str) -> bool:
    """Whether a module can be found, without importing it or the packages above it."""
    from importlib.util import find_spec

    top, _, rest = name.partition(".")
    spec = find_spec(top)
    if spec is None or not rest:
        return spec is not None
    inside = Path(*rest.split("."))
    folders = [Path(folder) / inside for folder in spec.submodule_search_locations or ()]
    return any(folder.is_dir() or folder.with_suffix(".py").is_file() for folder in folders)


def _client(entry: CoverageEntry) -> Check:
    return Check(entry.what, entry.detail, None if entry.detail == _ABSENT else entry.state == "captured")


def _seats(traces_exporter: str, disabled: str, sdk_disabled: str) -> Iterator[Check]:
    from importlib import metadata

    packages = {distribution.name: distribution.version for distribution in metadata.distributions()}
    for package in ("opentelemetry-api", "opentelemetry-sdk", "opentelemetry-distro"):
        yield Check(package, packages.get(package, "not installed"))
    instrumentors = {point.name for point in metadata.entry_points(group="opentelemetry_instrumentor")}
    exporters = {point.name for point in metadata.entry_points(group="opentelemetry_traces_exporter")}
    for group, names in (("opentelemetry_instrumentor", instrumentors), ("opentelemetry_traces_exporter", exporters)):
        there = "agent_replay" in names
        found, advice = ("agent_replay is there", "") if there else ("agent_replay is missing", "install it again")
        yield Check(group, found, there, advice)
    others = sorted(point.name for point in metadata.entry_points(group="opentelemetry_distro"))
    yield Check("distributions", ", ".join(others) or "none")
    off = "agent_replay" in {name.strip() for name in disabled.split(",")}
    if off:
        yield Check("OTEL_PYTHON_DISABLED_INSTRUMENTATIONS", disabled, False, "take agent_replay out of the list")
    if sdk_disabled.strip().lower() == "true":
        yield Check("OTEL_SDK_DISABLED", sdk_disabled, None, "spans go nowhere; recording does not need them")
    unknown = sorted(
        {name.strip() for name in traces_exporter.split(",")} - exporters - {"", "none", "otlp", "console"}
    )
    if unknown:
        advice = "an unknown exporter turns all tracing off; install its package or take the name out"
        yield Check("OTEL_TRACES_EXPORTER", ", ".join(unknown), False, advice)
    elif traces_exporter:
        yield Check("OTEL_TRACES_EXPORTER", traces_exporter, True)
