"""The bytes of a recorded payload, proved by its digest before anything is made of them."""

from __future__ import annotations

from collections.abc import Callable

from otel_agent_replay.errors import DamagedRecording, MissingPayload
from otel_agent_replay.model import EMPTY_DIGEST, Payload, digest_of


def proved(payload: Payload, load: Callable[[bytes], bytes | None], what: str) -> Payload:
    """Return the payload with its bytes, which `load(digest)` gives where it comes without.

    Raises MissingPayload, and DamagedRecording where they are others; both name `what` it is.
    """
    if payload.data is not None:
        return payload
    digest = payload.digest
    data = b"" if digest == EMPTY_DIGEST else load(digest)
    if data is None:
        raise MissingPayload(digest, what)
    if digest_of(data) != digest:
        raise DamagedRecording(
            f"payload {digest.hex()[:16]} ({what}) was altered; `agent-replay verify RUN` names all that is"
        )
    return Payload(digest, data, payload.media_type, len(data))
