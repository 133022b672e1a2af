"""Who connects for an isolated replay that may reach declared endpoints: its parent, outside the walls.

The kernel hands every `connect` of the walled process to this one (seccomp user notification). It reads the address
once, out of that process's memory, judges its own copy, takes a duplicate of the socket and connects it itself. The
call of the walled process never goes on, so changing the address behind our back gains nothing; when this process is
gone, every connect fails. Linux 5.7 or newer, x86-64 and ARM64; elsewhere `why_not` says so.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import select
import socket
import struct
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

from otel_agent_replay.errors import CannotJudge
from otel_agent_replay.replay import isolation
from otel_agent_replay.replay.endpoints import TABLE_NAME, Endpoints

SOCKET_NAME = "supervisor"
_RECEIVE, _SEND, _STILL_VALID = 0xC0502100, 0xC0182101, 0x40082102
_NOTICE = struct.Struct(
    "=QIIiIQ6Q"
)  # id, thread, flags, then struct seccomp_data: number, architecture, place, arguments
_ANSWER = struct.Struct("=QqiI")
_PIDFD_GETFD = 438
_LONGEST_ADDRESS = 128
_MOST_REFUSED = 100
# The C library asks these by itself before it reads /etc/hosts.
_LOOKUPS = ("/var/run/nscd/socket", "/run/nscd/socket", "/run/systemd/resolve/io.systemd.Resolve")


def why_not() -> str:
    """Return why nobody can connect for an isolated replay here, or "" when somebody can."""
    reason = isolation.why_not() or isolation.why_no_notices()
    if reason:
        return reason
    if not hasattr(os, "pidfd_open"):
        return "this Python cannot open processes (os.pidfd_open)"
    own = os.pidfd_open(os.getpid())
    try:
        os.close(_duplicate(own, own))
    except OSError as error:
        return f"the kernel gives no duplicate of a socket (pidfd_getfd): {error.strerror}"
    finally:
        os.close(own)
    return ""


class Supervisor:
    """Serves the processes of one replay for as long as it is entered. `folder` is the replay's own.

    `refused` are the addresses that it did not connect to. Raises CannotJudge where `why_not` has a reason.
    """

    def __init__(self, folder: Path, endpoints: Endpoints) -> None:
        reason = why_not()
        if reason:
            raise CannotJudge(f"--isolate cannot be combined with --allow here: {reason}")
        self.refused: list[str] = []
        self._endpoints = endpoints
        self._folder = folder
        self._door = socket.socket(socket.AF_UNIX)
        self._end, self._ending = os.pipe()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Supervisor:  # noqa: PYI034 - `Self` is not in Python 3.10
        (self._folder / TABLE_NAME).write_text(self._endpoints.to_json(), encoding="utf-8")
        with _short_name(self._folder) as name:
            self._door.bind(name)
        self._door.listen()
        self._start(self._receive_listeners)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        os.close(self._ending)  # every poll sees it
        for thread in self._threads:
            thread.join()
        os.close(self._end)
        self._door.close()

    def _start(self, work: Any, *arguments: Any) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True, name="agent-replay-supervisor")
        self._threads.append(thread)
        thread.start()

    def _receive_listeners(self) -> None:
        """Take the listener of every process that puts up the walls."""
        while self._waits_for(self._door.fileno()):
            walled, _ = self._door.accept()
            with walled:
                walled.settimeout(10)
                with contextlib.suppress(OSError):
                    _, listeners, _, _ = socket.recv_fds(walled, 1, 1)
                    if listeners:
                        self._start(self._serve, listeners[0])
                        walled.send(b"!")

    def _waits_for(self, descriptor: int) -> bool:
        """Wait until there is something to read; False when the replay has ended or nobody is left to write."""
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.register(self._end, select.POLLIN)
        ready = dict(poll.poll())
        return self._end not in ready and not ready[descriptor] & select.POLLHUP

    def _serve(self, listener: int) -> None:
        try:
            while self._waits_for(listener):
                notice = bytearray(_NOTICE.size)
                try:
                    fcntl.ioctl(listener, _RECEIVE, notice)
                except OSError as error:  # the caller was killed meanwhile
                    if error.errno in (errno.ENOENT, errno.EINTR):
                        continue
                    raise
                number, thread, _, _, _, _, descriptor, place, length, *_ = _NOTICE.unpack(notice)
                self._judge(listener, number, thread, descriptor & 0xFFFFFFFF, place, length & 0xFFFFFFFF)
        finally:
            os.close(listener)

    def _judge(self, listener: int, number: int, thread: int, descriptor: int, place: int, length: int) -> None:
        try:
            raw = _memory(thread, place, min(length, _LONGEST_ADDRESS))
            fcntl.ioctl(listener, _STILL_VALID, _ID.pack(number))  # it was that thread's memory, not a later one's
        except OSError:
            _answer(listener, number, errno.EFAULT)
            return
        shown, allowed = self._endpoints.judge(raw)
        if not allowed:
            if shown not in _LOOKUPS and len(self.refused) < _MOST_REFUSED:
                self.refused.append(shown)
            _answer(listener, number, errno.EPERM)
            return
        # A blocking connect may take long, and others must not wait for it; nobody waits for it at the end.
        own = os.dup(listener)
        threading.Thread(target=_connect_for, args=(own, number, thread, descriptor, raw), daemon=True).start()


_ID = struct.Struct("=Q")


def _connect_for(listener: int, number: int, thread: int, descriptor: int, raw: bytes) -> None:
    """Connect the caller's socket to the address that was judged, and tell the caller how it went."""
    try:
        _answer(listener, number, _connected(listener, number, thread, descriptor, raw))
    finally:
        os.close(listener)


def _connected(listener: int, number: int, thread: int, descriptor: int, raw: bytes) -> int:
    """Return 0 or the error number of the connect."""
    try:
        process = os.pidfd_open(_process_of(thread))
        try:
            fcntl.ioctl(listener, _STILL_VALID, _ID.pack(number))
            ours = _duplicate(process, descriptor)
        finally:
            os.close(process)
    except OSError as error:
        return error.errno or errno.EPERM
    try:
        with socket.socket(fileno=os.dup(ours)) as seen:
            stream = seen.type == socket.SOCK_STREAM and seen.proto in (0, socket.IPPROTO_TCP)
            if not stream or seen.family != struct.unpack_from("=H", raw)[0]:
                return errno.EPERM
        return 0 if _libc.connect(ours, raw, len(raw)) == 0 else ctypes.get_errno()
    except OSError:  # it is no socket
        return errno.ENOTSOCK
    finally:
        os.close(ours)


def _answer(listener: int, number: int, error: int) -> None:
    with contextlib.suppress(OSError):  # the caller is gone
        fcntl.ioctl(listener, _SEND, _ANSWER.pack(number, 0, -error, 0))


def _memory(thread: int, place: int, length: int) -> bytes:
    memory = os.open(f"/proc/{thread}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(memory, length, place)
    finally:
        os.close(memory)


def _process_of(thread: int) -> int:
    for line in Path(f"/proc/{thread}/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("Tgid:"):
            return int(line.split()[1])
    raise ProcessLookupError(errno.ESRCH, "the calling process is gone")


_libc: Any = ctypes.CDLL(None, use_errno=True)


def _duplicate(process: int, descriptor: int) -> int:
    found = int(_libc.syscall(_PIDFD_GETFD, process, descriptor, 0))
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found


@contextlib.contextmanager
def _short_name(folder: Path) -> Any:
    """Give the socket in `folder` a name that is short enough for its address, however deep the folder lies."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{opened}/{SOCKET_NAME}"
    finally:
        os.close(opened)


# --- the walled process's side ---------------------------------------------------------------------------------


def apply_supervised_fence(folder: Path) -> None:
    """Put the kernel fence around this process, with the supervisor of `folder` connecting for it.

    In a program that a walled one has become the fence stands already. Raises CannotJudge when nobody serves.
    """
    with socket.socket(socket.AF_UNIX) as door:
        door.settimeout(10)
        try:
            with _short_name(folder) as name:
                door.connect(name)
        except OSError as error:
            inherited, why = True, error.strerror
        else:
            inherited, why = False, None
        listener = isolation.apply_kernel_fence(supervised=True)
        if listener is None:
            return
        if inherited:
            os.close(listener)
            raise CannotJudge(f"--isolate failed: the process that connects for the replay is not there: {why}")
        try:
            socket.send_fds(door, [b"!"], [listener])
            served = door.recv(1)
        except OSError as error:
            raise CannotJudge(f"--isolate failed: nobody connects for the replay: {error.strerror}") from error
        finally:
            os.close(listener)
        if served != b"!":
            raise CannotJudge("--isolate failed: nobody connects for the replay")
