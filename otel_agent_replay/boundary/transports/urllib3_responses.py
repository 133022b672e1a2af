"""urllib3's response with a tap in it, and the same class played from a recording.

Both are subclasses made of whatever response class the pool uses (botocore has its own), so that `isinstance`
holds and nothing else of the class changes.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from http.client import HTTPMessage
from typing import Any

from otel_agent_replay.boundary.http_exchange import ResponseTap, Served


class _Tee:
    """Mixed in front of a live response: tells the tap the raw bytes that the reader receives."""

    _agent_replay_tap: ResponseTap | None = None
    _agent_replay_failing = False
    _fp: Any
    length_remaining: int | None

    def _raw_read(self, amt: int | None = None, *, read1: bool = False) -> Any:
        tap = self._agent_replay_tap
        if tap is None:
            return super()._raw_read(amt, read1=read1)  # type: ignore[misc]
        try:
            data = super()._raw_read(amt, read1=read1)  # type: ignore[misc]
        except BaseException as error:
            tap.fail(error)
            raise
        if data:
            tap.chunk(data)
        if amt != 0 and (not data or (amt is None and not read1) or _is_closed(self._fp)):
            tap.end()
        return data

    def _handle_chunk(self, amt: int | None) -> Any:
        data = super()._handle_chunk(amt)  # type: ignore[misc]
        if self._agent_replay_tap is not None:
            self._agent_replay_tap.chunk(data)
        return data

    def _update_chunk_length(self) -> None:
        # It closes the response before it raises; the error that follows is the end, not that close.
        self._agent_replay_failing = True
        super()._update_chunk_length()  # type: ignore[misc]
        self._agent_replay_failing = False

    def read_chunked(self, amt: int | None = None, decode_content: bool | None = None) -> Iterator[bytes]:
        tap = self._agent_replay_tap
        try:
            yield from super().read_chunked(amt, decode_content)  # type: ignore[misc]
        except GeneratorExit:
            raise  # whether the response is done with is told by `close`
        except BaseException as error:
            # Bytes that do not unpack came in order; the reader fails on them in a replay as well.
            if tap is not None and type(error).__name__ != "DecodeError":
                tap.fail(error)
            raise
        if tap is not None:
            tap.end()

    def close(self) -> None:
        try:
            super().close()  # type: ignore[misc]
        finally:
            tap = self._agent_replay_tap
            if tap is not None and not self._agent_replay_failing:
                (tap.end if self.length_remaining == 0 else tap.close)()

    def __del__(self) -> None:
        # The finalizer of io objects calls `close`; a tap must not be finished in the middle of a collection.
        self._agent_replay_tap = None
        super().__del__()  # type: ignore[misc]


class OfflineOriginal:
    """Stands where a live response has the `http.client` one: headers and an end, no socket."""

    def __init__(self, headers: tuple[tuple[str, str], ...], method: str) -> None:
        self.msg = HTTPMessage()
        for name, value in headers:
            self.msg[name] = value
        self._method = method
        self._closed = False

    def close(self) -> None:
        """There is nothing more to read."""
        self._closed = True

    def isclosed(self) -> bool:
        """Whether there is nothing more to read."""
        return self._closed


class ServedFile:
    """Stands where a live response reads from; the response itself takes the pieces."""

    def __init__(self, original: OfflineOriginal) -> None:
        self._original = original

    def read(self, amt: int | None = None) -> bytes:
        """Nothing: only its presence is asked for."""
        raise NotImplementedError(f"a served response reads its own pieces, not {amt} bytes of a file")

    def close(self) -> None:
        """End the body."""
        self._original.close()

    def isclosed(self) -> bool:
        """Whether the body has ended."""
        return self._original.isclosed()

    @property
    def closed(self) -> bool:
        """The same as an attribute."""
        return self._original.isclosed()


class _Played:
    """Mixed in front of a response without connection: its raw bytes come from the recording."""

    _agent_replay_served: Served | None = None
    _agent_replay_rest = b""
    _fp: Any
    _fp_bytes_read: int
    _decoder: Any
    _init_decoder: Any
    _decode: Any
    _flush_decoder: Any
    release_conn: Any
    chunked: bool
    length_remaining: int | None

    def _raw_read(self, amt: int | None = None, *, read1: bool = False) -> bytes:
        served = self._agent_replay_served
        if served is None or amt == 0 or self._fp.isclosed():
            return b""
        if amt is None and not read1:
            pieces = [self._agent_replay_rest, *iter(served.take, None)]
            self._agent_replay_rest = b""
            self._finish(served)
            data = b"".join(pieces)
        else:
            piece = self._agent_replay_rest or served.take()
            if piece is None:
                self._finish(served)
                return b""
            data, self._agent_replay_rest = (piece, b"") if amt is None else (piece[:amt], piece[amt:])
            if served.ends_here and not self._agent_replay_rest:
                self._finish(served)
        self._fp_bytes_read += len(data)
        if self.length_remaining is not None:
            self.length_remaining -= len(data)
        return data

    def _finish(self, served: Served) -> None:
        self._fp.close()
        try:
            served.end()
        finally:
            self.release_conn()

    def supports_chunked_reads(self) -> bool:
        return True

    def read_chunked(self, amt: int | None = None, decode_content: bool | None = None) -> Iterator[bytes]:
        self._init_decoder()
        served = self._agent_replay_served
        if not self.chunked or served is None:
            yield from super().read_chunked(amt, decode_content)  # type: ignore[misc]
            return
        if amt == 0 or self._fp.isclosed():
            return
        bounded = {"max_length": amt} if hasattr(self._decoder, "has_unconsumed_tail") else {}
        while True:
            piece: bytes | None
            if bounded and self._decoder.has_unconsumed_tail:
                piece = b""
            else:
                piece = self._agent_replay_rest or served.take()
                self._agent_replay_rest = b""
                if piece is None:
                    break
            decoded = self._decode(piece, decode_content=decode_content, flush_decoder=False, **bounded)
            if decoded:
                yield decoded
        if decode_content and (last := self._flush_decoder()):
            yield last
        self._finish(served)

    def close(self) -> None:
        served = self._agent_replay_served
        if served is not None:
            served.leave()
        super().close()  # type: ignore[misc]

    def __del__(self) -> None:
        self._agent_replay_served = None
        super().__del__()  # type: ignore[misc]


@functools.lru_cache(maxsize=64)
def tee_class(cls: type) -> Any:
    """Return the subclass of a live response's class that has a tap."""
    return type(cls.__name__, (_Tee, cls), {"__module__": cls.__module__, "__qualname__": cls.__qualname__})


@functools.lru_cache(maxsize=64)
def served_class(cls: type) -> Any:
    """Return the subclass of a response class that is played from a recording."""
    return type(cls.__name__, (_Played, cls), {"__module__": cls.__module__, "__qualname__": cls.__qualname__})


def _is_closed(file: Any) -> bool:
    return file is None or bool(file.isclosed() if hasattr(file, "isclosed") else file.closed)
