"""What a file of spans says of its traces (scores, annotations) -> labels of the runs that these became."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from otel_agent_replay.imports.files import TraceLabel
from otel_agent_replay.lake.label_file import labels_not_there, write_labels
from otel_agent_replay.model import Label
from otel_agent_replay.payload.redaction import Redaction


def write_trace_labels(
    lake: Path, said: Iterable[TraceLabel], runs: Mapping[bytes, bytes], redaction: Redaction
) -> list[TraceLabel]:
    """Write what is said of traces whose runs (trace id to run id) are known, each once; return the rest.

    Texts are redacted before they are written. Raises DamagedRecording, UnsupportedFormat, OSError.
    """
    labels: list[Label] = []
    left = []
    for one in said:
        run_id = runs.get(one.trace_id)
        if run_id is None:
            left.append(one)
            continue
        value = redaction.text(one.value) if isinstance(one.value, str) else one.value
        who, name, note = map(redaction.text, (one.who, one.name, one.note))
        labels.append(Label(run_id, who, one.time_ns, name, value, note, one.span_id))
    missing = labels_not_there(lake, labels) if labels else []
    if missing:
        write_labels(lake, missing)
    return left
