"""A label: what a person or a program says of a run, beside the recording, which stays as it is."""

from __future__ import annotations

from dataclasses import dataclass

from otel_agent_replay.model.span import AttributeValue


@dataclass(frozen=True, slots=True)
class Label:
    """`who` says at `time_ns` (Unix nanoseconds) that `name` of run `run_id` is `value`; `note` says why.

    `span_id` is of the span that is judged; empty: the run.
    """

    run_id: bytes
    who: str
    time_ns: int
    name: str
    value: AttributeValue
    note: str = ""
    span_id: bytes = b""
