"""Other SDKs send to the receiver: Node's by each of its exporters, Python's by its JSON exporter.

`make interop` installs them into build/; the tests are skipped where that was not done, or there is no Node.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.receiving import kept_requests, receiver, spans_of_request

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / "build"
NODE_MODULES = BUILD / "interop-node" / "node_modules"
PYTHON = BUILD / "interop-venv" / "bin" / "python"
COUNT = 700  # more than a batch

pytestmark = pytest.mark.interop


def sent_and_kept(command, tmp_path, environment):
    """Run a sender against a receiver; return the ids that it sent, and the spans that are on disk."""
    with receiver(tmp_path, grpc="127.0.0.1:0") as made:
        places = {
            "HTTP": f"http://127.0.0.1:{made.http.bound.port}/v1/traces",
            "GRPC": f"http://127.0.0.1:{made.grpc.bound.port}",
        }
        words = [places.get(word, word) for word in command]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
    requests = [ExportTraceServiceRequest.FromString(data) for data in kept_requests(tmp_path)]
    return json.loads(done.stdout), [span for request in requests for span in spans_of_request(request)]


@pytest.mark.parametrize(("kind", "place"), [("grpc", "GRPC"), ("proto", "HTTP"), ("json", "HTTP")])
def test_the_sdk_of_node_sends_to_it(tmp_path, kind, place):
    """Every span once, its values as they were set; half a surrogate pair in whatever form it can be kept."""
    if shutil.which("node") is None or not NODE_MODULES.is_dir():
        pytest.skip("Node's SDK is not installed: `make interop` does it where there are node and npm")
    command = ["node", str(HERE / "send.js"), kind, place, str(COUNT)]
    sent, kept = sent_and_kept(command, tmp_path, {**os.environ, "NODE_PATH": str(NODE_MODULES)})
    assert sorted(span.span_id.hex() for span in kept) == sorted(sent)
    span = next(span for span in kept if span.name == "step 7")
    values = {pair.key: pair.value for pair in span.attributes}
    assert (span.kind, span.status.code, span.status.message) == (3, 2, "no")
    assert "Grüße 🙂" in values["gen_ai.input.messages"].string_value
    numbers = values["numbers"].array_value.values
    assert [number.int_value or number.double_value for number in numbers] == [1, 2.5, -3]
    assert values["cut"].string_value
    assert span.events[0].attributes[0].value.bool_value


def test_the_json_exporter_of_python_sends_to_it(tmp_path):
    """Every span once, bytes among its values."""
    if not PYTHON.exists():
        pytest.skip("Python's JSON exporter is not installed: `make interop` does it")
    sent, kept = sent_and_kept(
        [str(PYTHON), str(HERE / "send_json.py"), "HTTP", str(COUNT)], tmp_path, dict(os.environ)
    )
    assert sorted(span.span_id.hex() for span in kept) == sorted(sent)
    values = {pair.key: pair.value for pair in kept[0].attributes}
    assert values["bytes"].bytes_value == b"\x00\xff"
    assert [value.int_value for value in values["numbers"].array_value.values] == [1, 2, 3]
