"""Laws of trajectories: whatever is in a file of a known format, it becomes runs or an error that says where."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otel_agent_replay.errors import DamagedRecording
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
from otel_agent_replay.lake.writer import write_runs
from otel_agent_replay.payload.redaction import Redaction
from tests.support.trajectories import WRITTEN_NS, desk_messages, documents, tau_record

MODULES = {
    "tau-bench": tau_bench,
    "tau2-bench": tau2_bench,
    "swe-agent": swe_agent,
    "who-and-when": who_and_when,
    "ljoukov-llm": ljoukov_llm,
    "inspect": inspect_log,
    "chat": message_list,
}

scalars = st.none() | st.booleans() | st.integers(-3, 1 << 70) | st.floats() | st.sampled_from(["", "x", "\ud800", "5"])
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)


def places(value, path=()):
    """Every place in a JSON value."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield from places(item, (*path, key))


def altered(document, path, new, remove):
    if not path:
        return new
    document = copy.deepcopy(document)
    at = document
    for key in path[:-1]:
        at = at[key]
    if remove:
        del at[path[-1]]
    else:
        at[path[-1]] = new
    return document


@pytest.mark.parametrize("name", MODULES)
@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_a_damaged_record_is_a_run_or_a_named_error(name, data):
    """With any part of it replaced or removed, a record is read whole or refused with its file's name."""
    document = documents()[name]
    for _ in range(data.draw(st.integers(1, 2))):
        path = data.draw(st.sampled_from(list(places(document))))
        document = altered(document, path, data.draw(values), data.draw(st.booleans()))
    try:
        recordings = [recording_of(one) for one in MODULES[name].read(document, "the file")]
        built = [one.build(WRITTEN_NS, Redaction.default()) for one in recordings]
    except DamagedRecording as error:
        assert "the file" in str(error)
        return
    for one in built:
        sequences = [node.sequence for node in one.run.nodes]
        assert sequences == sorted(set(sequences))
        steps = [node.step for node in one.run.nodes if node.step is not None]
        assert steps == list(range(1, len(steps) + 1))


def test_what_is_read_can_be_written(tmp_path):
    """A half character, a number beyond 64 bits and NaN in a message are no hindrance to the lake."""
    messages = desk_messages(answer="half \ud800, whole")
    messages[3]["content"] = json.dumps({"n": 1 << 80, "x": float("nan")})
    (trajectory,) = message_list.read(messages, "the file")
    built = recording_of(trajectory).build(WRITTEN_NS, Redaction.default())
    assert write_runs(tmp_path, [built.run], segments=())


@given(st.integers(0, 1 << 60), st.integers(0, 1 << 60))
def test_identity_is_of_the_record(first, second):
    """The same record imported at any two times has one trace id; its run id differs in its time alone."""
    (trajectory,) = tau_bench.read([tau_record()], "a")
    one, other = (recording_of(trajectory).build(ns, Redaction.default()).run.run for ns in (first, second))
    assert one.trace_id == other.trace_id
    assert one.run_id[6:] == other.run_id[6:]
