"""Files of OTLP JSON: one document, or one a line, as the Collector's file exporter writes them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from otel_agent_replay.errors import DamagedRecording
from otel_agent_replay.imports.files import Found, spans_of
from otel_agent_replay.imports.opened_file import OpenedFile
from otel_agent_replay.model import Anomaly, AnomalyCode, Span
from otel_agent_replay.otlp.json_spans import is_trace_document, spans_of_document

_MARK = re.compile(rb'"(?:resourceSpans|resource_spans)"\s*:')
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")  # one of a pair, or one alone
_OTHER_SIGNALS = re.compile(rb'"(?:resourceLogs|resource_logs|resourceMetrics|resource_metrics)"\s*:')


def fits(file: OpenedFile) -> bool:
    """Whether it looks like OTLP JSON, of whatever signal."""
    head = file.head
    return head[:1] == b"{" and (_MARK.search(head) is not None or _OTHER_SIGNALS.search(head) is not None)


def read(file: OpenedFile) -> Found:
    """Return the spans of the file, read as they are asked for."""
    anomalies: list[Anomaly] = []
    return Found("otlp-json", spans_of(_read(file), anomalies), anomalies=anomalies)


def _read(file: OpenedFile) -> Iterator[Span | Anomaly]:
    """A document a line is read line by line; where the first line is none, the whole file must be one."""
    number = understood = 0
    first_error = ""
    for number, line in enumerate(file.lines(), start=1):
        try:
            document = json.loads(line)
        except (ValueError, RecursionError) as error:
            if number == 1:
                first_error = str(error)
                break
            yield _left_out(file, f"line {number} is no JSON ({error})")
            continue
        if not is_trace_document(document):
            yield _left_out(file, f"line {number} has no `resourceSpans`")
            continue
        understood += 1
        yield from spans_of_document(document, broken_text=_SURROGATE.search(line) is not None)
    if first_error:
        yield from _whole(file, first_error)
    elif not understood:
        raise DamagedRecording(f"{file.path} is no OTLP JSON of spans: no document in it has `resourceSpans`")
    if file.is_cut:
        yield _left_out(file, "its gzip ends in the middle: what came before was read")


def _whole(file: OpenedFile, first_error: str) -> Iterator[Span | Anomaly]:
    document = file.document
    if is_trace_document(document):
        yield from spans_of_document(document)
        return
    if document is not None:
        raise DamagedRecording(f"{file.path} is no OTLP JSON of spans: it has no `resourceSpans`")
    understood = 0
    for number, line in enumerate(file.lines(), start=1):
        try:
            document = json.loads(line)
        except (ValueError, RecursionError):
            document = None
        if is_trace_document(document):
            understood += 1
            yield from spans_of_document(document)
        else:
            yield _left_out(file, f"line {number} is no document of spans")
    if not understood:
        raise DamagedRecording(f"{file.path} is no OTLP JSON ({first_error}): one document, or one a line, is wanted")


def _left_out(file: OpenedFile, what: str) -> Anomaly:
    return Anomaly(AnomalyCode.UNREADABLE, f"{file.path}: {what}")
