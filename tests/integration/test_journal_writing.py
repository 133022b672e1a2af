"""The journal's writer against real files, threads, forks, full disks and closed descriptors."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import resource
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from otel_agent_replay.export import journal as journal_module
from otel_agent_replay.export.journal import Journal
from otel_agent_replay.export.segments import is_closed
from otel_agent_replay.model import Payload
from otel_agent_replay.payload.prefix import BodyHistory
from otel_agent_replay.wire.v1 import journal_pb2 as wire
from tests.support.journal_files import a_loss, all_records, kinds_in, probes, records_in, segment_paths


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def journal(lake: Path):
    opened = Journal(lake, header_fields={"service": "shop"})
    yield opened
    opened.close()


def in_child(body) -> int:
    """Run `body` in a forked child that ends without any cleaning up; return its exit code."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            body()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_record_is_on_disk_when_append_returns(journal: Journal, lake: Path) -> None:
    """Without any close or flush, another reader finds the header and every appended record."""
    assert journal.append(a_loss(1), a_loss(2))
    (path,) = segment_paths(lake)
    header, *rest = records_in(path)
    assert header.header.writer == journal.writer
    assert header.header.service == "shop"
    assert (header.header.format_version, header.header.segment, header.header.pid) == (1, 1, os.getpid())
    assert [record.loss.detail for record in rest] == ["1", "2"]


def test_one_append_is_one_write(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several records of one append reach the kernel in one write."""
    journal.append(a_loss(0))
    writes = []
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: writes.append(len(data)) or real(fd, data))
    journal.append(a_loss(1), a_loss(2), a_loss(3))
    assert len(writes) == 1


def test_nothing_is_made_before_the_first_record(lake: Path) -> None:
    """A journal that is never written to leaves no folder behind."""
    journal = Journal(lake)
    journal.rotate()
    journal.close()
    assert not lake.exists()


def test_a_change_of_directory_moves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A journal given by a relative path stays where it was made, wherever the host goes."""
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    journal = Journal(Path("lake"))
    monkeypatch.chdir(tmp_path / "other")
    assert journal.append(a_loss(1))
    journal.close()
    assert probes(tmp_path / "lake") == [1]


def test_files_are_for_the_owner_only(journal: Journal, lake: Path) -> None:
    """Folders are 0700, segments 0600, and the lake keeps itself out of version control."""
    journal.append(a_loss(1))
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (lake, lake / "journal", *segment_paths(lake))]
    assert modes == [0o700, 0o700, 0o600]
    assert (lake / ".gitignore").read_text() == "*\n"


def test_an_open_segment_is_locked_and_a_closed_one_is_not(journal: Journal, lake: Path) -> None:
    """A reader can tell a live segment from a closed one by its lock."""
    journal.append(a_loss(1))
    (path,) = segment_paths(lake)
    assert is_closed(path) is False
    journal.close()
    assert is_closed(path) is True
    assert kinds_in(path)[-1] == "clean_end"


def test_close_is_not_the_end(journal: Journal, lake: Path) -> None:
    """A record that comes after close (a late exit handler) opens another segment instead of being lost."""
    journal.append(a_loss(1))
    journal.close()
    assert journal.append(a_loss(2))
    assert len(segment_paths(lake)) == 2
    assert probes(lake) == [1, 2]


def test_the_segment_ends_with_the_last_open_run(journal: Journal, lake: Path) -> None:
    """When a run ends and none is open, its segment is closed at once; while another is open, it is not."""
    journal.begin_run(b"a" * 16)
    journal.append(a_loss(1))
    journal.begin_run(b"b" * 16)
    journal.end_run(b"a" * 16)
    assert is_closed(segment_paths(lake)[0]) is False
    journal.end_run(b"b" * 16)
    assert is_closed(segment_paths(lake)[0]) is True


def test_a_full_segment_is_followed_while_a_run_is_open(lake: Path) -> None:
    """A segment over its size is ended and the next is opened first, so that some segment is always locked."""
    journal = Journal(lake, segment_bytes=600)
    journal.begin_run(b"a" * 16)
    for number in range(40):
        assert journal.append(a_loss(number))
        assert [is_closed(path) for path in segment_paths(lake)].count(False) == 1
    journal.close()
    assert len(segment_paths(lake)) > 2
    assert probes(lake) == list(range(40))


def test_each_segment_holds_the_bodies_it_names(lake: Path) -> None:
    """A body is written once a segment, and again in the next one."""
    journal = Journal(lake)
    payload = Payload.of(b"x" * 2000, "text/plain")
    first = journal.body(payload, None)
    assert first is not None
    journal.append(first, a_loss(1))
    assert journal.body(payload, None) is None
    journal.append(a_loss(2))
    journal.rotate()
    again = journal.body(payload, None)
    assert again is not None
    journal.append(again, a_loss(3))
    journal.close()
    assert [kinds_in(path).count("body") for path in segment_paths(lake)] == [1, 1]


def test_a_body_that_repeats_an_earlier_one_is_written_as_its_difference(lake: Path) -> None:
    """The second of two long bodies costs only what differs."""
    journal = Journal(lake)
    history = BodyHistory()
    base = bytes(range(256)) * 400
    for payload in (Payload.of(base, "text/plain"), Payload.of(base + b"more", "text/plain")):
        record = journal.body(payload, history)
        assert record is not None
        journal.append(record)
    journal.close()
    whole, delta = (record.body for record in all_records(lake, "body"))
    assert whole.data == base
    assert (delta.base, delta.prefix, delta.data) == (whole.digest, len(base), b"more")


def test_a_rotation_between_the_question_and_the_write_loses_no_body(lake: Path) -> None:
    """What `body` said of the old segment is made good in the new one: every body is there, and whole."""
    journal = Journal(lake)
    history = BodyHistory()
    base = os.urandom(4000)
    known, longer = Payload.of(base, "text/plain"), Payload.of(base + b"!", "text/plain")
    journal.append(journal.body(known, history))
    assert journal.body(known, history) is None
    delta = journal.body(longer, history)
    assert delta is not None
    assert delta.body.base == known.digest
    rotated = threading.Thread(target=journal.rotate)
    rotated.start()
    rotated.join()
    journal.append(delta, a_loss(1))
    journal.close()
    bodies = [record.body for record in records_in(segment_paths(lake)[1]) if record.HasField("body")]
    assert {body.digest: body.data for body in bodies} == {known.digest: base, longer.digest: base + b"!"}
    assert not any(body.base for body in bodies)


def test_a_body_whose_write_failed_is_written_next_time(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A body counts as written only when it was."""
    journal = Journal(lake)
    journal.append(a_loss(0))
    payload = Payload.of(b"y" * 900, "text/plain")
    record = journal.body(payload, None)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", _full)
        assert not journal.append(record)
    assert journal.body(payload, None) is not None
    journal.close()


def _full(fd: int, data: bytes) -> int:
    raise OSError(errno.ENOSPC, "no space left on device")


def test_many_threads_append_without_loss(lake: Path) -> None:
    """Records of many threads are all there, whole, each thread's in its order."""
    journal = Journal(lake, lock_timeout_s=30, segment_bytes=20_000)
    journal.begin_run(b"a" * 16)

    def write(thread: int) -> None:
        for number in range(200):
            assert journal.append(a_loss(thread * 1000 + number))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    journal.close()
    found = probes(lake)
    assert sorted(found) == sorted(thread * 1000 + number for thread in range(8) for number in range(200))
    for thread in range(8):
        mine = [number for number in found if number // 1000 == thread]
        assert mine == sorted(mine)


def test_append_waits_no_longer_than_its_bound(lake: Path, caplog: pytest.LogCaptureFixture) -> None:
    """While another thread holds the journal, an append gives up after the stated time, and the loss is counted."""
    journal = Journal(lake, lock_timeout_s=0.05)
    journal.append(a_loss(1))
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with journal._lock:
            held.set()
            release.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    began = time.monotonic()
    assert not journal.append(a_loss(2))
    waited = time.monotonic() - began
    release.set()
    thread.join()
    assert 0.04 < waited < 2
    assert journal.losses == 1
    assert journal.append(a_loss(3))
    journal.close()
    assert [loss.loss.count for loss in all_records(lake, "loss") if loss.loss.what == "loss"] == [1]


def test_an_append_inside_an_append_is_written_too(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A finalizer or signal handler that appends while its own thread is appending neither hangs nor is lost."""
    journal = Journal(lake)
    journal.append(a_loss(1))
    real = os.write
    inside = []

    def write(fd: int, data: bytes) -> int:
        if not inside:
            inside.append(journal.append(a_loss(3)))
        return real(fd, data)

    monkeypatch.setattr(os, "write", write)
    assert journal.append(a_loss(2))
    assert inside == [True]
    journal.close()
    assert probes(lake) == [1, 2, 3]


def test_a_forked_child_writes_its_own_segment(journal: Journal, lake: Path) -> None:
    """Parent and child never share a file; the parent's stays locked when the child ends without cleaning up."""
    journal.append(a_loss(1))
    assert in_child(lambda: journal.append(a_loss(2)) or os._exit(3)) == 0
    assert journal.append(a_loss(3))
    paths = segment_paths(lake)
    by_pid = {records_in(path)[0].header.pid: [r.loss.detail for r in records_in(path)[1:]] for path in paths}
    assert by_pid.pop(os.getpid()) == ["1", "3"]
    assert list(by_pid.values()) == [["2"]]
    assert [is_closed(path) for path in paths].count(False) == 1


def test_a_child_that_does_not_write_leaves_no_segment(journal: Journal, lake: Path) -> None:
    """A fork by itself makes no file."""
    journal.append(a_loss(1))
    assert in_child(lambda: None) == 0
    assert len(segment_paths(lake)) == 1


def test_forks_while_other_threads_append(lake: Path) -> None:
    """A child forked while another thread is in mid-append can write, and nothing is lost on either side."""
    journal = Journal(lake, lock_timeout_s=30)
    stop = threading.Event()
    written = []

    def write() -> None:
        number = 0
        while not stop.is_set():
            if journal.append(a_loss(number)):
                written.append(number)
            number += 1

    thread = threading.Thread(target=write)
    thread.start()
    codes = [in_child(lambda n=n: journal.append(a_loss(1_000_000 + n)) or os._exit(3)) for n in range(12)]
    stop.set()
    thread.join()
    journal.close()
    assert codes == [0] * 12
    assert sorted(probes(lake)) == written + [1_000_000 + n for n in range(12)]


def test_os_exit_loses_nothing(lake: Path) -> None:
    """A process that ends by os._exit right after an append has it on disk, and its segment counts as closed."""
    journal = Journal(lake)
    assert in_child(lambda: journal.append(a_loss(7)) or os._exit(3)) == 0
    assert probes(lake) == [7]
    assert is_closed(segment_paths(lake)[0]) is True


def test_interpreter_exit_ends_the_segment_in_order(lake: Path) -> None:
    """At a normal exit the segment gets its clean end, also when a thread and a late exit handler still write."""
    code = f"""
import atexit, threading
from pathlib import Path
from otel_agent_replay.export.journal import Journal
from otel_agent_replay.wire.v1 import journal_pb2 as wire
journal = None
def probe(number):
    return journal.append(wire.Record(loss=wire.Loss(reason="internal", what="probe", count=1, detail=str(number))))
atexit.register(lambda: probe(3))
journal = Journal(Path({str(lake)!r}))
assert probe(1)
thread = threading.Thread(target=probe, args=(2,))
thread.start()
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(probes(lake)) == [1, 2, 3]
    assert "clean_end" in kinds_in(segment_paths(lake)[0])


def test_a_lake_that_cannot_be_made_costs_the_host_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every append says no, one warning is logged, and the losses are written once the place is usable."""
    monkeypatch.setattr(journal_module, "FIRST_RETRY_S", 0.0)
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where the lake should be")
    journal = Journal(blocked / "lake")
    with caplog.at_level(logging.WARNING, logger="otel_agent_replay"):
        assert [journal.append(wire.Record(node_begun=wire.NodeBegun(run_id=b"r" * 16))) for _ in range(5)] == [
            False
        ] * 5
    assert len(caplog.records) == 1
    assert journal.losses == 5
    blocked.unlink()
    journal._retry_at = 0.0
    assert journal.append(a_loss(1))
    journal.close()
    (lost,) = (record.loss for record in all_records(blocked / "lake", "loss") if record.loss.what != "probe")
    assert (lost.reason, lost.what, lost.count, lost.run_id) == ("dropped", "node_begun", 5, b"r" * 16)


def test_permission_denied_is_a_counted_loss(tmp_path: Path) -> None:
    """A user who may not write the folder gets False and no exception."""
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o700)
    journal = Journal(folder / "lake")
    folder.chmod(0o500)

    def as_nobody() -> None:
        if os.getuid() == 0:
            os.setuid(65534)
        logging.disable()
        assert not journal.append(a_loss(1))
        assert journal.losses == 1

    assert in_child(as_nobody) == 0
    folder.chmod(0o700)


def test_after_a_failure_the_disk_is_left_alone_for_a_while(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two tries no write is attempted, and the pause grows up to its bound."""
    journal = Journal(lake)
    journal.append(a_loss(0))
    tries = []
    now = [100.0]
    monkeypatch.setattr(journal_module, "_monotonic", lambda: now[0])
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda fd, data: tries.append(now[0]) or _full(fd, data))
        for _ in range(500):
            now[0] += 0.25
            assert not journal.append(a_loss(1))
    pauses = [later - earlier for earlier, later in zip(tries, tries[1:])]
    assert pauses == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    now[0] += 60
    assert journal.append(a_loss(2))
    assert probes(lake) == [0, 2]
    assert [loss.loss.count for loss in all_records(lake, "loss") if loss.loss.what == "loss"] == [500]
    journal.close()


def test_a_short_write_leaves_no_half_frame(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the kernel takes a part and then no more, the part is cut off again and the record counts as lost."""
    journal = Journal(lake)
    journal.append(a_loss(0))
    real = os.write
    taken = []

    def write(fd: int, data: bytes) -> int:
        if taken:
            return _full(fd, data)
        taken.append(data)
        return real(fd, data[:11])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write)
        assert not journal.append(a_loss(1))
    journal.close()
    assert probes(lake) == [0]


def test_a_write_in_parts_is_a_whole_one(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the kernel takes a record in several parts, it is written."""
    journal = Journal(lake)
    journal.append(a_loss(0))
    real = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda fd, data: real(fd, data[:3]))
        assert journal.append(a_loss(1))
    journal.close()
    assert probes(lake) == [0, 1]


def test_a_file_size_limit_is_met_by_another_segment(lake: Path) -> None:
    """Where a file may not grow (RLIMIT_FSIZE), writing goes on in the next one, whole frames only."""

    def limited() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))
        journal = Journal(lake)
        assert all(journal.append(a_loss(number)) for number in range(60))

    assert in_child(limited) == 0
    assert probes(lake) == list(range(60))
    assert len(segment_paths(lake)) > 1
    assert max(path.stat().st_size for path in segment_paths(lake)) <= 1500


@pytest.fixture
def tiny_disk(tmp_path: Path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if os.getuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to mount a tmpfs")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_full_disk(tiny_disk: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk the host goes on, what was written stays whole, and losses are written once there is room."""
    monkeypatch.setattr(journal_module, "FIRST_RETRY_S", 0.0)
    journal = Journal(tiny_disk / "lake")
    journal.append(a_loss(0))
    ballast = tiny_disk / "ballast"
    with ballast.open("wb", buffering=0) as file, pytest.raises(OSError):
        while True:
            file.write(bytes(4096))
    answers = []
    for number in range(1, 200):
        journal._retry_at = 0.0
        answers.append(journal.append(a_loss(number)))
    assert not answers[-1]
    lost = answers.count(False)
    assert journal.losses == lost
    ballast.unlink()
    journal._retry_at = 0.0
    assert journal.append(a_loss(999))
    journal.close()
    kept = [0] + [number for number, written in enumerate(answers, start=1) if written] + [999]
    assert probes(tiny_disk / "lake") == kept
    assert sum(r.loss.count for r in all_records(tiny_disk / "lake", "loss") if r.loss.what == "loss") == lost


def test_a_segment_removed_by_hand_is_noticed_at_the_next_run(lake: Path) -> None:
    """When somebody empties the lake under a running process, its next run is recorded again."""
    journal = Journal(lake)
    journal.append(a_loss(1))
    for path in segment_paths(lake):
        path.unlink()
    journal.begin_run(b"a" * 16)
    assert journal.append(a_loss(2))
    assert probes(lake) == [2]
    journal.close()


def test_a_descriptor_closed_behind_our_back_is_never_written_to(lake: Path, tmp_path: Path) -> None:
    """When the host closed all descriptors and opened its own, our records do not land in its file."""
    journal = Journal(lake)
    journal.append(a_loss(1))
    number = journal._segment.fd
    os.close(number)
    theirs = os.open(tmp_path / "theirs", os.O_CREAT | os.O_RDWR)
    if theirs != number:
        os.dup2(theirs, number)
    journal.begin_run(b"a" * 16)
    assert journal.append(a_loss(2))
    journal.close()
    assert (tmp_path / "theirs").read_bytes() == b""
    os.write(number, b"still theirs")
    assert (tmp_path / "theirs").read_bytes() == b"still theirs"
    assert sorted(probes(lake)) == [1, 2]
    for descriptor in {theirs, number}:
        os.close(descriptor)


def test_a_closed_descriptor_is_replaced_at_once(lake: Path) -> None:
    """EBADF in the middle of a run costs nothing: the record goes into the next segment."""
    journal = Journal(lake)
    journal.append(a_loss(1))
    os.close(journal._segment.fd)
    assert journal.append(a_loss(2))
    journal.close()
    assert sorted(probes(lake)) == [1, 2]


def test_durable_appends_share_one_wait_for_the_disk(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Intended writes wait for fsync; threads that come while one waits are served by the next one together."""
    journal = Journal(lake, fsync=True, lock_timeout_s=30)
    journal.append(a_loss(0))
    written = threading.Semaphore(0)
    syncs = []

    def slow(fd: int) -> None:
        syncs.append(fd)
        if len(syncs) == 1:
            for _ in range(6):  # until every thread has written its record
                written.acquire(timeout=30)

    monkeypatch.setattr(os, "fsync", slow)
    real = journal._commit

    def commit(*batch):
        try:
            return real(*batch)
        finally:
            written.release()

    monkeypatch.setattr(journal, "_commit", commit)
    threads = [threading.Thread(target=journal.append, args=(a_loss(n),), kwargs={"durable": True}) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 1 <= len(syncs) <= 2
    assert not journal.losses
    monkeypatch.undo()
    journal.close()


def test_without_the_setting_nothing_waits_for_the_disk(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`durable` is a wish that the setting grants."""
    journal = Journal(lake)
    monkeypatch.setattr(os, "fsync", lambda fd: pytest.fail("fsync was called"))
    assert journal.append(a_loss(1), durable=True)
    journal.close()


def test_a_record_that_cannot_be_serialised_is_a_loss(journal: Journal) -> None:
    """An append of something that is no good record says no instead of raising."""
    assert not journal.append(wire.Record())
    assert journal.losses == 1
    assert journal.append(a_loss(1))


def test_a_segment_is_visible_only_with_its_lock_and_header(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the moment a segment gets its name it is locked already, so that no sealer takes it for a dead one."""
    journal = Journal(lake)
    seen = []
    real = Path.rename

    def rename(self: Path, target: Path):
        with self.open("rb") as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        seen.append(self.stat().st_size)
        return real(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    journal.append(a_loss(1))
    assert len(seen) == 1
    assert seen[0] > 20
    journal.close()
