"""Every way out of a replaying process is refused and named: real attempts in real child processes."""

import errno
import json
import os
import socket
import subprocess
import sys
import textwrap
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from otel_agent_replay.replay import isolation

PROLOGUE = """
import asyncio, ctypes, json, os, socket, struct, subprocess, sys, threading
HOST, PORT = "127.0.0.1", int(sys.argv[1])
UDP = int(sys.argv[2])
from otel_agent_replay.boundary.crossing import Place
from otel_agent_replay.boundary.policy import EXACT
from otel_agent_replay.boundary.session import Session
from otel_agent_replay.errors import FenceViolation
from otel_agent_replay.payload.redaction import Redaction
from otel_agent_replay.replay import isolation
from otel_agent_replay.replay.fence import Fence
import contextlib

class Quiet:
    def inside(self, place): return contextlib.nullcontext()

session = Session(run_id=b"r" * 16, root=Place.root("agent"), mode=EXACT, observer=Quiet(), redaction=Redaction())

def tell(fence, **more):
    print(json.dumps({"attempts": [[a.what, a.location, a.in_run] for a in fence.attempts], **more}))

def outcome(attempt):
    try:
        result = attempt()
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return f"OPEN {result!r}"
"""


@pytest.fixture
def outside():
    """A TCP and a UDP listener that note whatever reaches them."""
    with _listening() as found:
        yield found


@contextmanager
def _listening():
    reached = []
    tcp = socket.create_server(("127.0.0.1", 0))
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", 0))
    for listener in (tcp, udp):
        listener.settimeout(0.2)
    stop = threading.Event()

    def watch_tcp():
        while not stop.is_set():
            try:
                connection, _ = tcp.accept()
            except TimeoutError:
                continue
            with connection:
                connection.settimeout(0.5)
                try:
                    reached.append(("tcp", connection.recv(100)))
                except TimeoutError:
                    reached.append(("tcp", b""))

    def watch_udp():
        while not stop.is_set():
            try:
                reached.append(("udp", udp.recvfrom(100)[0]))
            except TimeoutError:
                continue

    threads = [threading.Thread(target=watch) for watch in (watch_tcp, watch_udp)]
    for thread in threads:
        thread.start()
    try:
        yield tcp.getsockname()[1], udp.getsockname()[1], reached
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        tcp.close()
        udp.close()


def _child(tmp_path, outside, body):
    """Run `body` after the prologue in a child process; return what it told, and the script's path."""
    script = tmp_path / "escape.py"
    script.write_text(PROLOGUE + textwrap.dedent(body))
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    done = subprocess.run(
        [sys.executable, str(script), str(outside[0]), str(outside[1])],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), str(script)


def test_outside_is_reached_without_a_fence(tmp_path, outside):
    """The control: without a fence the attempts do reach the listeners."""
    told, _ = _child(
        tmp_path,
        outside,
        """
        socket.create_connection((HOST, PORT)).sendall(b"hello")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.sendto(b"hello", (HOST, UDP))
        print(json.dumps({"fine": True}))
        """,
    )
    assert told == {"fine": True}
    threading.Event().wait(0.3)
    assert {kind for kind, _ in outside[2]} == {"tcp", "udp"}


IN_PROCESS = {
    "socket": ("socket.create_connection((HOST, PORT))", "connect to 127.0.0.1:"),
    "udp": ("socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', (HOST, UDP))", "send to 127.0.0.1:"),
    "udp message": (
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendmsg([b'x'], [], 0, (HOST, UDP))",
        "send to 127.0.0.1:",
    ),
    "dns": ("socket.getaddrinfo('example.com', 443)", "resolve example.com"),
    "dns by name": ("socket.gethostbyname('example.com')", "resolve example.com"),
    "dns by name, in full": ("socket.gethostbyname_ex('example.com')", "resolve example.com"),
    "dns by address": ("socket.gethostbyaddr('example.com')", "resolve example.com"),
    "dns of a numeric address": ("socket.gethostbyaddr('8.8.8.8')", "resolve the name of 8.8.8.8"),
    "dns of an address with its port": ("socket.getnameinfo(('8.8.8.8', 53), 0)", "resolve the name of 8.8.8.8"),
    "subprocess": ("subprocess.run(['true', 'x'])", "start a process: true x"),
    "system": ("os.system('true')", "start a process: true"),
    "posix_spawn": ("os.posix_spawn('/bin/true', ['true'], {})", "start a process: true"),
    "spawn": ("os.spawnv(os.P_NOWAIT, '/bin/true', ['true'])", "fork the process"),
    "fork": ("os.fork()", "fork the process"),
    "forkpty": ("os.forkpty()", "fork the process"),
    "exec": ("(fence.forbid_exec(), os.execv('/bin/true', ['true']))", "execute /bin/true"),
    "fork_exec": (
        "__import__('multiprocessing.util').util.spawnv_passfds(b'/bin/true', [b'true'], [])",
        "start a process: true",
    ),
    "ctypes": ("ctypes.CDLL(None).connect", "call the C function connect"),
    "C by handle": ("__import__('_ctypes').dlsym(ctypes.CDLL(None)._handle, 'connect')", "call the C function connect"),
    "second transport": (
        "__import__('urllib.request').request.urlopen(f'http://{HOST}:{PORT}/')",
        "connect to 127.0.0.1:",
    ),
    "unix socket": ("socket.socket(socket.AF_UNIX).connect('/run/docker.sock')", "connect to /run/docker.sock"),
    "loop lookup": (
        "asyncio.run(asyncio.open_connection('example.com', 443))",
        "resolve example.com",
    ),
    "bind": ("socket.socket().bind(('0.0.0.0', 0))", "bind to 0.0.0.0:0"),
}


@pytest.fixture(scope="module")
def refused(tmp_path_factory):
    """What became of every way out, tried one after another in one process; whether something got out."""
    ways = "\n".join(f"    try_it({way!r}, lambda: {attempt})" for way, (attempt, _) in IN_PROCESS.items())
    body = """
fence = Fence()
seen, came = [], {}
fence.refused = seen.append
fence.install()
session.open()
def try_it(way, attempt):
    attempts, told = len(fence.attempts), len(seen)
    error = outcome(attempt)
    came[way] = [error, len(seen) - told, [[a.what, a.location, a.in_run] for a in fence.attempts[attempts:]]]
with session.entered():
"""
    with _listening() as outside:
        told, script = _child(
            tmp_path_factory.mktemp("ways"),
            outside,
            f"{body}{ways}\nsession.close()\nfence.lift()\ntell(fence, came=came)",
        )
        return told["came"], script, outside[2]


@pytest.mark.parametrize("way", IN_PROCESS)
def test_in_process_fence_names_what_and_where(refused, way):
    """Code of a run gets FenceViolation naming the attempt and the application's file and line; nothing gets out."""
    came, script, reached = refused
    error, seen, attempts = came[way]
    assert error.startswith("FenceViolation: "), came[way]
    assert seen == 1
    ((what, location, in_run),) = attempts
    assert in_run
    assert what.startswith(IN_PROCESS[way][1])
    line = next(n for n, text in enumerate(Path(script).read_text().splitlines(), 1) if f"try_it({way!r}," in text)
    assert location == f"{script}:{line}"
    assert reached == []


def test_code_outside_any_run_gets_an_ordinary_error(tmp_path, outside):
    """A background thread (an exporter, a metrics client) gets PermissionError, which it survives; it is named."""
    told, _ = _child(
        tmp_path,
        outside,
        """
        came = []
        go = threading.Event()
        def exporter():
            go.wait()
            came.append(outcome(lambda: socket.create_connection((HOST, PORT))))
        thread = threading.Thread(target=exporter)
        thread.start()
        fence = Fence()
        fence.install()
        session.open()
        with session.entered():
            go.set()
            thread.join()
        session.close()
        tell(fence, came=came)
        """,
    )
    assert told["came"][0].startswith("PermissionError: [Errno 1] connect to 127.0.0.1:")
    assert told["attempts"][0][2] is False
    assert outside[2] == []


def test_what_a_process_needs_for_itself_works(tmp_path, outside):
    """Socket pairs, the event loop's self-pipe, threads, numeric look-ups and loopback binds stay possible."""
    told, _ = _child(
        tmp_path,
        outside,
        """
        fence = Fence()
        fence.install()
        session.open()
        with session.entered():
            a, b = socket.socketpair()
            a.sendall(b"x")
            got = b.recv(1).decode()
            looped = asyncio.run(asyncio.to_thread(lambda: "looped"))
            socket.getaddrinfo("127.0.0.1", 80)
            socket.getnameinfo(("127.0.0.1", 80), 0)
            socket.socket().bind(("127.0.0.1", 0))
        session.close()
        tell(fence, got=got, looped=looped)
        """,
    )
    assert told == {"attempts": [], "got": "x", "looped": "looped"}


def test_multiprocessing_may_start_its_janitor(tmp_path, outside):
    """A lock or shared memory of multiprocessing needs a resource tracker: that process is allowed."""
    told, _ = _child(
        tmp_path,
        outside,
        """
        from multiprocessing import resource_tracker
        fence = Fence()
        fence.install()
        session.open()
        with session.entered():
            came = outcome(resource_tracker.ensure_running)
        session.close()
        tell(fence, came=came)
        """,
    )
    assert told == {"attempts": [], "came": "OPEN None"}


def test_allowed_endpoint_is_reached_and_others_are_not(tmp_path, outside):
    """An allow-list opens exactly the named host and port."""
    told, _ = _child(
        tmp_path,
        outside,
        """
        fence = Fence(allow=[f"localhost:{PORT}"])
        fence.install()
        session.open()
        with session.entered():
            connection = socket.create_connection((HOST, PORT))
            connection.sendall(b"allowed")
            connection.close()
            other = outcome(lambda: socket.create_connection((HOST, UDP)))
        session.close()
        tell(fence, other=other)
        """,
    )
    assert told["other"].startswith("FenceViolation")
    threading.Event().wait(0.3)
    assert outside[2] == [("tcp", b"allowed")]


def test_lifted_fence_is_inert(tmp_path, outside):
    """After `lift` the hook refuses nothing."""
    told, _ = _child(
        tmp_path,
        outside,
        """
        fence = Fence()
        fence.install()
        fence.lift()
        tell(fence, code=subprocess.run(["true"]).returncode)
        """,
    )
    assert told == {"attempts": [], "code": 0}


def test_socket_connected_before_is_shut(tmp_path, outside):
    """A pooled connection from before the replay carries nothing more."""
    told, _ = _child(
        tmp_path,
        outside,
        """
        from otel_agent_replay.replay.open_sockets import shut_open_sockets
        pooled = socket.create_connection((HOST, PORT))
        a, b = socket.socketpair()
        fence = Fence()
        fence.install()
        shut = shut_open_sockets()
        came = outcome(lambda: pooled.sendall(b"secret"))
        a.sendall(b"x")
        tell(fence, shut=shut, came=came, pair=b.recv(1).decode(), port=PORT)
        """,
    )
    assert told["shut"] == [f"127.0.0.1:{told['port']}"]
    assert told["came"].startswith("BrokenPipeError")
    assert told["pair"] == "x"
    threading.Event().wait(0.3)
    assert outside[2] == [("tcp", b"")]


def test_datagram_socket_made_before_is_shut(tmp_path, outside):
    """A socket that could send to any address is shut: the kernel fence cannot see the address of `sendmsg`."""
    told, _ = _child(
        tmp_path,
        outside,
        """
        from otel_agent_replay.replay.open_sockets import shut_open_sockets
        early = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        shut = shut_open_sockets()
        came = [outcome(lambda: early.sendmsg([b"x"], [], 0, (HOST, UDP)))]
        came.append(outcome(lambda: early.sendto(b"x", (HOST, UDP))))
        print(json.dumps([shut, came]))
        """,
    )
    assert told[0] == ["any address (datagrams)"]
    assert [text.partition(":")[0] for text in told[1]] == ["BrokenPipeError", "BrokenPipeError"]
    threading.Event().wait(0.3)
    assert outside[2] == []


KERNEL = {
    "socket": "socket.create_connection((HOST, PORT))",
    "udp": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', (HOST, UDP))",
    "dns": "socket.getaddrinfo('example.com', 443)",
    "unix": "socket.socket(socket.AF_UNIX)",
    "packet": "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
    "datagram pair": "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)",
    "subprocess": "subprocess.run(['true'])",
    "fork": "os.fork()",
    "posix_spawn": "os.posix_spawn('/bin/true', ['true'], {})",
    "exec": "os.execv('/bin/true', ['true'])",
    "multiprocessing": "__import__('multiprocessing.util').util.spawnv_passfds(b'/bin/true', [b'true'], [])",
}


@pytest.mark.skipif(bool(isolation.why_not()), reason=isolation.why_not() or "available")
def test_kernel_fence_alone_holds_everything(tmp_path, outside):
    """With the kernel fence alone, Python's ways, raw C calls and a thread started before all get EPERM."""
    attempts = ", ".join(f"{name!r}: (lambda: {code})" for name, code in KERNEL.items())
    told, _ = _child(
        tmp_path,
        outside,
        f"""
        go, early = threading.Event(), []
        def started_before():
            go.wait()
            early.append(outcome(lambda: socket.create_connection((HOST, PORT))))
        thread = threading.Thread(target=started_before)
        thread.start()
        open_before = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        udp_before = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        isolation.apply_kernel_fence()
        isolation.forbid_exec()
        go.set()
        thread.join()
        came = {{name: outcome(attempt) for name, attempt in {{{attempts}}}.items()}}
        came["system"] = os.system("true")
        came["socket made before"] = outcome(lambda: open_before.connect((HOST, PORT)))
        came["datagram made before"] = outcome(lambda: udp_before.sendto(b"x", (HOST, UDP)))
        libc = ctypes.CDLL(None, use_errno=True)
        address = struct.pack("=HH4s8x", socket.AF_INET, socket.htons(PORT), socket.inet_aton(HOST))
        came["raw connect"] = [libc.connect(open_before.fileno(), address, 16), ctypes.get_errno()]
        came["raw socket"] = [libc.socket(2, 1, 0), ctypes.get_errno()]
        came["io_uring"] = [libc.syscall(425, 1, 0), ctypes.get_errno()]
        came["clone3"] = [libc.syscall(435, None, 0), ctypes.get_errno()]  # its flags lie where no filter can look
        came["unshare"] = [libc.unshare(0x40000000), ctypes.get_errno()]
        a, b = socket.socketpair()
        a.sendall(b"x")
        a.sendmsg([b"y"])
        print(json.dumps({{"came": came, "early": early, "pair": b.recv(2).decode(),
              "loop": asyncio.run(asyncio.to_thread(lambda: "fine"))}}))
        """,
    )
    came = told["came"]
    for name in KERNEL:
        assert not came[name].startswith("OPEN"), (name, came[name])
        assert "not permitted" in came[name] or name == "dns", (name, came[name])
    assert came["system"] != 0
    for name in ("socket made before", "datagram made before"):
        assert came[name].startswith("PermissionError")
    for name in ("raw connect", "raw socket", "io_uring", "unshare"):
        assert came[name] == [-1, 1], (name, came[name])
    assert came["clone3"] == [-1, errno.ENOSYS]  # a C library then uses clone, whose flags can be looked at
    assert told["early"][0].startswith("PermissionError")
    assert told["pair"] == "xy"
    assert told["loop"] == "fine"
    assert outside[2] == []


@pytest.mark.skipif(bool(isolation.why_not()), reason=isolation.why_not() or "available")
def test_program_started_through_exec_stays_inside(tmp_path, outside):
    """Before `forbid_exec` a launcher may become another program, which inherits the fence."""
    told, _ = _child(
        tmp_path,
        outside,
        """
        isolation.apply_kernel_fence()
        inner = f'''
        import json, socket
        try:
            socket.create_connection(("127.0.0.1", {PORT}))
            print(json.dumps("OPEN"))
        except OSError as error:
            print(json.dumps(str(error)))
        '''
        import textwrap
        os.execv(sys.executable, [sys.executable, "-c", textwrap.dedent(inner)])
        """,
    )
    assert told == "[Errno 1] Operation not permitted"
    assert outside[2] == []


@pytest.mark.skipif(bool(isolation.why_not()), reason=isolation.why_not() or "available")
def test_once_a_run_begins_the_kernel_refuses_other_programs(tmp_path, outside):
    """The walls of a replay let a launcher become the program that it starts, and in a run nothing, hook or not."""
    told, _ = _child(
        tmp_path,
        outside,
        """
        from pathlib import Path
        from types import SimpleNamespace
        from otel_agent_replay.replay.walls import Walls
        walls = Walls(SimpleNamespace(lake=Path("no-lake"), report=None, isolate=True, allow=(), allow_write=()))
        walls.put_up_first()
        walls.put_up(lambda violation: None)
        another = Fence()
        another.install()
        another.lift()  # none stands in the process now
        before = outcome(lambda: os.execv("/no/such/program", ["program"]))
        walls.forbid_exec()
        print(json.dumps([before, outcome(lambda: os.execv("/bin/true", ["true"])), walls.standing()]))
        """,
    )
    before, after, standing = told
    assert before.startswith("FileNotFoundError")
    assert after.startswith("PermissionError: [Errno 1]")
    assert isolation.NAME in standing
    assert outside[2] == []
