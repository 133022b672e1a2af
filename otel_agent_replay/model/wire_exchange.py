"""One model exchange as bytes, wherever it was kept: a lake, a cassette, a bare body. Pure data."""

from __future__ import annotations

from dataclasses import dataclass, replace

from otel_agent_replay.model.exchange import HttpRequestHead


@dataclass(frozen=True, slots=True)
class WireExchange:
    """The answer of a model, decoded of any content coding, with what is known around it.

    `source` says where it lies (`file#number`, `run 0198c2 step 4`). `request` is None and `request_body` empty where
    only the answer was kept; `status` is then 200. `protocol` is its name where the recording tells, else "".
    `headers` are those of the answer, as they were kept: they may still name a coding that the body no longer has.
    `sizes` are the bytes of each piece as it was read, empty where nobody kept them; they add up to the body.
    """

    source: str
    body: bytes
    media_type: str = ""
    status: int = 200
    request: HttpRequestHead | None = None
    request_body: bytes = b""
    protocol: str = ""
    sizes: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def cuts(self) -> tuple[int, ...]:
        """Where the recorded pieces meet, in bytes from the start of the body."""
        cuts: list[int] = []
        for size in self.sizes[:-1]:
            cuts.append(size + (cuts[-1] if cuts else 0))
        return tuple(cuts)

    def noting(self, note: str) -> WireExchange:
        """The same with one more note."""
        return replace(self, notes=(*self.notes, note))
