"""`agent-replay export --otlp grpc://...`: spans over gRPC, with and without TLS, again until they are taken."""

from __future__ import annotations

import contextlib
import json
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from click.testing import CliRunner
from google.rpc import error_details_pb2, status_pb2
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from otel_agent_replay.cli.main import main
from otel_agent_replay.errors import ConfigurationError, ExportRefused
from otel_agent_replay.export.otlp_grpc import OtlpGrpcSender
from otel_agent_replay.export.otlp_target import Target, sender_to
from otel_agent_replay.imports.landing import land
from otel_agent_replay.imports.trace_structure import content_of
from otel_agent_replay.model import Span
from otel_agent_replay.otlp.parts import messages_of
from otel_agent_replay.otlp.spans import spans_of
from otel_agent_replay.settings import Settings
from tests.support.certificates import certificates
from tests.support.receiving import kept_span_ids, receiver

TRACE = b"\x07" * 16
SPANS = [
    Span(TRACE, number.to_bytes(8, "big"), f"s{number}", 10**18 + number, 10**18 + 99, (number - 1).to_bytes(8, "big"))
    for number in range(2, 6)
]
ROOT = Span(TRACE, b"\0" * 7 + b"\x01", "root", 10**18, 10**18 + 99, attributes={"gen_ai.prompt": "x" * 9000})
MESSAGE = next(messages_of(SPANS))
METHOD = "Export"


def retry_after(seconds):
    """The status details of a refusal that may be sent again."""
    status = status_pb2.Status(code=8, message="busy")
    info = error_details_pb2.RetryInfo()
    info.retry_delay.FromMilliseconds(int(seconds * 1000))
    status.details.add().Pack(info)
    return (("grpc-status-details-bin", status.SerializeToString()),)


class Endpoint:
    """An OTLP endpoint that answers as told, then takes everything."""

    def __init__(self, *answers, keys=None):
        self.requests, self.metadata = [], []
        self._waiting = list(answers)
        handlers = {METHOD: grpc.unary_unary_rpc_method_handler(self._export)}
        service = "opentelemetry.proto.collector.trace.v1.TraceService"
        self._server = grpc.server(
            ThreadPoolExecutor(2), handlers=(grpc.method_handlers_generic_handler(service, handlers),)
        )
        if keys is None:
            self.port = self._server.add_insecure_port("127.0.0.1:0")
        else:
            pair = (keys.server_key.read_bytes(), keys.server.read_bytes())
            credentials = grpc.ssl_server_credentials([pair], keys.authority.read_bytes(), require_client_auth=True)
            self.port = self._server.add_secure_port("127.0.0.1:0", credentials)

    def _export(self, body, context):
        self.requests.append(ExportTraceServiceRequest.FromString(body))
        self.metadata.append(dict(context.invocation_metadata()))
        answer = self._waiting.pop(0) if self._waiting else b""
        if isinstance(answer, bytes):
            return answer
        code, details = answer
        context.set_trailing_metadata(details)
        context.abort(code, "said so")

    @property
    def spans(self):
        return [one for message in self.requests for group in message.resource_spans for one in spans_of(group)]

    def __enter__(self):
        self._server.start()
        return self

    def __exit__(self, *_):
        self._server.stop(None).wait()


@pytest.fixture
def lake(tmp_path, monkeypatch):
    for name in ("PROTOCOL", "TRACES_PROTOCOL", "INSECURE", "HEADERS"):
        monkeypatch.delenv(f"OTEL_EXPORTER_OTLP_{name}", raising=False)
    (trace,) = land(tmp_path / "lake", [ROOT, *SPANS], source="test").traces
    return tmp_path / "lake", trace.run_id.hex()


def export(lake, target, *more):
    folder, run_id = lake
    words = ["export", "--lake", str(folder), "--otlp", target, *more, "--json", run_id]
    return CliRunner().invoke(main, words)


def test_a_run_is_sent_over_grpc(lake, monkeypatch):
    """Every span arrives as it is in the lake, with the headers of the variable and of the command."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "X-Tenant=a%20b")
    with Endpoint() as endpoint:
        done = export(lake, f"grpc://127.0.0.1:{endpoint.port}", "--insecure", "--header", "x-key=k")
    assert (done.exit_code, json.loads(done.stdout)["span_count"]) == (0, 5)
    assert sorted(map(content_of, endpoint.spans)) == sorted(map(content_of, [ROOT, *SPANS]))
    assert {key: endpoint.metadata[0][key] for key in ("x-tenant", "x-key")} == {"x-tenant": "a b", "x-key": "k"}


def test_the_standard_variable_says_grpc(lake, monkeypatch):
    """With OTEL_EXPORTER_OTLP_PROTOCOL=grpc an http:// address is spoken to over gRPC, without TLS."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    with Endpoint() as endpoint:
        assert export(lake, f"http://127.0.0.1:{endpoint.port}").exit_code == 0
    assert len(endpoint.spans) == 5


def test_over_tls_both_sides_prove_who_they_are(lake, tmp_path, monkeypatch):
    """grpc:// means TLS; authority and certificate are those of OpenTelemetry's variables."""
    keys = certificates(tmp_path / "keys")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", str(keys.authority))
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", str(keys.client))
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CLIENT_KEY", str(keys.client_key))
    with Endpoint(keys=keys) as endpoint:
        assert export(lake, f"grpc://localhost:{endpoint.port}").exit_code == 0
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc")
        assert export(lake, f"https://localhost:{endpoint.port}").exit_code == 0
    assert len(endpoint.spans) == 10
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CLIENT_KEY", str(tmp_path / "none"))
    missing = export(lake, f"grpc://localhost:{endpoint.port}")
    assert missing.exit_code != 0
    assert "key of TLS" in missing.output + missing.stderr


def test_our_receiver_takes_it(lake, tmp_path):
    """What goes out over gRPC is what our own collector acknowledges."""
    with receiver(tmp_path / "other", grpc="127.0.0.1:0") as made:
        assert export(lake, f"grpc://127.0.0.1:{made.grpc.bound.port}", "--insecure").exit_code == 0
    assert sorted(kept_span_ids(tmp_path / "other")) == sorted(span.span_id for span in [ROOT, *SPANS])


def test_a_busy_endpoint_is_asked_again():
    """UNAVAILABLE is tried again, and RESOURCE_EXHAUSTED with RetryInfo after as long as that says."""
    waits = []
    busy = (grpc.StatusCode.UNAVAILABLE, ()), (grpc.StatusCode.RESOURCE_EXHAUSTED, retry_after(3))
    with Endpoint(*busy) as endpoint:
        OtlpGrpcSender(f"127.0.0.1:{endpoint.port}", wait=waits.append).send(MESSAGE)
    assert (len(endpoint.requests), waits) == (3, [0.5, 3.0])


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((grpc.StatusCode.INVALID_ARGUMENT, ()), "INVALID_ARGUMENT: said so"),
        ((grpc.StatusCode.RESOURCE_EXHAUSTED, ()), "RESOURCE_EXHAUSTED: said so"),
        ((grpc.StatusCode.UNAUTHENTICATED, retry_after(1)), "UNAUTHENTICATED"),
        ((grpc.StatusCode.RESOURCE_EXHAUSTED, (("grpc-status-details-bin", b"\xff"),)), "RESOURCE_EXHAUSTED"),
        (
            ExportTraceServiceResponse(
                partial_success=ExportTracePartialSuccess(rejected_spans=1, error_message="too old")
            ).SerializeToString(),
            "all but 1 spans: too old",
        ),
    ],
)
def test_a_refusal_and_a_partial_success_are_told(answer, said):
    """What the specification does not let one send again is an error at once, with what was answered."""
    with Endpoint(answer) as endpoint, pytest.raises(ExportRefused, match=said) as refused:
        OtlpGrpcSender(f"127.0.0.1:{endpoint.port}", wait=lambda _: None).send(MESSAGE)
    assert (len(endpoint.requests), refused.value.may_try_again) == (1, False)


def test_an_endpoint_that_is_not_there_is_told():
    """After a few tries the error says who was asked, how often, and that it may be tried again."""
    waits = []
    with pytest.raises(ExportRefused, match=r"nobody answers at 127.0.0.1:9 \(gRPC\), 4 times") as refused:
        OtlpGrpcSender("127.0.0.1:9", wait=waits.append).send(MESSAGE)
    assert (waits, refused.value.may_try_again) == ([0.5, 1.0, 2.0], True)


def test_an_endpoint_without_tls_is_named_as_such(lake, tmp_path):
    """Who meant --insecure, or has no authority of a certificate, learns it at once, not after a minute of tries."""
    with Endpoint() as endpoint:
        done = export(lake, f"grpc://127.0.0.1:{endpoint.port}")
    assert (done.exit_code, "--insecure" in done.stderr) == (125, True)
    with Endpoint(keys=certificates(tmp_path / "keys")) as endpoint:
        done = export(lake, f"grpc://localhost:{endpoint.port}")
    assert (done.exit_code, "OTEL_EXPORTER_OTLP_CERTIFICATE" in done.stderr) == (125, True)


def test_insecure_is_for_addresses_that_do_not_say(lake):
    """http:// and https:// say themselves whether there is TLS."""
    done = export(lake, "https://127.0.0.1:9", "--insecure")
    assert (done.exit_code, "grpc://" in done.stderr) == (2, True)


def kind_of(environment, **ours):
    settings = Settings.load({"lake": "x", **ours})
    with contextlib.suppress(ConfigurationError):
        return type(sender_to(Target.of(settings, environment))).__name__
    return None


def test_a_recording_service_sends_by_the_protocol_of_the_endpoint_it_names():
    """OpenTelemetry's protocol is of OpenTelemetry's endpoint; ours says it by its scheme."""
    grpc_ = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    assert kind_of(grpc_) == "OtlpGrpcSender"
    assert kind_of({**grpc_, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"}) == "OtlpHttpSender"
    assert kind_of({}) == "OtlpHttpSender"
    assert kind_of(grpc_, otlp_endpoint="http://127.0.0.1:4318") == "OtlpHttpSender"
    assert kind_of({}, otlp_endpoint="grpc://127.0.0.1:4317") == "OtlpGrpcSender"
    assert kind_of({}, otlp_endpoint="grpc://") is None
