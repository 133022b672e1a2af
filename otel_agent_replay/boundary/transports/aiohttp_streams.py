"""aiohttp's body reader with a tap in it, and the same reader played from a recording.

Both are pulled by the reader's own calls: each piece is what the application received at one call, so that a
replay gives the same pieces however fast it runs. Packed bodies are unpacked here, after the tap.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from otel_agent_replay.boundary.http_exchange import ResponseTap, Served

CODINGS = frozenset({"gzip", "deflate", "br", "zstd"})


class NoProtocol:
    """Stands where a reader has its connection, which it would ask to pause; the source does that by itself."""

    connected = True
    _reading_paused = False

    def pause_reading(self) -> None:
        """Nothing to pause."""

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Nothing to resume."""


class _Pulled:
    """What both readers share: a buffer filled on demand, through the library's own unpacking."""

    _buffer: Any
    _eof: bool
    _exception: BaseException | None
    _size: int
    _http_chunk_splits: Any
    feed_data: Any
    feed_eof: Any
    end_http_chunk_receiving: Any

    agent_replay_decoder: Any = None
    agent_replay_payload_error: Any = None
    agent_replay_by_chunk = False
    agent_replay_chunked = False

    def _give(self, data: bytes, *, ends_chunk: bool = False) -> None:
        decoder = self.agent_replay_decoder
        if decoder is None:
            self.feed_data(data, len(data))
        else:
            self._unpack(lambda: _feed_all(decoder, data))
        if ends_chunk and self._http_chunk_splits is not None:
            self.end_http_chunk_receiving()

    def _give_end(self) -> None:
        decoder = self.agent_replay_decoder
        if decoder is None:
            self.feed_eof()
        else:
            self._unpack(decoder.feed_eof)

    def _unpack(self, step: Any) -> None:
        try:
            step()
        except Exception as error:
            wrapped = self.agent_replay_payload_error(str(error))
            wrapped.__cause__ = error
            self._exception = wrapped
            raise wrapped from error

    async def readchunk(self) -> Any:
        self.agent_replay_by_chunk = True
        try:
            return await super().readchunk()  # type: ignore[misc]
        finally:
            self.agent_replay_by_chunk = False

    def _top_up(self) -> None:
        raise NotImplementedError

    def _read_nowait(self, n: int) -> Any:
        if n == -1 or self._size < n:
            self._top_up()
        return super()._read_nowait(n)  # type: ignore[misc]


def _feed_all(decoder: Any, data: bytes) -> None:
    """Unpack `data`; a decoder with a bound on its output wants to be asked again while it has more."""
    while decoder.feed_data(data, len(data)):
        data = b""


class Tee(_Pulled):
    """Mixed in front of a live reader."""

    agent_replay_source: Any = None
    agent_replay_tap: ResponseTap | None = None
    agent_replay_cancelled: BaseException | None = None

    def read(self, n: int = -1) -> Awaitable[bytes]:
        """As the library's, after a look at the connection."""
        self._adopt()
        answer: Awaitable[bytes] = super().read(n)  # type: ignore[misc]
        return answer

    def readany(self) -> Awaitable[bytes]:
        """As the library's, after a look at the connection."""
        self._adopt()
        answer: Awaitable[bytes] = super().readany()  # type: ignore[misc]
        return answer

    def readuntil(self, *what: Any, **how: Any) -> Awaitable[bytes]:
        """As the library's, after a look at the connection."""
        self._adopt()
        answer: Awaitable[bytes] = super().readuntil(*what, **how)  # type: ignore[misc]
        return answer

    def readchunk(self) -> Any:
        """As the library's, after a look at the connection."""
        self._adopt()
        return super().readchunk()

    def _adopt(self) -> None:
        """Take over what the connection has failed with since the last read."""
        error = self.agent_replay_source.exception()
        if error is not None and self._exception is None:
            self._failed(error)

    def _failed(self, error: BaseException) -> None:
        self._exception = error
        if self.agent_replay_tap is not None:
            self.agent_replay_tap.fail(error)

    async def _wait(self, _caller: str) -> None:
        source, tap = self.agent_replay_source, self.agent_replay_tap
        ends_chunk = False
        try:
            if self.agent_replay_by_chunk:
                data, ends_chunk = await source.readchunk()
            else:
                data = await source.readany()
        except Exception as error:
            self._failed(error)
            raise
        except BaseException as error:
            self.agent_replay_cancelled = error  # the end, unless somebody reads on
            raise
        self.agent_replay_cancelled = None
        if data and tap is not None:
            tap.chunk(data)
        at_end = source.at_eof()
        if at_end and tap is not None:
            tap.end()
        self._give(data, ends_chunk=ends_chunk)
        if at_end:
            self._give_end()

    def _top_up(self) -> None:
        source, tap = self.agent_replay_source, self.agent_replay_tap
        if source.at_eof() or source.exception() is not None:
            return
        data = source.read_nowait(-1) if source._buffer else b""
        if tap is not None and (data or self._size):
            # An empty piece says: this read had to do with what was left over. A replay then does the same.
            tap.chunk(data)
        if not data:
            return
        at_end = source.at_eof()
        if at_end and tap is not None:
            tap.end()
        self._give(data)
        if at_end:
            self._give_end()

    def set_exception(self, exc: BaseException, *cause: Any) -> None:
        """The response was closed or released: nobody reads on."""
        super().set_exception(exc, *cause)  # type: ignore[misc]
        tap = self.agent_replay_tap
        if tap is not None:
            if self.agent_replay_cancelled is not None:
                tap.fail(self.agent_replay_cancelled)
            else:
                tap.close()


class Played(_Pulled):
    """Mixed in front of a reader without connection."""

    agent_replay_served: Served | None = None

    async def _wait(self, _caller: str) -> None:
        served = self.agent_replay_served
        if served is None:
            self._give_end()
            return
        try:
            piece = served.take()
            if piece is None or served.ends_here:
                await served.end_async()
        except Exception as error:
            self._exception = error
            raise
        if piece is not None:
            self._give(piece, ends_chunk=self.agent_replay_by_chunk and self.agent_replay_chunked)
        if piece is None or served.ends_here:
            self._give_end()

    def _top_up(self) -> None:
        if self._size and self.agent_replay_served is not None:
            piece = self.agent_replay_served.take()
            if piece:
                self._give(piece)

    def set_exception(self, exc: BaseException, *cause: Any) -> None:
        """The response was closed or released: nobody reads on."""
        super().set_exception(exc, *cause)  # type: ignore[misc]
        if self.agent_replay_served is not None:
            self.agent_replay_served.leave(in_turn=False)  # closing is synchronous; an event loop must not wait
