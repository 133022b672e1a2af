"""Draws beyond the tape: random numbers, entropy and identifiers made from a declared seed.

A draw depends on the seed, the place, the thread of control, the name and its number among its like there, and on
nothing else: the same agent draws the same again, however its tasks are scheduled. Values have the form in which the
boundary's hooks store them (`randomness`, `entropy`, `numpy_randomness`). What cannot be made so is left to the next
source.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import struct
import threading
import uuid
from collections.abc import Callable, Iterator

from otel_agent_replay.boundary.crossing import Answer, Place
from otel_agent_replay.errors import CrossingRefused, ReplayInterrupt
from otel_agent_replay.model import Call, Kind, Read

_SIZED = re.compile(r"([\w.]+)\((\d+)\)\Z")
_FITS_AN_INTEGER = 63  # bits; longer draws are stored as bytes
_ENTROPY = 32  # bytes that settle an unseeded generator
_NUMPY = "numpy.random."
_WORDS = 624  # of a Mersenne twister
_TAIL = struct.Struct("<iid")  # position, whether a normal draw is left over, that draw
_GREGORIAN_100NS = 0x01B21DD213814000  # 100 ns from 1582-10-15 to 1970-01-01


class SeededReads:
    """Answers draws of kinds random and uuid from `seed`. Thread-safe.

    `now_ns` gives Unix nanoseconds for identifiers that hold a time (uuid1, uuid6, uuid7); without it those are
    left to the next source.
    """

    def __init__(self, seed: str, *, now_ns: Callable[[], int] | None = None) -> None:
        self.seed = seed
        self._now_ns = now_ns
        self._lock = threading.Lock()
        self._drawn: dict[tuple[tuple[str, ...], str, str], Iterator[int]] = {}
        self._numpy_begun: set[str] = set()
        self._last_moment = 0

    def answer(self, call: Call, place: Place) -> Answer | None:
        """Return None: a seed answers no call."""
        del call, place
        return None

    def read(self, kind: Kind, name: str, place: Place, strand: str) -> Read | None:
        """Return the draw, or None for a name that is not made from a seed."""
        if kind is Kind.RANDOM:
            drawn = self._random(name, place, strand)
            return None if drawn is None else Read(kind, name, drawn[0], strand, place.next_sequence())
        made = self._uuid(name, place, strand) if kind is Kind.UUID else None
        return None if made is None else Read(kind, name, made, strand, place.next_sequence())

    def departed(self, call: Call | None, place: Place, read: tuple[Kind, str] | None) -> ReplayInterrupt:
        """Return the refusal of what neither the seed nor any other source answers."""
        what = call.name if call is not None else read[1] if read is not None else place.name
        return CrossingRefused(place.step, what, "seeded")

    def _random(self, name: str, place: Place, strand: str) -> tuple[float | int | bytes | None] | None:
        """Return the draw in a tuple of one, since None is a value of its own; None for an unknown name."""
        if name in ("random.random", "random.Random.random"):
            return (self._number(53, name, place, strand) / (1 << 53),)
        if name == "random.Random":
            return (self._bytes(_ENTROPY, name, place, strand),)
        if name in ("random.gauss_next", "random.Random.gauss_next"):
            return (None,)  # no half of a pair is left from before
        sized = _SIZED.match(name)
        if sized is None:
            return self._numpy(name, place, strand) if name.startswith(_NUMPY) else None
        drawer, size = sized.group(1), int(sized.group(2))
        if drawer in ("random.getrandbits", "random.Random.getrandbits"):
            number = self._number(size, name, place, strand)
            return (number if size <= _FITS_AN_INTEGER else number.to_bytes((size + 7) // 8, "big"),)
        if drawer in ("os.urandom", "random.SystemRandom"):
            return (self._bytes(size, name, place, strand),)
        if drawer == _NUMPY + "entropy":
            return (self._number(size, name, place, strand).to_bytes((size + 7) // 8, "big"),)
        return None

    def _numpy(self, name: str, place: Place, strand: str) -> tuple[bytes | None]:
        """Return the state of a fresh generator for the first draw of a strand; later ones go on from it."""
        with self._lock:
            begun = strand in self._numpy_begun
            self._numpy_begun.add(strand)
        if begun:
            return (None,)
        words = bytearray(self._bytes(4 * _WORDS, name, place, strand))
        words[3] |= 0x80  # a twister must not be all zero
        return (bytes(words) + _TAIL.pack(_WORDS, 0, 0.0),)

    def _uuid(self, name: str, place: Place, strand: str) -> str | None:
        if name == "uuid.uuid4":
            return str(uuid.UUID(bytes=self._bytes(16, name, place, strand), version=4))
        if self._now_ns is None or name not in ("uuid.uuid1", "uuid.uuid6", "uuid.uuid7"):
            return None
        moment = self._moment(self._now_ns())
        low = int.from_bytes(self._bytes(8, name, place, strand), "big") & (1 << 62) - 1
        if name == "uuid.uuid7":
            # RFC 9562, 5.7: 48 bits of milliseconds, then chance.
            chance = self._number(12, name, place, strand)
            return _uuid_of((moment // 10_000) << 80 | 0x7 << 76 | chance << 64 | 0b10 << 62 | low)
        # The bit says that the node is no network card's.
        node = int.from_bytes(self._made(6, ("uuid.node",)), "big") | 1 << 40
        low = (low >> 48) << 48 | node
        ticks = moment + _GREGORIAN_100NS
        if name == "uuid.uuid6":
            high = (ticks >> 12) << 16 | 0x6 << 12 | ticks & 0xFFF
        else:
            high = (ticks & 0xFFFFFFFF) << 32 | (ticks >> 32 & 0xFFFF) << 16 | 0x1 << 12 | ticks >> 48 & 0xFFF
        return _uuid_of(high << 64 | 0b10 << 62 | low)

    def _moment(self, now_ns: int) -> int:
        """Return the time in units of 100 ns since 1970, each one later than the last."""
        with self._lock:
            self._last_moment = max(now_ns // 100, self._last_moment + 1)
            return self._last_moment

    def _number(self, bits: int, name: str, place: Place, strand: str) -> int:
        size = (bits + 7) // 8
        return int.from_bytes(self._bytes(size, name, place, strand), "big") >> (8 * size - bits)

    def _bytes(self, size: int, name: str, place: Place, strand: str) -> bytes:
        key = (place.path, strand, name)
        with self._lock:
            number = next(self._drawn.setdefault(key, itertools.count()))
        return self._made(size, (*place.path, strand, name, str(number)))

    def _made(self, size: int, what: tuple[str, ...]) -> bytes:
        named = repr((self.seed, *what)).encode("utf-8", "backslashreplace")
        return hashlib.shake_128(named).digest(size)


def _uuid_of(number: int) -> str:
    return str(uuid.UUID(int=number))
