"""The endpoints that a replay may reach, looked up once, before any wall stands.

Owns what an address is, as Python gives it and as the kernel sees it, and the names: while a replay lasts, a declared
name is what it was when the replay began, so that nobody needs to be asked and nobody can answer otherwise.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from otel_agent_replay.errors import ConfigurationError

TABLE_NAME = "endpoints.json"  # in the folder of a replay, what `Endpoints.to_json` wrote
_IN, _IN6, _UNIX = 2, 10, 1  # address families as Linux numbers them


@dataclass(frozen=True, slots=True)
class Endpoints:
    """What may be reached: `addresses` as (numeric or declared host, port), `paths` of local sockets.

    `names` are the declared hosts with the numeric addresses that were found for them, () where none was.
    """

    addresses: frozenset[tuple[str, int]] = frozenset()
    paths: frozenset[str] = frozenset()
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def resolve(cls, allow: Sequence[str]) -> Endpoints:
        """Look up `host:port` and `unix:/path` entries. Raises ConfigurationError for one of another form."""
        addresses: set[tuple[str, int]] = set()
        paths: set[str] = set()
        names: dict[str, tuple[str, ...]] = {}
        for entry in allow:
            if entry.startswith("unix:"):
                paths.add(entry[5:])
                continue
            host, _, port = entry.rpartition(":")
            host = host.strip("[]").lower()
            if not host or not port.isdecimal():
                raise ConfigurationError(f"allowed endpoint {entry!r} is not like `host:port` or `unix:/path`")
            if host not in names:
                names[host] = _looked_up(host)
            addresses.add((host, int(port)))
            addresses |= {(found, int(port)) for found in names[host]}
        return cls(frozenset(addresses), frozenset(paths), names)

    def allows(self, address: object) -> bool:
        """Whether an address of Python's `socket` may be reached."""
        if isinstance(address, (str, bytes)):
            return os.fsdecode(address) in self.paths
        if isinstance(address, tuple) and len(address) >= 2:
            return (_plain(str(address[0])), address[1]) in self.addresses
        return False

    def judge(self, raw: bytes) -> tuple[str, bool]:
        """Return an address that the kernel was given (a `sockaddr`) as text, and whether it may be reached."""
        address = _parsed(raw)
        if address is None:
            return "an address of another kind", False
        if isinstance(address, str):
            return address, address in self.paths
        return f"{address[0]}:{address[1]}", address in self.addresses

    def to_json(self) -> str:
        """Return it as text, for another process."""
        return json.dumps([sorted(self.addresses), sorted(self.paths), dict(self.names)])

    @classmethod
    def from_json(cls, text: str) -> Endpoints:
        """Return what `to_json` wrote."""
        addresses, paths, names = json.loads(text)
        return cls(
            frozenset((host, port) for host, port in addresses),
            frozenset(paths),
            {name: tuple(found) for name, found in names.items()},
        )


def _looked_up(host: str) -> tuple[str, ...]:
    found: dict[str, None] = {}
    with contextlib.suppress(OSError):
        for one in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM):
            found[_plain(str(one[4][0]))] = None
    return tuple(found)


def _plain(host: str) -> str:
    """Return a numeric address in one form, an IPv4 one inside IPv6 as itself; a name in lower case."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host.lower()
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def _parsed(raw: bytes) -> tuple[str, int] | str | None:
    if len(raw) < 2:
        return None
    (family,) = struct.unpack_from("=H", raw)
    if family == _IN and len(raw) >= 8:
        return socket.inet_ntop(socket.AF_INET, raw[4:8]), int.from_bytes(raw[2:4], "big")
    if family == _IN6 and len(raw) >= 24:
        return _plain(socket.inet_ntop(socket.AF_INET6, raw[8:24])), int.from_bytes(raw[2:4], "big")
    if family == _UNIX and raw[2:3] != b"\0":
        return os.fsdecode(raw[2:].partition(b"\0")[0])
    return None
