"""Hostile traffic for a receiver: broken bodies, heads and connections, seeded."""

from __future__ import annotations

import contextlib
import gzip
import json
import random
import socket
from collections.abc import Callable

from google.protobuf import json_format

from tests.support.receiving import request_of

TYPES = ("application/x-protobuf", "application/json", "text/plain", "", "application/json; charset=latin-1", "\xff")


def mutated(draw: random.Random, data: bytes) -> bytes:
    """Change a few bytes, cut, double or insert a part."""
    changed = bytearray(data)
    for _ in range(draw.randrange(1, 6)):
        at = draw.randrange(len(changed) + 1)
        kind = draw.randrange(4)
        if kind == 0 and changed:
            changed[at % len(changed)] = draw.randrange(256)
        elif kind == 1:
            del changed[at : at + draw.randrange(1, 50)]
        elif kind == 2:
            changed[at:at] = draw.randbytes(draw.randrange(1, 20))
        else:
            changed[at:at] = changed[at : at + 100]
    return bytes(changed)


def body(draw: random.Random) -> tuple[bytes, str, str]:
    """A body, its content type and its content encoding; hardly ever in order."""
    request = request_of(draw.randrange(1, 12), draw.randrange(1 << 30), text_bytes=draw.choice([0, 10, 5000]))
    as_json = draw.random() < 0.4
    if as_json:
        data = json.dumps(json_format.MessageToDict(request)).encode()
        if draw.random() < 0.2:
            data = b'{"resourceSpans":' * draw.choice([10, 5000]) + data
    else:
        data = request.SerializeToString()
    for _ in range(draw.randrange(3)):
        data = mutated(draw, data)
    if draw.random() < 0.1:
        data = draw.randbytes(draw.randrange(3000))
    encoding = draw.choice(["", "", "gzip", "br"])
    if encoding == "gzip" and draw.random() < 0.8:
        data = gzip.compress(bytes(20 << 20) if draw.random() < 0.2 else data, 1)
        if draw.random() < 0.4:
            data = mutated(draw, data)
    content_type = TYPES[as_json] if draw.random() < 0.85 else draw.choice(TYPES)
    return data, content_type, encoding


def head(draw: random.Random, data: bytes, content_type: str, encoding: str) -> bytes:
    """A head for a body; sometimes it lies, sometimes it is none."""
    length = str(len(data)) if draw.random() < 0.9 else draw.choice(["-1", "x", "0", str(len(data) + 100), "9" * 18])
    lines = [
        draw.choice(["POST /v1/traces HTTP/1.1"] * 8 + ["POST /v1/logs HTTP/1.1", "GET /v1/traces HTTP/1.0"]),
        f"content-type: {content_type}",
        f"content-encoding: {encoding}",
        draw.choice([f"content-length: {length}"] * 9 + ["transfer-encoding: chunked"]),
    ]
    found = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"
    return mutated(draw, found) if draw.random() < 0.1 else found


def connection(draw: random.Random, port: int) -> bytes:
    """One hostile connection. Returns what was answered; "" where the sender went away first."""
    data, content_type, encoding = body(draw)
    sent = head(draw, data, content_type, encoding) + data
    with socket.create_connection(("127.0.0.1", port), timeout=30) as sock:
        with contextlib.suppress(OSError):
            if draw.random() < 0.3:
                cut = draw.randrange(len(sent) + 1)
                sock.sendall(sent[:cut])
                if draw.random() < 0.5:
                    return b""  # goes away in the middle
                sock.sendall(sent[cut:])
            else:
                sock.sendall(sent)
            sock.shutdown(socket.SHUT_WR)
            return _all(sock)
    return b""


def _all(sock: socket.socket) -> bytes:
    parts: list[bytes] = []
    while part := sock.recv(65536):
        parts.append(part)
    return b"".join(parts)


def storm(port: int, seed: int, count: int, between: Callable[[int], None]) -> list[bytes]:
    """`count` hostile connections, `between(number)` after each. Returns the answers."""
    draw = random.Random(seed)
    answers = []
    for number in range(count):
        answers.append(connection(draw, port))
        between(number)
    return answers
