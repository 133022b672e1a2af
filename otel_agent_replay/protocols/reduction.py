"""One answer reduced while it arrives: bytes in any chunking -> framing -> event reducer -> `Folded`.

Owns the order of things and nothing of any provider: the first bytes say how the body is framed, each complete event
goes to the reducer at once, and the end of the body finishes it. A body that is no stream is one value, so it is kept
until its end. `Protocol.fold` is this with one chunk: there is no second way to read a body.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from otel_agent_replay.protocols.folded import Folded, without_surrogates
from otel_agent_replay.protocols.json_text import has_surrogate_escape
from otel_agent_replay.protocols.stream import EventReducer, ObjectStream

if TYPE_CHECKING:
    from otel_agent_replay.protocols.protocol import Protocol

_DECIDES = 64  # bytes; as many as `Protocol.framing` looks at
_ESCAPE = len(rb"\ud") - 1  # bytes of an escape that may lie before a cut
_WATCHED = 8192  # bytes; small pieces are looked through together


class Reduction:
    """Feed it the body as it comes, then finish it. Nothing raises, whatever the bytes.

    `media_type` and `status` are those of the answer; the body is decoded of any content coding first.
    """

    def __init__(self, protocol: Protocol, media_type: str, status: int) -> None:
        self._protocol = protocol
        self._media_type = media_type
        self._status = status
        self._kept: list[bytes] | None = []
        self._start = b""
        self._decided = False
        self._stream: ObjectStream | None = None
        self._reducer: EventReducer | None = None
        self._unwatched = bytearray()
        self._surrogates = False

    def feed(self, chunk: bytes) -> None:
        """Take the next piece of the body, of any size."""
        if not self._surrogates:
            self._unwatched += chunk
            if len(self._unwatched) > _WATCHED:
                self._watch()
        if self._decided:
            self._take(chunk)
            return
        self._start += chunk
        if len(self._start) >= _DECIDES:
            self._decide()

    def finish(self) -> Folded:
        """The whole answer, the body having ended here."""
        if not self._decided:
            self._decide()
        if self._stream is None or self._reducer is None:
            folded = self._protocol.fold_whole(b"".join(self._kept or ()), self._status)
        else:
            for name, value in self._stream.close():
                self._reducer.add(name, value)
            folded = self._reducer.result(ended=self._stream.done, problems=self._stream.problems)
        self._watch()
        return without_surrogates(folded) if self._surrogates else folded

    def _decide(self) -> None:
        self._decided = True
        self._stream = self._protocol.framing(self._start, self._media_type)
        if self._stream is not None:
            self._reducer = self._protocol.reducer(self._status)
            self._kept = None
        self._take(self._start)

    def _take(self, chunk: bytes) -> None:
        if self._stream is None or self._reducer is None:
            if self._kept is not None:
                self._kept.append(chunk)
            return
        add = self._reducer.add
        for name, value in self._stream.feed(chunk):
            add(name, value)

    def _watch(self) -> None:
        self._surrogates = self._surrogates or has_surrogate_escape(self._unwatched)
        del self._unwatched[:-_ESCAPE]


def reduce_chunks(protocol: Protocol, chunks: Iterable[bytes], media_type: str, status: int) -> Folded:
    r"""The answer that arrived in `chunks`.

    >>> from otel_agent_replay.protocols import OPENAI_CHAT
    >>> reduce_chunks(OPENAI_CHAT, [b'data: {"choices":[{"delta":{"con', b'tent":"hi"}}]}\n\n'], "", 200).text
    'hi'
    """
    reduction = Reduction(protocol, media_type, status)
    for chunk in chunks:
        reduction.feed(chunk)
    return reduction.finish()
