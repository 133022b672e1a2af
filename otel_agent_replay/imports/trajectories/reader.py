"""Files of trajectories -> recordings, one reader a format. Told from the content, never from the name."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from otel_agent_replay.errors import DamagedRecording
from otel_agent_replay.imports.files import Found
from otel_agent_replay.imports.opened_file import OpenedFile
from otel_agent_replay.imports.packed import MOST_UNPACKED
from otel_agent_replay.imports.recording import Recording
from otel_agent_replay.imports.trajectories import (
    inspect_log,
    ljoukov_llm,
    message_list,
    swe_agent,
    tau2_bench,
    tau_bench,
    who_and_when,
)
from otel_agent_replay.imports.trajectories.recorded import recording_of
from otel_agent_replay.imports.trajectories.trajectory import Trajectory
from otel_agent_replay.model import Anomaly, AnomalyCode

_ZIP = b"PK\x03\x04"


@dataclass(frozen=True, slots=True)
class TrajectoryReader:
    """Reads files of one format: JSON, and JSON lines with a record a line.

    `recognises` looks at a parsed document, `parse` yields its trajectories or raises DamagedRecording.
    """

    name: str
    recognises: Callable[[Any], bool]
    parse: Callable[[Any, str], Iterator[Trajectory]]

    def fits(self, file: OpenedFile) -> bool:
        """Whether the file's document, or the record in its first line, is of the format."""
        return self.recognises(_first_document(file))

    def read(self, file: OpenedFile) -> Found:
        """Return the recordings of the file."""
        anomalies: list[Anomaly] = []
        return Found(self.name, recordings=self._recordings(file, anomalies), anomalies=anomalies)

    def _recordings(self, file: OpenedFile, anomalies: list[Anomaly]) -> Iterator[Recording]:
        if not _has_lines(file):
            document = _whole_document(file)
            if document is None:
                raise DamagedRecording(f"{file.path} is no JSON that ends where it should: it cannot be read")
            yield from map(recording_of, self.parse(document, str(file.path)))
            return
        for number, line in enumerate(file.lines()):
            place = f"{file.path}#{number}"
            document = _parsed(line)
            if document is None:
                anomalies.append(Anomaly(AnomalyCode.UNREADABLE, f"line {number + 1} of {file.path} is no JSON"))
                continue
            try:
                yield from map(recording_of, list(self.parse(document, place)))
            except DamagedRecording as error:
                anomalies.append(Anomaly(AnomalyCode.UNREADABLE, str(error)))


@dataclass(frozen=True, slots=True)
class ScoredReader(TrajectoryReader):
    """Reads runs whose scoring lies in a file beside them. The scoring by itself has no run."""

    def fits(self, file: OpenedFile) -> bool:
        """Whether the file is a run, or the scoring of one."""
        document = _first_document(file)
        return self.recognises(document) or ljoukov_llm.is_scoring(document)

    def read(self, file: OpenedFile) -> Found:
        """Return the recording of the file."""
        document = _whole_document(file)
        if ljoukov_llm.is_scoring(document):
            run = file.path.with_name(file.path.name.replace(".validation.json", ".json"))
            notes = [] if run.exists() else [f"it is the scoring of a run, and the run ({run.name}) is not beside it"]
            return Found(self.name, notes=notes)
        scoring = _scoring_beside(file.path)
        return Found(self.name, recordings=map(recording_of, ljoukov_llm.read(document, str(file.path), scoring)))


TAU_BENCH = TrajectoryReader(tau_bench.NAME, tau_bench.recognises, tau_bench.read)
TAU2_BENCH = TrajectoryReader(tau2_bench.NAME, tau2_bench.recognises, tau2_bench.read)
SWE_AGENT = TrajectoryReader(swe_agent.NAME, swe_agent.recognises, swe_agent.read)
WHO_AND_WHEN = TrajectoryReader(who_and_when.NAME, who_and_when.recognises, who_and_when.read)
LJOUKOV_LLM = ScoredReader(ljoukov_llm.NAME, ljoukov_llm.recognises, ljoukov_llm.read)
INSPECT = TrajectoryReader(inspect_log.NAME, inspect_log.recognises, inspect_log.read)
CHAT = TrajectoryReader(message_list.NAME, message_list.recognises, message_list.read)


def _first_document(file: OpenedFile) -> Any:
    return _first_line(file) if _has_lines(file) else _whole_document(file)


def _has_lines(file: OpenedFile) -> bool:
    """Whether there are several lines, and the first is a document of its own: then each line is one."""
    return isinstance(_first_line(file), Mapping)


def _first_line(file: OpenedFile) -> Any:
    first = list(islice(file.lines(), 2)) if file.head[:1] == b"{" else []
    return _parsed(first[0]) if len(first) > 1 else None


def _whole_document(file: OpenedFile) -> Any:
    if file.head.startswith(_ZIP):
        return _zipped_log(file.data(), str(file.path))
    return file.document if file.head[:1] in (b"{", b"[") else None


def _parsed(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _scoring_beside(path: Path) -> Any:
    beside = path.with_name(f"{path.stem}.validation.json")
    return _parsed(beside.read_bytes()) if beside.exists() else None


def _zipped_log(data: bytes, source: str) -> dict[str, Any] | None:
    """Return the log in a zip: its header, and the samples in their order; None for a zip of something else."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = archive.namelist()
            head = next((name for name in ("header.json", "_journal/start.json") if name in names), None)
            if head is None:
                return None
            if sum(archive.getinfo(name).file_size for name in names) > MOST_UNPACKED:
                raise DamagedRecording(f"{source} unpacks to more than {MOST_UNPACKED >> 20} MiB; it is not read")
            header = json.loads(archive.read(head))
            samples = sorted(name for name in names if name.startswith("samples/") and name.endswith(".json"))
            read = [json.loads(archive.read(name)) for name in samples]
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, RecursionError, EOFError) as error:
        raise DamagedRecording(f"{source} is a zip that cannot be read: {error}") from error
    if not isinstance(header, dict):
        raise DamagedRecording(f"{source}: header.json is no object")
    return {"status": "started", **header, "samples": read}
