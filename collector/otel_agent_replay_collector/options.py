"""Every option of the receiver, its default and its environment name.

Precedence: argument > environment (`AGENT_REPLAY_COLLECTOR_*`) > a TOML file > default. Unknown keys are errors. The
lake, the redaction rules and their key are those of `otel_agent_replay.settings` where they are not given here.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.settings import COLLECTOR_PREFIX, Settings, variables_with

POLICIES = ("failed", "flagged", "risky")


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen; port 0 is any that is free."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def _address(text: str) -> Address | None:
    if text in ("", "off"):
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise ValueError("expected HOST:PORT, or off")
    return Address(host.strip("[]") or "127.0.0.1", int(port))


def _path(text: str) -> Path | None:
    return Path(text) if text else None


def _above_zero(text: str) -> int:
    if int(text) <= 0:
        raise ValueError("expected a number above 0")
    return int(text)


def _seconds(text: str) -> float:
    if not 0 < float(text) < float("inf"):
        raise ValueError("expected seconds above 0")
    return float(text)


def _share(text: str) -> float:
    if not 0 <= float(text) <= 1:
        raise ValueError("expected a number from 0 to 1")
    return float(text)


def _switch(text: str) -> bool:
    words = {"on": True, "true": True, "off": False, "false": False}
    if text.lower() not in words:
        raise ValueError("expected on or off")
    return words[text.lower()]


def _policies(text: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    unknown = [name for name in names if name not in POLICIES]
    if unknown:
        raise ValueError(f"expected some of {', '.join(POLICIES)}")
    return names


def _option(default: Any, parse: Callable[[str], Any], meaning: str) -> Any:
    return field(default=default, metadata={"parse": parse, "meaning": meaning})


_HTTP, _GRPC = Address("127.0.0.1", 4318), Address("127.0.0.1", 4317)


@dataclass(frozen=True, slots=True)
class CollectorOptions:
    """The options in force. Build them with `load`; an option's environment name is AGENT_REPLAY_COLLECTOR_<FIELD>."""

    lake: Path | None = _option(None, _path, "folder of the lake")
    http: Address | None = _option(_HTTP, _address, "HOST:PORT of OTLP over HTTP, health and metrics; off: none")
    grpc: Address | None = _option(_GRPC, _address, "HOST:PORT of OTLP over gRPC; off: none")
    max_request_mb: int = _option(64, _above_zero, "largest request, also once decompressed, in MiB")
    max_in_flight_mb: int = _option(512, _above_zero, "requests that are read or written at the same time, in MiB")
    max_waiting_mb: int = _option(8192, _above_zero, "accepted and not yet sealed; beyond it senders are told to wait")
    max_connections: int = _option(10_000, _above_zero, "open HTTP connections")
    request_s: float = _option(30.0, _seconds, "longest time that a request may take to arrive, in seconds")
    idle_s: float = _option(300.0, _seconds, "a connection without a request is closed after as many seconds")
    retry_s: float = _option(5.0, _seconds, "after how many seconds a refused sender is asked to try again")
    drain_s: float = _option(20.0, _seconds, "longest time that the end of the process waits for open requests")
    segment_mb: int = _option(256, _above_zero, "size of a segment of accepted requests, in MiB")
    segment_s: float = _option(2.0, _seconds, "age at which a segment is given to the sealer, in seconds")
    fsync: bool = _option(True, _switch, "off: what is acknowledged can be lost with the machine's power")
    tls_certificate: Path | None = _option(None, _path, "PEM file of our certificate chain")
    tls_key: Path | None = _option(None, _path, "PEM file of our private key")
    tls_client_ca: Path | None = _option(None, _path, "PEM file of the authority of the senders' certificates (mTLS)")
    token_file: Path | None = _option(None, _path, "file of bearer tokens, one a line")
    token: str = _option("", str, "one more bearer token; by the environment only")
    redaction: Path | None = _option(None, _path, "JSON or TOML file of redaction rules")
    hash_key: str = _option("", str, "key of the keyed-hash redaction action; by the environment only")
    seal: bool = _option(True, _switch, "off: requests are kept; `agent-replay seal` lands them")
    quiet_s: float = _option(10.0, _seconds, "a trace is landed when nothing of it came for as many seconds")
    longest_s: float = _option(300.0, _seconds, "a trace is landed when its first span is so old, quiet or not")
    keep_rate: float = _option(1.0, _share, "share of runs that are kept whatever they are, 0 to 1")
    keep: tuple[str, ...] = _option(POLICIES, _policies, "runs that are all kept: failed, flagged, risky")
    sources: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def load(
        cls,
        arguments: Mapping[str, Any] | None = None,
        *,
        file: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> CollectorOptions:
        """Return the effective options; `arguments` hold texts by field name (None: not given).

        Raises ConfigurationError for an unknown key or a wrong value, naming it and where it came from.
        """
        known = cls.options()
        values: dict[str, Any] = {}
        sources: dict[str, str] = {}
        environ = variables_with(COLLECTOR_PREFIX) if environment is None else environment
        for name, text, source in _given(arguments or {}, file, environ):
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(known))}"
                raise ConfigurationError(f"unknown option {name!r} of the collector ({source}); {hint}")
            parse, meaning, default = known[name]
            try:
                values[name], sources[name] = parse(text), source
            except ValueError as error:
                raise ConfigurationError(
                    f"option {name!r} of the collector cannot be {text!r} ({source}): {error}; it is: {meaning} "
                    f"(default {default})"
                ) from error
        return cls(**values, sources=sources)._completed()

    @classmethod
    def options(cls) -> dict[str, tuple[Callable[[str], Any], str, Any]]:
        """Return each option's parser, meaning and default, by field name."""
        return {
            item.name: (item.metadata["parse"], item.metadata["meaning"], item.default)
            for item in fields(cls)
            if "parse" in item.metadata
        }

    def _completed(self) -> CollectorOptions:
        """Return them with the project's own settings where nothing else was given, checked against each other."""
        from dataclasses import replace

        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ConfigurationError("tls_certificate and tls_key are wanted together: one of them is missing")
        if self.tls_client_ca is not None and self.tls_certificate is None:
            raise ConfigurationError("tls_client_ca asks senders for a certificate: tls_certificate must be given, too")
        if self.http is None and self.grpc is None:
            raise ConfigurationError("http and grpc are both off: there is nothing to receive by")
        shared = Settings.load()
        return replace(
            self,
            lake=self.lake or shared.lake,
            redaction=self.redaction or shared.redaction,
            hash_key=self.hash_key or shared.hash_key,
        )

    @property
    def folder(self) -> Path:
        """The lake's folder."""
        return self.lake or Path(".agent-replay")


def _given(
    arguments: Mapping[str, Any], file: Path | None, environ: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    """Yield (name, text, source) of everything that is given, from the weakest to the strongest."""
    if file is not None:
        for name, value in _table(file).items():
            yield name.replace("-", "_"), _text(value), str(file)
    for key, text in environ.items():
        yield key[len(COLLECTOR_PREFIX) :].lower(), text, f"environment variable {key}"
    for name, value in arguments.items():
        if value is not None:
            yield name, _text(value), "argument"


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _table(file: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        table: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"the collector's options in {file} cannot be read: {error}") from error
    return table
