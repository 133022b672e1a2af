"""Sockets that were made before a replay began: what is sent on them raises no audit event, or none that names it.

They are shut, not closed: their owner keeps the descriptor and gets a broken pipe when it tries.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

from otel_agent_replay.replay.fence import shown


def shut_open_sockets() -> tuple[str, ...]:
    """Shut every socket that has a peer by name or address, and those that can send to any; return the peers.

    Socket pairs and listening sockets have none and stay. Windows: nothing is found.
    """
    return tuple(_shut(number) for number in _connected_sockets())


def _descriptors() -> Iterator[int]:
    folder = Path("/proc/self/fd" if sys.platform == "linux" else "/dev/fd")
    try:
        numbers = [int(entry.name) for entry in folder.iterdir()]
    except OSError:
        numbers = list(range(256))
    for number in numbers:
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                yield number


def _connected_sockets() -> list[int]:
    """Return the descriptors of network sockets that can send; socket pairs and listening sockets cannot."""
    if os.name == "nt":
        return []
    found = []
    for number in list(_descriptors()):
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(number)) as twin:
            if _sends_to_any(twin) or twin.getpeername():
                found.append(number)
    return found


def _sends_to_any(one: socket.socket) -> bool:
    """Whether a socket needs no connection: each of its datagrams may have an address of its own."""
    return one.family in (socket.AF_INET, socket.AF_INET6) and one.type != socket.SOCK_STREAM


def _shut(number: int) -> str:
    with socket.socket(fileno=os.dup(number)) as twin:
        peer = "any address (datagrams)"
        with contextlib.suppress(OSError):
            peer = shown(twin.getpeername())
        with contextlib.suppress(OSError):  # one without a peer is shut all the same, though the call says otherwise
            twin.shutdown(socket.SHUT_RDWR)
    return peer
