"""Behind the kernel fence a process reaches what was declared, through its parent, and nothing else."""

import json
import os
import socket
import subprocess
import sys
import textwrap
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from otel_agent_replay.errors import CannotJudge
from otel_agent_replay.replay import supervisor
from otel_agent_replay.replay.endpoints import Endpoints
from otel_agent_replay.replay.supervisor import Supervisor
from otel_agent_replay.replay.verdict import VerdictStatus
from tests.support.agents import ROOT, Script, assert_same

pytestmark = pytest.mark.skipif(bool(supervisor.why_not()), reason=supervisor.why_not() or "available")

PROLOGUE = """
import asyncio, ctypes, json, os, pathlib, socket, struct, subprocess, sys, threading, time
FOLDER, ALLOWED, OTHER = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
from otel_agent_replay.replay import isolation
from otel_agent_replay.replay.endpoints import Endpoints
from otel_agent_replay.replay.supervisor import apply_supervised_fence
libc = ctypes.CDLL(None, use_errno=True)

def outcome(attempt):
    try:
        return f"OPEN {attempt()!r}"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"

def raw_address(port, host="127.0.0.1"):
    return struct.pack("=HH4s8x", socket.AF_INET, socket.htons(port), socket.inet_aton(host))

def raw_connect(port):
    number = libc.socket(2, 1, 0)
    result = libc.connect(number, raw_address(port), 16)
    return [result, 0 if result == 0 else ctypes.get_errno()]

def shut():
    apply_supervised_fence(FOLDER)
    isolation.forbid_exec()
"""


class _Page(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.seen.append(self.path)
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *arguments):
        """Be quiet."""


@pytest.fixture
def servers():
    """Two HTTP servers that note who came."""
    made = []
    for _ in range(2):
        server = ThreadingHTTPServer(("127.0.0.1", 0), _Page)
        server.seen = []
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        made.append((server, thread))
    yield [server for server, _ in made]
    for server, thread in made:
        server.shutdown()
        server.server_close()
        thread.join()


def child(tmp_path, servers, body, *, allow=None):
    """Run `body` after the prologue with somebody who connects for it; return what it told, and what was refused."""
    allowed, other = (server.server_address[1] for server in servers)
    script = tmp_path / "client.py"
    script.write_text(PROLOGUE + textwrap.dedent(body))
    folder = tmp_path / "walls"
    folder.mkdir()
    with Supervisor(folder, Endpoints.resolve(allow or [f"127.0.0.1:{allowed}"])) as serving:
        done = subprocess.run(
            [sys.executable, str(script), str(folder), str(allowed), str(other)],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=False,
        )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), serving.refused


CLIENTS = {
    "httpx2": "__import__('httpx2').get(f'http://127.0.0.1:{port}/', trust_env=False).text",
    "httpx2 async": """asyncio.run((lambda c: c.get(f'http://127.0.0.1:{port}/'))(
        __import__('httpx2').AsyncClient(trust_env=False))).text""",
    "requests": "__import__('requests').get(f'http://127.0.0.1:{port}/', timeout=10).text",
    "urllib": "__import__('urllib.request').request.urlopen(f'http://127.0.0.1:{port}/').read()",
    "asyncio": "asyncio.run(asyncio.open_connection('127.0.0.1', port)) and 'ok'",
    "blocking": "socket.create_connection(('127.0.0.1', port)) and 'ok'",
}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_real_client_reaches_the_declared_server_only(tmp_path, servers, client):
    """Blocking, pooled and asynchronous clients get the declared server's answer, and EPERM from the other."""
    if client.split()[0] in ("httpx2", "requests"):
        pytest.importorskip(client.split()[0])
    told, refused = child(
        tmp_path,
        servers,
        f"""
        import warnings; warnings.simplefilter("ignore")
        shut()
        ask = lambda port: {CLIENTS[client]}
        print(json.dumps([outcome(lambda: ask(ALLOWED)), outcome(lambda: ask(OTHER))]))
        """,
    )
    assert told[0] in ("OPEN 'ok'", "OPEN b'ok'"), told
    assert not told[1].startswith("OPEN"), told
    assert servers[1].seen == []
    assert f"127.0.0.1:{servers[1].server_address[1]}" in refused


def test_no_escape_reaches_the_other_server(tmp_path, servers):
    """Raw C calls, fast open, UDP, other families, children, old threads and io_uring are refused; allowed works."""
    told, refused = child(
        tmp_path,
        servers,
        """
        go, early = threading.Event(), []
        def started_before():
            go.wait()
            early.append(outcome(lambda: socket.create_connection(("127.0.0.1", OTHER))))
            early.append(outcome(lambda: socket.create_connection(("127.0.0.1", ALLOWED)) and "fine"))
        thread = threading.Thread(target=started_before); thread.start()
        made_before = socket.socket()
        datagram_before = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        shut()
        go.set(); thread.join()
        came = {}
        came["raw"] = raw_connect(OTHER)
        came["made before"] = outcome(lambda: made_before.connect(("127.0.0.1", OTHER)))
        made_before.setblocking(False)
        came["non-blocking"] = outcome(lambda: made_before.connect(("127.0.0.1", OTHER)))
        came["datagram before"] = outcome(lambda: datagram_before.connect(("127.0.0.1", ALLOWED)))
        came["datagram sent"] = outcome(lambda: datagram_before.sendto(b"x", ("127.0.0.1", OTHER)))
        came["datagram"] = outcome(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        came["raw socket"] = outcome(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
        came["packet"] = outcome(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
        came["netlink"] = outcome(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW))
        came["mptcp"] = outcome(lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262))
        came["sctp"] = outcome(lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132))
        fast = socket.socket()
        came["fast open"] = outcome(lambda: fast.sendmsg([b"x"], [], 0x20000000, ("127.0.0.1", OTHER)))
        came["fast open sendto"] = outcome(lambda: fast.sendto(b"x", 0x20000000, ("127.0.0.1", OTHER)))
        came["mapped"] = outcome(lambda: socket.create_connection(("::ffff:127.0.0.1", OTHER)))
        came["wildcard"] = outcome(lambda: socket.create_connection(("0.0.0.0", OTHER)))
        came["unix"] = outcome(lambda: socket.socket(socket.AF_UNIX).connect("/run/docker.sock"))
        came["abstract"] = outcome(lambda: socket.socket(socket.AF_UNIX).connect(b"\\0name"))
        came["supervisor itself"] = outcome(lambda: socket.socket(socket.AF_UNIX).connect(str(FOLDER / "supervisor")))
        came["listen"] = outcome(lambda: socket.socket().bind(("127.0.0.1", 0)))
        came["dns"] = outcome(lambda: socket.getaddrinfo("example.com", 443))
        came["subprocess"] = outcome(lambda: subprocess.run(["true"]))
        came["fork"] = outcome(os.fork)
        came["not a socket"] = [libc.connect(os.open("/dev/null", os.O_RDONLY), raw_address(ALLOWED), 16), 0]
        bad = libc.socket(2, 1, 0)
        came["bad pointer"] = [libc.connect(bad, ctypes.c_void_p(8), 16), ctypes.get_errno()]
        came["io_uring"] = [libc.syscall(425, 1, 0), ctypes.get_errno()]
        print(json.dumps([came, early, raw_connect(ALLOWED)]))
        """,
    )
    came, early, allowed = told
    for name, result in came.items():
        if isinstance(result, list):
            assert result[0] == -1, (name, result)
        else:
            assert not result.startswith("OPEN"), (name, result)
    assert came["raw"] == [-1, 1]
    assert early[0].startswith("PermissionError")
    assert early[1] == "OPEN 'fine'"
    assert allowed == [0, 0]
    assert servers[1].seen == []
    assert "/run/docker.sock" in refused


def test_an_address_changed_behind_the_back_gains_nothing(tmp_path, servers):
    """While a thread swaps the address in memory without end, no connect reaches the other server."""
    told, _ = child(
        tmp_path,
        servers,
        """
        shut()
        good, bad = raw_address(ALLOWED), raw_address(OTHER)
        address = ctypes.create_string_buffer(good, 16)
        stop = threading.Event()
        def swap():
            while not stop.is_set():
                ctypes.memmove(address, bad, 16)
                ctypes.memmove(address, good, 16)
        thread = threading.Thread(target=swap); thread.start()
        peers, refused = set(), 0
        for _ in range(300):
            with socket.socket() as one:
                if libc.connect(one.fileno(), address, 16) == 0:
                    peers.add(one.getpeername()[1])
                else:
                    refused += 1
        stop.set(); thread.join()
        print(json.dumps([sorted(peers), refused, ALLOWED]))
        """,
    )
    peers, refused, allowed = told
    assert peers == [allowed]
    assert refused > 0


def test_errors_and_timeouts_are_the_callers_own(tmp_path, servers):
    """A refused port gives ECONNREFUSED, a socket keeps its options, and its time limit holds."""
    closed = socket.create_server(("127.0.0.1", 0))
    port = closed.getsockname()[1]
    closed.close()
    told, _ = child(
        tmp_path,
        servers,
        f"""
        shut()
        one = socket.socket(); one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1); one.settimeout(5)
        one.connect(("127.0.0.1", ALLOWED))
        print(json.dumps([
            outcome(lambda: socket.create_connection(("127.0.0.1", {port}))),
            outcome(lambda: socket.create_connection(("127.0.0.1", {port}), timeout=2)),
            bool(one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)), one.gettimeout(),
        ]))
        """,
        allow=[f"127.0.0.1:{port}", f"127.0.0.1:{servers[0].server_address[1]}"],
    )
    assert told[0].startswith("ConnectionRefusedError")
    assert told[1].startswith("ConnectionRefusedError")
    assert told[2:] == [True, 5.0]


def test_a_local_socket_may_be_declared(tmp_path, servers):
    """`unix:/path` opens that socket and no other."""
    path = tmp_path / "local"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        told, _ = child(
            tmp_path,
            servers,
            f"""
            shut()
            local = socket.socket(socket.AF_UNIX)
            print(json.dumps([outcome(lambda: local.connect({str(path)!r})), raw_connect(ALLOWED)]))
            """,
            allow=[f"unix:{path}"],
        )
    assert told == ["OPEN None", [-1, 1]]


def test_names_are_what_they_were(tmp_path, servers):
    """A declared name is answered from the table, in a thread, in an event loop and for `gethostbyname`."""
    told, _ = child(
        tmp_path,
        servers,
        """
        from otel_agent_replay.replay.fence import Fence
        table = Endpoints(frozenset({("agent.invalid", ALLOWED), ("127.0.0.1", ALLOWED)}), frozenset(),
                          {"agent.invalid": ("127.0.0.1",)})
        apply_supervised_fence(FOLDER)
        Fence(allow=table).install()
        async def ask():
            loop = asyncio.get_running_loop()
            found = await loop.getaddrinfo("agent.invalid", ALLOWED, type=socket.SOCK_STREAM)
            _, writer = await asyncio.open_connection("agent.invalid", ALLOWED)
            writer.close(); await writer.wait_closed()
            return found[0][4]
        print(json.dumps([
            outcome(lambda: socket.create_connection(("Agent.Invalid", ALLOWED)) and "fine"),
            asyncio.run(ask()), socket.gethostbyname("agent.invalid"),
            outcome(lambda: socket.getaddrinfo("other.invalid", 80)),
        ]))
        """,
    )
    assert told[0] == "OPEN 'fine'"
    assert told[1][0] == told[2] == "127.0.0.1"
    assert told[3].startswith("PermissionError: [Errno 1] resolve other.invalid")


def test_nobody_connects_when_the_supervisor_is_gone(tmp_path, servers):
    """Without the process that connects, the walls are not put up at all, and the replay says so."""
    folder = tmp_path / "empty"
    folder.mkdir()
    body = """
    from otel_agent_replay.errors import CannotJudge
    try:
        apply_supervised_fence(pathlib.Path(FOLDER / ".." / "empty"))
    except CannotJudge as error:
        print(json.dumps(str(error)))
    """
    told, _ = child(tmp_path, servers, body)
    assert "the process that connects for the replay is not there" in told


AGENT = """
import ctypes, socket, struct, sys, urllib.request
libc = ctypes.CDLL(None, use_errno=True)
PORT, OTHER = int(sys.argv[1]), int(sys.argv[2])
import otel_agent_replay as replay

@replay.agent
def clerk(question):
    with socket.create_connection(("localhost", PORT)) as reached:
        name = reached.getpeername()[0]
    #ESCAPE
    return [question, name]

clerk("how much?")
"""


def test_an_isolated_replay_reaches_what_is_declared(tmp_path, servers):
    """`isolate` with `allow`: the declared endpoint by name, no other; a C call past Python is refused and named."""
    allowed, other = (str(server.server_address[1]) for server in servers)
    script = Script(tmp_path, AGENT)
    run = script.record(allowed, other)["clerk"]
    verdict = script.replay(run, allowed, other, isolate=True, allow=[f"localhost:{allowed}"])
    assert_same(verdict)
    assert verdict.fences[1] == "kernel (seccomp), declared endpoints only"
    assert verdict.attempts == ()
    address = f"struct.pack('=HH4s8x', 2, socket.htons({other}), socket.inet_aton('127.0.0.1'))"
    script.edit("#ESCAPE", f"libc.__connect(socket.socket().fileno(), {address}, 16)")
    verdict = script.replay(run, allowed, other, isolate=True, allow=[f"localhost:{allowed}"])
    assert [one.what for one in verdict.attempts] == [f"connect to 127.0.0.1:{other}"]
    script.edit("libc.__", "socket.create_connection(('127.0.0.1', OTHER)); libc.__")
    verdict = script.replay(run, allowed, other, isolate=True, allow=[f"localhost:{allowed}"])
    assert verdict.status is VerdictStatus.DEPARTED
    assert verdict.attempts[0].in_run


def test_where_the_kernel_cannot_it_is_no_replay(tmp_path, monkeypatch):
    """Without user notification the combination cannot be judged, and says why."""
    monkeypatch.setattr(supervisor, "why_not", lambda: "the kernel has no seccomp user notification")
    with pytest.raises(CannotJudge, match="no seccomp user notification"):
        Supervisor(tmp_path, Endpoints())
