"""Where spans are sent, by which protocol and as whom: our options, and OpenTelemetry's own where they say nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import unquote, urlsplit

from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.export.otlp_retry import TRIES
from otel_agent_replay.otlp.parts import MESSAGE_BYTES
from otel_agent_replay.settings import Settings

SCHEMES = ("http://", "https://", "grpc://")
_DEFAULTS = {"grpc": "http://127.0.0.1:4317", "http/protobuf": "http://127.0.0.1:4318"}


class Sender(Protocol):
    """Sends messages of spans."""

    def send(self, message: TracesData) -> None:
        """Send one message. Raises ExportRefused when it was not taken, or not wholly."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where runs are sent. `headers` may be secret. Files are PEM, empty: the system's, or none.

    gRPC is spoken to `grpc://`, and with `over_grpc` to `http://` (without TLS) and `https://`. `insecure` leaves TLS
    out at `grpc://`, which does not say.
    """

    endpoint: str
    headers: Mapping[str, str]
    message_bytes: int = MESSAGE_BYTES
    authority: str = ""
    certificate: str = ""
    key: str = ""
    over_grpc: bool = False
    insecure: bool = False

    @classmethod
    def of(cls, settings: Settings, standard: Mapping[str, str]) -> Target:
        """Return what our options say, and where they do not, OpenTelemetry's. Raises ConfigurationError.

        `OTEL_EXPORTER_OTLP_PROTOCOL` is of the endpoint that OpenTelemetry's variables name, not of ours.
        """
        protocol = _standard(standard, "PROTOCOL")
        default = _DEFAULTS.get(protocol, _DEFAULTS["http/protobuf"])
        ours = settings.otlp_endpoint
        headers = settings.otlp_headers or _standard(standard, "HEADERS")
        return cls.at(
            ours or _standard(standard, "ENDPOINT") or default,
            _headers(headers),
            {**standard, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"} if ours else standard,
            message_bytes=settings.otlp_message_mb << 20,
        )

    @classmethod
    def at(
        cls,
        endpoint: str,
        headers: Mapping[str, str],
        standard: Mapping[str, str],
        *,
        message_bytes: int = MESSAGE_BYTES,
        insecure: bool = False,
    ) -> Target:
        """Return a target whose protocol and keys OpenTelemetry's variables say. Raises ConfigurationError."""
        place = urlsplit(endpoint)
        if not endpoint.startswith(SCHEMES) or not place.hostname:
            raise ConfigurationError(
                f"otlp_endpoint {endpoint!r} is no address: http://HOST:4318, or grpc://HOST:4317 is wanted"
            )
        return cls(
            endpoint,
            headers,
            message_bytes,
            _standard(standard, "CERTIFICATE"),
            _standard(standard, "CLIENT_CERTIFICATE"),
            _standard(standard, "CLIENT_KEY"),
            _standard(standard, "PROTOCOL") == "grpc",
            insecure or _standard(standard, "INSECURE").lower() == "true",
        )


def sender_to(target: Target, *, tries: int = TRIES) -> Sender:
    """Return what sends there. Raises ConfigurationError for keys that cannot be read."""
    place = urlsplit(target.endpoint)
    if target.over_grpc or place.scheme == "grpc":
        from otel_agent_replay.export.otlp_grpc import OtlpGrpcSender, credentials_of

        bare = place.scheme == "http" or (place.scheme == "grpc" and target.insecure)
        try:
            keys = None if bare else credentials_of(target.authority, target.certificate, target.key)
        except OSError as error:
            raise ConfigurationError(f"a key of TLS cannot be read: {error}") from error
        return OtlpGrpcSender(place.netloc.rpartition("@")[2], target.headers, keys, tries=tries)

    import requests

    from otel_agent_replay.export.otlp_http import OtlpHttpSender

    session = requests.Session()
    if target.authority:
        session.verify = target.authority
    if target.certificate:
        session.cert = (target.certificate, target.key) if target.key else target.certificate
    return OtlpHttpSender(target.endpoint, target.headers, session=session, tries=tries)


def _standard(standard: Mapping[str, str], name: str) -> str:
    """Return one of OpenTelemetry's variables: that of traces, else that of all signals, else ""."""
    return standard.get(f"OTEL_EXPORTER_OTLP_TRACES_{name}") or standard.get(f"OTEL_EXPORTER_OTLP_{name}", "")


def _headers(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in filter(str.strip, text.split(",")):
        name, equals, value = part.partition("=")
        if not equals:
            raise ConfigurationError("otlp_headers are written NAME=VALUE, with commas between")
        found[name.strip()] = unquote(value.strip())
    return found
