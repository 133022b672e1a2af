"""Secrets in AWS event streams: masked inside the frames, whose lengths and checksums are then made anew.

The rules know text and not frames, so they are shown what the frames say as server-sent events, one a frame: a secret
that is spelled over several frames is then found like in any other stream. The models' own objects that Bedrock packs
into base64 are shown unpacked.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from itertools import accumulate, pairwise

from otel_agent_replay.payload.redaction import Redaction
from otel_agent_replay.protocols.event_stream import MEDIA_TYPE, Frame, frames_of, with_payload

__all__ = ["MEDIA_TYPE", "masked_frames"]

_BASE64 = re.compile(rb'"bytes"\s*:\s*"([A-Za-z0-9+/=]+)"')
_BEFORE, _AFTER = b"data: ", b"\n\n"
_LINE_ENDS = bytes.maketrans(b"\r\n", b"  ")  # in JSON they are spaces, among events they are borders


def masked_frames(redaction: Redaction, chunks: Sequence[bytes]) -> list[bytes]:
    """Return as many chunks, each ending where it did (or at the end of its frame, where that is shorter now).

    Frames in which nothing is masked keep their bytes. What cannot be read as a frame is looked at as bytes.
    """
    frames = list(frames_of(chunks))
    shown = [_shown(frame) for frame in frames]
    clean = redaction.chunks(shown, "text/event-stream")
    if clean == shown and not any(frame.problem for frame in frames):
        return list(chunks)
    made = [
        redaction.body(frame.data, "application/octet-stream")
        if frame.problem is not None
        else frame.data
        if before == after
        else _with(frame, after[len(_BEFORE) : -len(_AFTER)])
        for frame, before, after in zip(frames, shown, clean, strict=True)
    ]
    return _cut(b"".join(made), chunks, frames, made)


def _shown(frame: Frame) -> bytes:
    """What the frame says, as an event; nothing for what is no frame."""
    if frame.problem is not None:
        return b""
    place = _packed(frame)
    said = frame.payload if place is None else base64.b64decode(frame.payload[place[0] : place[1]])
    return _BEFORE + said.translate(_LINE_ENDS) + _AFTER


def _packed(frame: Frame) -> tuple[int, int] | None:
    """Where in the payload a model's own object stands in base64, None where there is none."""
    found = _BASE64.search(frame.payload) if frame.text(":event-type") == "chunk" else None
    if found is None:
        return None
    try:
        base64.b64decode(found[1], validate=True)
    except binascii.Error:
        return None
    return found.span(1)


def _with(frame: Frame, said: bytes) -> bytes:
    place = _packed(frame)
    if place is not None:
        said = frame.payload[: place[0]] + base64.b64encode(said) + frame.payload[place[1] :]
    return with_payload(frame, said)


def _cut(body: bytes, chunks: Sequence[bytes], frames: list[Frame], made: list[bytes]) -> list[bytes]:
    """Cut the new body where the old one was cut, frame by frame."""
    before = [0, *accumulate(len(frame.data) for frame in frames)]
    after = [0, *accumulate(map(len, made))]
    cuts, number = [0], 0
    for at in accumulate(map(len, chunks)):
        while before[number + 1] < at:
            number += 1
        cuts.append(
            min(after[number] + at - before[number], after[number + 1]) if at > before[number] else after[number]
        )
    cuts[-1] = len(body)
    return [body[start:end] for start, end in pairwise(cuts)]
