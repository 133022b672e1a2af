"""The in-process fence: an audit hook that refuses what would leave the process during a replay, and says where.

It is installed only where a replay happens (a hook cannot be removed again and slows `id()` and
`sys._getframe`); `lift` makes it inert. It sees what Python itself does: sockets, name look-ups, child
processes, changes to files (`file_fence` says which are allowed), and the C functions that `ctypes` is asked for. It
does not see what a C library does by itself (gRPC's core, libpq), nor data sent on a socket that was connected
before: `open_sockets` ends those, and the kernel fence (`isolation`) stands behind it.

Code of a run gets `FenceViolation`, which no `except Exception` hides. Code outside any run (an exporter's
thread, a metrics client) gets a PermissionError, which such code survives. Both are named in `attempts`.
"""

from __future__ import annotations

import errno
import functools
import ipaddress
import os
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

from otel_agent_replay.boundary.callers import is_application
from otel_agent_replay.boundary.session import active_for_call
from otel_agent_replay.errors import FenceViolation
from otel_agent_replay.replay import file_fence
from otel_agent_replay.replay.endpoints import Endpoints
from otel_agent_replay.replay.file_fence import FileFence

NAME = "in-process"
_MOST_ATTEMPTS = 100  # kept in the report; later ones are refused just the same
_LONGEST_ATTEMPT = 200

# fmt: off
_C_FUNCTIONS = frozenset((
    "accept", "accept4", "bind", "clone", "clone3", "connect", "execl", "execle", "execlp", "execv", "execve",
    "execveat", "execvp", "execvpe", "fork", "forkpty", "getaddrinfo", "gethostbyaddr", "gethostbyname",
    "gethostbyname2", "gethostbyname_r", "getnameinfo", "io_uring_setup", "pidfd_getfd", "popen", "posix_openpt",
    "posix_spawn", "posix_spawnp", "ptrace", "res_query", "res_search", "send", "sendmmsg", "sendmsg", "sendto",
    "setns", "socket", "syscall", "system", "unshare", "vfork", "CreateProcessW", "ShellExecuteW", "WSAConnect",
    "WSASocketW", "WinExec",
))
# fmt: on
_CURIOUS_MODULES = frozenset(("platform", "uuid", "ctypes.util", "distro", "distro.distro"))
# They ask a program about the machine and do without its answer: refused, but no reason to stop a run.


@dataclass(frozen=True, slots=True)
class Attempt:
    """One refused way out: what (`connect to 10.0.0.1:443`), where (`file:line`), and whether it stopped a run."""

    what: str
    location: str
    in_run: bool


class Fence:
    """One fence. `allow` are `host:port` or `unix:/path` that may be reached, looked up when it is made.

    `refused` is told of each violation. `files` says which files may be changed; None: all of them. `licensed` says of
    the code that runs now whether it may reach what is allowed; None: all may.
    """

    def __init__(
        self,
        *,
        allow: Sequence[str] | Endpoints = (),
        files: FileFence | None = None,
        refused: Callable[[FenceViolation], None] | None = None,
        licensed: Callable[[], bool] | None = None,
    ) -> None:
        self.licensed = licensed
        self.attempts: list[Attempt] = []
        self.refused = refused
        self.files = files
        self._opening = threading.local()  # the SQLite database that this thread is connecting to
        self.endpoints = allow if isinstance(allow, Endpoints) else Endpoints.resolve(allow)
        self._executions = False

    def install(self) -> None:
        """Put this fence up; it replaces the one that stood."""
        global _standing, _hooked
        with _lock:
            if not _hooked:
                sys.addaudithook(_audit)
                _hooked = True
            _guard_fork_exec()
            _guard_loop_lookups()
            if self.endpoints.names:
                _pin_names()
            if self.files is not None:
                _guard_databases()
            _standing = self

    def lift(self) -> None:
        """Take it down: the hook stays, inert."""
        global _standing
        with _lock:
            if _standing is self:
                _standing = None

    def forbid_exec(self) -> None:
        """From now on refuse `exec` too. Before any run it is how launchers start the real program, fenced anew."""
        self._executions = True

    # --- what the hook asks ---

    def check(self, event: str, args: tuple[Any, ...]) -> None:
        """Raise when `event` is a way out that is not allowed."""
        check = _CHECKS.get(event)
        if check is not None:
            attempt = check(self, args)
            if attempt is not None:
                self._refuse(attempt)
        elif self.files is not None:
            if event in file_fence.EVENTS:
                write = file_fence.EVENTS[event](self.files, args)
                if write is not None:
                    self._refuse(write.what, path=write.path, cache=write.cache)
            else:
                self._check_database(self.files, args[0])

    def _check_database(self, files: FileFence, database: object) -> None:
        """A database that is there may be opened to be read; one that is not would be made."""
        name = file_fence.database_file(database)
        write = None if name is None else files.of_path("write", name)
        if name is None or write is None:
            return
        if not os.path.exists(name) or not getattr(self._opening, "guarded", False):  # noqa: PTH110
            self._refuse(write.what, path=write.path, cache=write.cache)
        self._opening.name = write.path

    def connected(self, connect: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Return an SQLite connection that `connect` makes, one that only reads where the file may not be changed."""
        opening = self._opening
        opening.guarded, opening.name = True, None
        try:
            connection = connect(*args, **options)
            name = opening.name
        finally:
            opening.guarded = False
        if name is not None:
            file_fence.guard_database(connection, lambda what: self._refuse(f"{what} {name}", path=name))
        return connection

    def _refuse(self, attempt: str, *, path: str = "", cache: bool = False) -> None:
        attempt = attempt if len(attempt) <= _LONGEST_ATTEMPT else attempt[: _LONGEST_ATTEMPT - 3] + "..."
        frame = sys._getframe(1)
        location = _location(frame)
        in_run = not cache and active_for_call(opens=False) is not None and not _is_curiosity(frame)
        if len(self.attempts) < _MOST_ATTEMPTS:
            self.attempts.append(Attempt(attempt, location, in_run))
        violation = FenceViolation(attempt, location, NAME, path)
        if not in_run:
            raise PermissionError(errno.EPERM, str(violation))
        if self.refused is not None:
            self.refused(violation)
        raise violation

    def connect(self, args: tuple[Any, ...], verb: str = "connect to") -> str | None:
        """A socket reaches out, or sends without being connected."""
        address = args[1]
        if address is None or _is_socketpair():
            return None
        if self.endpoints.allows(address) and (self.licensed is None or self.licensed()):
            return None
        return f"{verb} {shown(address)}"

    def send(self, args: tuple[Any, ...]) -> str | None:
        """A datagram or message is sent to an address."""
        return self.connect(args, "send to")

    def bind(self, args: tuple[Any, ...]) -> str | None:
        """A socket is bound: harmless on loopback."""
        address = args[1]
        if isinstance(address, (str, bytes)) or self.endpoints.allows(address):
            return None
        if isinstance(address, tuple) and address and _is_loopback(address[0]):
            return None
        return f"bind to {shown(address)}"

    def resolve(self, args: tuple[Any, ...]) -> str | None:
        """A name is looked up. Numeric addresses and localhost ask nobody."""
        host = _host_in(args)
        if host in ("", "localhost") or host.lower() in self.endpoints.names or _is_numeric(host):
            return None
        return f"resolve {host}"

    def name(self, args: tuple[Any, ...]) -> str | None:
        """The name of an address is looked up: for that a numeric one asks a server, too."""
        host = _host_in(args)
        if _is_numeric(host) and not _is_loopback(host):
            return f"resolve the name of {host}"
        return self.resolve(args)

    def start(self, args: tuple[Any, ...]) -> str | None:
        """A child process is started."""
        command = args[1] if len(args) > 1 and isinstance(args[1], (list, tuple)) else args[:1]
        return f"start a process: {' '.join(map(_text, command))}"

    def replace(self, args: tuple[Any, ...]) -> str | None:
        """The process is replaced by another program."""
        return f"execute {_text(args[0])}" if self._executions else None

    def fork(self, _args: tuple[Any, ...]) -> str | None:
        """The process forks: a run's child has no place on the tape."""
        return "fork the process" if active_for_call(opens=False) is not None else None

    def foreign(self, args: tuple[Any, ...]) -> str | None:
        """A C function is looked up by `ctypes`."""
        name = args[1] if len(args) > 1 else None
        return f"call the C function {name}" if isinstance(name, str) and name in _C_FUNCTIONS else None


_Check = Callable[[Fence, tuple[Any, ...]], "str | None"]
_CHECKS: Mapping[str, _Check] = {
    "socket.connect": Fence.connect,
    "socket.bind": Fence.bind,
    "socket.sendto": Fence.send,
    "socket.sendmsg": Fence.send,
    "socket.getaddrinfo": Fence.resolve,
    "socket.gethostbyname": Fence.resolve,
    "socket.gethostbyaddr": Fence.name,
    "socket.getnameinfo": Fence.name,
    "subprocess.Popen": Fence.start,
    "os.system": Fence.start,
    "os.posix_spawn": Fence.start,
    "os.spawn": Fence.start,
    "os.startfile": Fence.start,
    "_winapi.CreateProcess": Fence.start,
    "os.exec": Fence.replace,
    "os.fork": Fence.fork,
    "os.forkpty": Fence.fork,
    "ctypes.dlsym": Fence.foreign,
    "ctypes.dlsym/handle": Fence.foreign,
}

_WATCHED = frozenset((*_CHECKS, *file_fence.EVENTS, "sqlite3.connect"))

_lock = threading.Lock()
_standing: Fence | None = None
_hooked = False


def _audit(event: str, args: tuple[Any, ...]) -> None:
    fence = _standing
    if fence is not None and event in _WATCHED:
        fence.check(event, args)


def _guard_fork_exec() -> None:
    """Cover the one way to a child process that raises no audit event: multiprocessing's spawn uses it."""
    try:
        import _posixsubprocess
    except ImportError:
        return
    original = _posixsubprocess.fork_exec
    if getattr(original, "_of_fence", False):
        return

    def fork_exec(*args: Any) -> Any:
        fence = _standing
        if fence is not None and not _is_resource_tracker(sys._getframe(1)):
            fence._refuse(f"start a process: {' '.join(map(_text, args[0]))}")
        return original(*args)

    fork_exec._of_fence = True  # type: ignore[attr-defined]
    _posixsubprocess.fork_exec = fork_exec


def _guard_loop_lookups() -> None:
    """Ask in the task itself when a loop looks up a name: its worker thread no longer knows the run."""
    import asyncio

    original = asyncio.BaseEventLoop.getaddrinfo
    if getattr(original, "_of_fence", False):
        return

    async def getaddrinfo(self: asyncio.BaseEventLoop, host: Any, port: Any, **options: Any) -> Any:
        fence = _standing
        if fence is not None:
            fence.check("socket.getaddrinfo", (host, port))
        return await original(self, host, port, **options)

    getaddrinfo._of_fence = True  # type: ignore[attr-defined]
    asyncio.BaseEventLoop.getaddrinfo = getaddrinfo  # type: ignore[method-assign]


def _pin_names() -> None:
    """Answer look-ups of declared names with what they were when the fence was made; event loops ask there too."""
    original = socket.getaddrinfo
    if getattr(original, "_of_fence", False):
        return

    def found(host: Any) -> tuple[str, ...]:
        fence = _standing
        if fence is None or not isinstance(host, (str, bytes)):
            return ()
        return fence.endpoints.names.get(os.fsdecode(host).lower(), ())

    @functools.wraps(original)
    def getaddrinfo(host: Any, port: Any, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0) -> Any:  # noqa: A002
        addresses = found(host)
        if not addresses:
            return original(host, port, family, type, proto, flags)
        results: list[Any] = []
        failure = None
        for address in addresses:
            try:
                results += original(address, port, family, type, proto, flags)
            except socket.gaierror as error:  # noqa: PERF203 - an address of a family that is not asked for
                failure = error
        if not results and failure is not None:
            raise failure
        return results

    @functools.wraps(socket.gethostbyname)
    def gethostbyname(hostname: Any) -> str:
        return next((one for one in found(hostname) if ":" not in one), None) or by_name(hostname)

    by_name = socket.gethostbyname
    getaddrinfo._of_fence = True  # type: ignore[attr-defined]
    socket.getaddrinfo = getaddrinfo
    socket.gethostbyname = gethostbyname


def _guard_databases() -> None:
    """Hand out guarded SQLite connections: the audit event comes before there is one to guard."""
    try:
        import sqlite3
    except ImportError:  # this Python has none
        return
    original = sqlite3.connect
    if getattr(original, "_of_fence", False):
        return

    @functools.wraps(original)
    def connect(*args: Any, **options: Any) -> Any:
        fence = _standing
        return original(*args, **options) if fence is None else fence.connected(original, args, options)

    connect._of_fence = True  # type: ignore[attr-defined]
    for module in (sqlite3, sqlite3.dbapi2):
        module.connect = connect  # type: ignore[attr-defined]


def _is_resource_tracker(frame: FrameType | None) -> bool:
    """Whether multiprocessing starts its own janitor, which a mere lock may need: it only reads a pipe."""
    while frame is not None:
        name = frame.f_globals.get("__name__")
        if name != "multiprocessing.util":
            return name == "multiprocessing.resource_tracker"
        frame = frame.f_back
    return False


def _is_curiosity(frame: FrameType | None) -> bool:
    """Whether a process is started by a module that only asks about the machine."""
    while frame is not None:
        name = frame.f_globals.get("__name__")
        if name not in (__name__, "subprocess", "os"):
            return name in _CURIOUS_MODULES
        frame = frame.f_back
    return False


def _location(frame: FrameType | None) -> str:
    """Return `file:line` of the innermost application code, else of whoever called."""
    first = None
    while frame is not None:
        if frame.f_code.co_filename != __file__:
            first = first or frame
            if is_application(frame):
                first = frame
                break
        frame = frame.f_back
    return "an unknown place" if first is None else f"{first.f_code.co_filename}:{first.f_lineno}"


def _is_socketpair() -> bool:
    """Whether the standard library is making a socket pair out of loopback sockets (Windows: asyncio's own pipe)."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return (
        frame is not None
        and frame.f_code.co_filename == socket.__file__
        and frame.f_code.co_name in ("socketpair", "_fallback_socketpair")
    )


def _host_in(args: tuple[Any, ...]) -> str:
    """Return the host that a look-up is asked for, alone or with its port; "" for none."""
    host = args[0]
    if isinstance(host, tuple):
        host = host[0] if host else None
    if isinstance(host, bytes):
        host = host.decode("utf-8", "replace")
    return host or ""


def _is_numeric(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def _is_loopback(host: object) -> bool:
    if host in ("localhost", b"localhost"):
        return True
    try:
        return ipaddress.ip_address(str(host).partition("%")[0]).is_loopback
    except ValueError:
        return False


def shown(address: object) -> str:
    """Return a socket address as text: `host:port`, or the path of a local one."""
    if isinstance(address, tuple) and len(address) >= 2:
        return f"{address[0]}:{address[1]}"
    return _text(address)


def _text(value: object) -> str:
    if isinstance(value, (str, bytes, os.PathLike)):
        return os.fsdecode(value)
    return repr(value)
