"""Payload bytes <-> rows of the payloads table. Owns how bodies are cut, shared and put together again.

A request to a model repeats all messages before it. It is cut at its messages, each distinct piece is stored once,
and the request becomes a few ranges of piece numbers. Pieces of one run lie in the order of its longest request, so
the ranges stay few. An agent's states are cut where they differ from each other (`state_pieces`). The exact bytes are
the joined pieces, and every reading proves them by their SHA-256.
"""

from __future__ import annotations

import bisect
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from otel_agent_replay.errors import DamagedRecording
from otel_agent_replay.lake.parquet_file import NEXT_STEP, damage_named, opened, places_of_columns
from otel_agent_replay.lake.request_pieces import Piece, RequestPieces
from otel_agent_replay.lake.schema import PAYLOADS, file_facts
from otel_agent_replay.lake.state_pieces import StatePieces, ranges_of
from otel_agent_replay.model import digest_of

WHOLE_IS_CHEAPER = 512
"""Bytes: a piece shorter than this is stored again rather than let it break a range."""

SMALL_STATE = 512
"""Bytes: a state shorter than this is stored whole."""

STATE = "state"
"""The role of a piece of a state."""

ROW_GROUP_BYTES = 8 << 20
_ROW_GROUP_ROWS = 65536
_CACHED_ROW_GROUPS = 8


@dataclass(frozen=True, slots=True)
class Body:
    """Bytes to store. `protocol` names the model protocol of a request, else it is "" and the body stays whole."""

    digest: bytes
    data: bytes
    protocol: str = ""


class PackWriter:
    """Collects the bodies of the runs of one pack and hands full row groups to `write`."""

    def __init__(self, pack: int, write: Callable[[pa.Table], None]) -> None:
        self._pack = pack
        self._write = write
        self._rows: list[dict[str, Any]] = []
        self._bytes = 0
        self._next = 0
        self._bodies: dict[bytes, int] = {}
        self._pieces: dict[bytes, int] = {}
        self._keys: dict[int, bytes] = {}

    def add_run(self, bodies: Iterable[Body]) -> dict[bytes, int]:
        """Store the bodies of one run, given in its order; return the number of each by digest.

        They are taken one at a time: its requests together may be far larger than what is new in them.
        """
        found: dict[bytes, int] = {}
        requests = RequestPieces()
        cut: set[bytes] = set()
        for body in bodies:
            known = self._bodies.get(body.digest)
            if known is not None:
                found[body.digest] = known
            elif body.digest in cut:
                continue
            elif body.protocol and requests.add(body.digest, body.protocol, body.data):
                cut.add(body.digest)
            else:
                found[body.digest] = self._bodies[body.digest] = self._add({"data": body.data})
        for digest, ranges in list(requests.laid_out(self._number)):
            row = {"pieces": [{"first": first, "count": count} for first, count in ranges]}
            found[digest] = self._bodies[digest] = self._add(row)
        return found

    def add_states(self, states: Iterable[Body]) -> dict[bytes, int]:
        """Store the states that one run handed over, in their order; return the number of each by digest.

        They are taken one at a time: all of them together may be far larger than what of them is new.
        """
        found: dict[bytes, int] = {}
        cut = StatePieces()
        for state in states:
            known = self._bodies.get(state.digest)
            if known is not None:
                found[state.digest] = known
            elif len(state.data) < SMALL_STATE:
                found[state.digest] = self._bodies[state.digest] = self._add({"data": state.data})
            else:
                cut.add(state.digest, state.data)
        pieces, states_cut = cut.laid_out()
        numbers = [self._state_piece(piece) for piece in pieces]
        for digest, ranges in states_cut:
            members = (numbers[place] for first, count in ranges for place in range(first, first + count))
            row = {"pieces": [{"first": first, "count": count} for first, count in ranges_of(members)]}
            found[digest] = self._bodies[digest] = self._add(row)
        return found

    def _state_piece(self, data: bytes) -> int:
        if len(data) < WHOLE_IS_CHEAPER:
            return self._add({"data": data, "role": STATE})
        key = digest_of(data)
        if key not in self._pieces:
            self._pieces[key] = self._add({"data": data, "role": STATE})
        return self._pieces[key]

    def _number(self, piece: Piece, previous: int) -> int:
        key = piece.key
        if self._keys.get(previous + 1) == key:
            return previous + 1
        known = self._pieces.get(key)
        extends = previous + 1 == self._next
        if known is not None and (len(piece.data) >= WHOLE_IS_CHEAPER or not extends):
            return known
        number = self._add({"data": piece.data, "role": piece.role})
        self._pieces[key] = number
        self._keys[number] = key
        return number

    def _add(self, row: dict[str, Any]) -> int:
        number = self._next
        self._next += 1
        row["pack"], row["number"] = self._pack, number
        self._rows.append(row)
        self._bytes += len(row.get("data") or b"")
        if self._bytes >= ROW_GROUP_BYTES or len(self._rows) >= _ROW_GROUP_ROWS:
            self.flush()
        return number

    def flush(self) -> None:
        """Hand over what is collected as one row group."""
        if self._rows:
            columns = [[row.get(field.name) for row in self._rows] for field in PAYLOADS]
            arrays = [pa.array(column, field.type) for column, field in zip(columns, PAYLOADS, strict=True)]
            self._write(pa.Table.from_arrays(arrays, schema=PAYLOADS))
            self._rows, self._bytes = [], 0


class PackReader:
    """Reads payloads of one pack by number; only the row groups that are asked for. Safe to share between threads.

    `row_groups` is how many of them stay in memory, some ROW_GROUP_BYTES each.
    """

    def __init__(self, path: Path, *, row_groups: int = _CACHED_ROW_GROUPS) -> None:
        self._path = path
        self._row_groups = row_groups
        self._file = opened(path)
        metadata = self._file.metadata
        file_facts(metadata.metadata, path)
        self._starts = [0]
        for group in range(metadata.num_row_groups):
            self._starts.append(self._starts[-1] + metadata.row_group(group).num_rows)
        self._places = places_of_columns(metadata)
        self._cache: OrderedDict[int, PayloadGroup] = OrderedDict()
        self._last: PayloadGroup | None = None  # the one that was asked for last, as the next mostly is
        self._lock = threading.Lock()

    def payload(self, number: int, digest: bytes) -> bytes:
        """Return the bytes of payload `number`. Raises DamagedRecording when they are not those of `digest`."""
        data = self.stored(number)
        if digest_of(data) != digest:
            raise DamagedRecording(
                f"payload {digest.hex()[:16]} (number {number} of {self._path}) was altered: its digest is another; "
                "`agent-replay verify RUN` names all that is altered in a run, `agent-replay doctor --deep` in the lake"
            )
        return data

    def stored(self, number: int) -> bytes:
        """Return the bytes of payload `number` without proving them: for who knows no digest."""
        group = self.group_of(number)
        whole = group.whole(number)
        if whole is not None:
            return whole.tobytes()
        pieces = self._ranges(number, group)
        return b"".join(part for found in pieces for part in self._parts(found["first"], found["count"]))

    def pieces(self, number: int) -> list[tuple[str, bytes]]:
        """Return the pieces of payload `number`, (role, bytes) each, without proving them; [] when it lies whole."""
        group = self.group_of(number)
        if group.whole(number) is not None:
            return []
        found = []
        for part in self._ranges(number, group):
            for piece in range(part["first"], part["first"] + part["count"]):
                there = self.group_of(piece)
                data = there.whole(piece)
                found.append((self._role(piece, there), b"" if data is None else data.tobytes()))
        return found

    def _ranges(self, number: int, group: PayloadGroup) -> list[dict[str, int]]:
        """Return the ranges of pieces that a payload lies in."""
        if group.pieces is None:
            group.pieces = self._column("pieces", number)
        found: list[dict[str, int]] = group.pieces[number - group.first].as_py()
        return found

    def _role(self, number: int, group: PayloadGroup) -> str:
        if group.roles is None:
            group.roles = self._column("role", number).to_pylist()
        return group.roles[number - group.first] or ""

    def _column(self, name: str, number: int) -> Any:
        """Return one column of the row group that holds a number."""
        index = bisect.bisect_right(self._starts, number) - 1
        with damage_named(self._path):
            table = self._file.read_row_groups([index], column_indices=self._places[name], use_threads=False)
            return table.column(name).combine_chunks()

    def _parts(self, first: int, count: int) -> Iterator[bytes]:
        """Yield the bytes of a range of numbers, one part a row group."""
        while count > 0:
            group = self.group_of(first)
            here = min(count, group.end - first)
            yield group.joined(first, here)
            first, count = first + here, count - here

    def group_of(self, number: int) -> PayloadGroup:
        """Return the row group that holds a number."""
        last = self._last
        if last is not None and last.first <= number < last.end:
            return last
        if not 0 <= number < self._starts[-1]:
            raise DamagedRecording(
                f"{self._path} has no payload number {number}: it is not the file that was written; {NEXT_STEP}"
            )
        index = bisect.bisect_right(self._starts, number) - 1
        with self._lock:
            group = self._cache.get(index)
            if group is None:
                with damage_named(self._path):
                    places = self._places["data"]
                    table = self._file.read_row_groups([index], column_indices=places, use_threads=False)
                group = PayloadGroup(self._starts[index], table)
                self._cache[index] = group
                while len(self._cache) > self._row_groups:
                    self._cache.popitem(last=False)
            else:
                self._cache.move_to_end(index)
            self._last = group
        return group


class PayloadGroup:
    """One row group in memory: the numbers from `first` to before `end`.

    Rows that follow each other lie side by side, so a range of pieces is one slice.
    """

    def __init__(self, first: int, table: pa.Table) -> None:
        self.first = first
        self.end = first + table.num_rows
        self.pieces: Any = None  # this and the next are read when first asked for
        self.roles: list[str | None] | None = None
        column: Any = table.column("data")
        data = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        valid, offsets, values = data.buffers()
        self._shift = data.offset
        self._valid = None if valid is None else memoryview(valid)
        self._offsets = memoryview(offsets).cast("i")[data.offset :]
        self._values = memoryview(values) if values is not None else memoryview(b"")

    def whole(self, number: int) -> memoryview | None:
        """Return the bytes of a payload; None when it lies in pieces."""
        row = number - self.first
        if self._valid is not None:
            bit = row + self._shift
            if not self._valid[bit >> 3] >> (bit & 7) & 1:
                return None
        return self._values[self._offsets[row] : self._offsets[row + 1]]

    def joined(self, number: int, count: int) -> bytes:
        """Return the joined bytes of `count` payloads from `number` on."""
        row = number - self.first
        return self._values[self._offsets[row] : self._offsets[row + count]].tobytes()
