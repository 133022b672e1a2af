"""Why a request is not taken, in the words of both protocols: a code, a sentence, and when to try again.

HTTP answers carry the same `google.rpc.Status` as gRPC, in the encoding of the request, as OTLP wants it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from google.rpc import error_details_pb2, status_pb2

INVALID_ARGUMENT, NOT_FOUND, RESOURCE_EXHAUSTED, UNIMPLEMENTED, INTERNAL, UNAVAILABLE, UNAUTHENTICATED = (
    3,
    5,
    8,
    12,
    13,
    14,
    16,
)
"""Codes of `google.rpc.Code`."""


@dataclass(eq=False)
class Refused(Exception):
    """A request that is not taken. `retry_s` is when to try again, in seconds; None: never, as it is."""

    code: int
    http: int
    message: str
    retry_s: float | None = None
    reason: str = "invalid"

    def status(self) -> Any:
        """Return the `google.rpc.Status` message."""
        status = status_pb2.Status(code=self.code, message=self.message)
        if self.retry_s is not None:
            info = error_details_pb2.RetryInfo()
            info.retry_delay.FromMilliseconds(int(self.retry_s * 1000))
            status.details.add().Pack(info)
        return status

    def body(self, *, as_json: bool) -> bytes:
        """Return the body of an HTTP answer."""
        if as_json:
            return json.dumps({"code": self.code, "message": self.message}).encode()
        return bytes(self.status().SerializeToString())


def undecodable(why: str) -> Refused:
    """Return the refusal of a request that cannot be decoded; sending it again would not help."""
    return Refused(INVALID_ARGUMENT, 400, f"the request cannot be decoded: {why}")


def too_large(size: str, most: int) -> Refused:
    """Return the refusal of a request that is larger than `most` bytes."""
    message = f"the request has {size} bytes, and {most} may be sent at once: send fewer spans, or raise max_request_mb"
    return Refused(INVALID_ARGUMENT, 413, message, reason="too_large")


def busy(message: str, retry_s: float, reason: str) -> Refused:
    """Return the refusal of a request that may be sent again."""
    return Refused(RESOURCE_EXHAUSTED, 429, message, retry_s, reason)


def unavailable(message: str, retry_s: float, reason: str) -> Refused:
    """Return the refusal of a request that cannot be kept just now."""
    return Refused(UNAVAILABLE, 503, message, retry_s, reason)


def unauthenticated() -> Refused:
    """Return the refusal of a request without a valid token."""
    return Refused(UNAUTHENTICATED, 401, "a bearer token is wanted that this receiver knows", reason="unauthenticated")
