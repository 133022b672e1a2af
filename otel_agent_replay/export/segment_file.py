"""One open journal segment, as its writer holds it: created under a lock, appended to, ended.

A segment is visible under its name only once it is locked and has its header, so that a reader that can lock it knows
that nobody writes it. Every write leaves whole frames behind, or none. Knows bytes, not records.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

SUFFIX = ".log"
SEAL_LOCK = ".seal.lock"
"""Name of the file in a journal's folder that sealers lock."""


def journal_folder(lake: Path) -> Path:
    """Return the folder of a lake's segments."""
    return lake / "journal"


def has_journal(lake: Path) -> bool:
    """Return whether there is anything to seal, to finish or to clear away: not so where there is a lock only."""
    folder = journal_folder(lake)
    return folder.is_dir() and any(path.name != SEAL_LOCK for path in folder.iterdir())


class SegmentFile:
    """A segment that this process appends to. `size` is in bytes; `broken` says that no more may be written here."""

    __slots__ = ("_inode", "broken", "fd", "name", "size")

    def __init__(self, fd: int, name: str, size: int) -> None:
        self.fd = fd
        self.name = name
        self.size = size
        self.broken = False
        self._inode = os.fstat(fd).st_ino

    @classmethod
    def create(cls, journal: Path, name: str, header: bytes) -> SegmentFile:
        """Create `<journal>/<name>.log` with the framed `header` in it, locked. Raises OSError."""
        visible, hidden = journal / (name + SUFFIX), journal / f".{name}.new"
        fd = os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            segment = cls(fd, name, 0)
            segment.write(header)
            hidden.rename(visible)
        except BaseException:
            os.close(fd)
            hidden.unlink(missing_ok=True)
            raise
        return segment

    def write(self, data: bytes) -> None:
        """Append `data` (whole frames) with one write.

        Raises OSError when it was not written; then nothing of it is left behind, or the segment is `broken`.
        """
        written = os.write(self.fd, data)
        if written != len(data):
            self._write_rest(data, written)
        self.size += len(data)

    def _write_rest(self, data: bytes, written: int) -> None:
        """Write what the kernel did not take at first; only now it says why (disk full, file too large)."""
        try:
            while written < len(data):
                written += os.write(self.fd, data[written:])
        except OSError:
            try:
                # The size of the file, not our own count: an interrupt may have come between a write and its count.
                os.ftruncate(self.fd, os.fstat(self.fd).st_size - written)
            except OSError:
                self.broken = True
            raise

    def is_ours(self) -> bool:
        """Whether the descriptor still is the file that was opened, and the file still has a name."""
        try:
            status = os.fstat(self.fd)
        except OSError:
            return False
        return status.st_ino == self._inode and status.st_nlink > 0

    def close(self, last: bytes = b"", *, sync: bool = False) -> None:
        """Append `last` where that is possible and let go of the file and its lock. Never raises OSError."""
        try:
            if os.fstat(self.fd).st_ino != self._inode:
                return  # closed behind our back, and the number is somebody else's now
            if last and not self.broken:
                self.write(last)
            if sync:
                os.fsync(self.fd)
        except OSError:
            self.broken = True
        finally:
            self._let_go()

    def _let_go(self) -> None:
        fd, self.fd = self.fd, -1
        try:
            if os.fstat(fd).st_ino == self._inode:
                os.close(fd)
        except OSError:
            self.broken = True


def segment_name(writer: str, number: int) -> str:
    """Return a segment's name without suffix: the segments of a writer sort in order of their numbers."""
    return f"{writer}-{number:06d}"
