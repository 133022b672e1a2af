"""The segment that a receiver writes: created under a lock, written a group of requests at a time, closed by renaming.

Written past the page cache where the file system lets us (`O_DIRECT`): a durable request then costs the processor a
twentieth of what write and fsync cost, and the sender waits less. Knows bytes, not requests.
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

from otel_agent_replay_collector.request_file import CLOSED, OPEN


class OpenSegment:
    """A segment that this process writes. `size` counts what is committed; `number` marks its frames."""

    def __init__(self, folder: Path, name: str, *, sync: bool) -> None:
        self._path = folder / (name + OPEN)
        self._sync = sync
        self.number = int.from_bytes(os.urandom(8), "little")
        self.size = 0
        self._end = 0
        self._fd = _opened(self._path)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if sync:
                sync_folder(folder)
        except BaseException:
            os.close(self._fd)
            raise

    def append(self, pages: memoryview) -> None:
        """Write whole pages behind what is there; they count once they are committed. Raises OSError."""
        done = 0
        while done < len(pages):
            done += os.pwrite(self._fd, pages[done:], self._end + done)
        self._end += done

    def commit(self) -> None:
        """Make durable what was appended. Raises OSError; then nothing of it counts, and the segment must be closed."""
        if self._sync:
            os.fdatasync(self._fd)
        self.size = self._end

    def cut(self) -> None:
        """Cut off what was appended and not committed. Never raises OSError."""
        self._end = self.size
        try:
            os.ftruncate(self._fd, self.size)
        except OSError:
            # What stands there was refused; whoever sent it sends it again, and the same span counts once.
            return

    def close(self) -> None:
        """Let go of it; whoever seals may have it. An empty one is removed. Never raises OSError."""
        try:
            if self.size:
                self._path.rename(self._path.with_suffix(CLOSED))
            else:
                self._path.unlink()
        except OSError:
            # It keeps its name, and whoever finds it unlocked closes it.
            return
        finally:
            os.close(self._fd)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _opened(path: Path) -> int:
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
    try:
        return os.open(path, flags | getattr(os, "O_DIRECT", 0), 0o600)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system without it, like tmpfs
            raise
        path.unlink(missing_ok=True)
        return os.open(path, flags, 0o600)
