"""Clocks beyond the tape go on from where they stopped; waits take virtual time alone."""

from __future__ import annotations

import asyncio
import datetime as dt
import sys
import time

import pytest

from otel_agent_replay.boundary import clock as clock_hooks
from otel_agent_replay.boundary import sleep as sleep_hooks
from otel_agent_replay.boundary.crossing import Place
from otel_agent_replay.boundary.policy import COMPONENT
from otel_agent_replay.boundary.session import Session
from otel_agent_replay.errors import DamagedRecording
from otel_agent_replay.model import THREAD_END, AnswerSource, Call, Kind, Payload, SideEffect
from otel_agent_replay.replay import virtual_clock
from otel_agent_replay.replay.virtual_clock import VirtualClock
from otel_agent_replay.replay.virtual_waits import VirtualWaits
from otel_agent_replay.testing import builders
from tests.support.tape_session import MemoryObserver, redaction

real_perf_counter = time.perf_counter
PLACE = Place.root("agent")
_FIRST_NS = builders._FIRST_NS
HOUR_NS = 3600 * 10**9


@pytest.fixture
def hooked():
    clock_hooks.install()
    sleep_hooks.install()
    yield
    clock_hooks.uninstall()
    sleep_hooks.uninstall()


def read(clock, name):
    return clock.read(Kind.CLOCK, name, PLACE, "").value


def component(recorded, waits):
    return Session(
        run_id=b"c" * 16,
        root=Place.root("agent"),
        mode=COMPONENT,
        observer=MemoryObserver(),
        redaction=redaction(),
        answerers={AnswerSource.VIRTUAL: VirtualClock(recorded, waits=waits)},
    )


def in_component(recorded, function):
    waits = VirtualWaits()
    session = component(recorded, waits)
    session.open()
    try:
        with session.entered():
            return function()
    finally:
        session.close()


def test_each_clock_goes_on_from_its_last_read():
    """Wall, monotonic and processor clocks keep their own values, floats and integers of one clock agree."""
    recorded = (
        builders.run("a")
        .read(Kind.CLOCK, "time.time", (_FIRST_NS + HOUR_NS) / 1e9)
        .read(Kind.CLOCK, "time.monotonic", 50.5)
        .read(Kind.CLOCK, "time.process_time_ns", 7)
        .build()
    )
    clock = VirtualClock(recorded, waits=VirtualWaits())
    assert read(clock, "time.time_ns") == pytest.approx(_FIRST_NS + HOUR_NS, abs=10**8)
    assert 50.5 <= read(clock, "time.monotonic") < 50.6
    assert read(clock, "time.monotonic_ns") == pytest.approx(read(clock, "time.monotonic") * 1e9)
    assert 0 < read(clock, "time.process_time") < 0.1
    assert read(clock, "time.thread_time_ns") == 0


def test_what_the_run_did_after_the_read_has_passed_too():
    """A deadline taken before a long recorded call is as near beyond the tape as it was then."""
    recorded = builders.run("a").read(Kind.CLOCK, "time.monotonic", 10.0).model("q", takes_ns=30 * 10**9).build()
    assert read(VirtualClock(recorded, waits=VirtualWaits()), "time.monotonic") == pytest.approx(40.0, abs=0.1)


def test_only_the_past_of_a_forks_point_counts():
    """What was read at or after that point is not the past."""
    recorded = (
        builders.run("a")
        .read(Kind.CLOCK, "time.perf_counter", 1.0)
        .tool("t", {}, 1)
        .read(Kind.CLOCK, "time.perf_counter", 100.0)
        .build()
    )
    begins = next(node.sequence for node in recorded.nodes if node.kind is Kind.TOOL)
    assert read(VirtualClock(recorded, until=begins, waits=VirtualWaits()), "time.perf_counter") < 2
    assert read(VirtualClock(recorded, waits=VirtualWaits()), "time.perf_counter") >= 100


def test_every_function_of_the_clock_gets_its_form(hooked):
    """Dates, local times and formatted ones all tell the same virtual moment."""
    recorded = builders.run("a").read(Kind.CLOCK, "time.time_ns", _FIRST_NS).build()

    def look():
        return (
            dt.datetime.now(dt.timezone.utc),
            dt.datetime.utcnow() if sys.version_info < (3, 12) else None,
            dt.datetime.now(),
            dt.date.today(),
            time.gmtime(),
            time.strftime("%Y"),
            time.time(),
        )

    aware, utc, local, day, broken, year, seconds = in_component(recorded, look)
    moment = dt.datetime.fromtimestamp(_FIRST_NS // 10**9, dt.timezone.utc)
    assert abs(aware - moment) < dt.timedelta(seconds=1)
    assert utc is None or utc == aware.replace(tzinfo=None)
    assert local.astimezone(dt.timezone.utc) == aware
    assert day == local.date()
    assert (broken.tm_year, year) == (moment.year, str(moment.year))
    assert seconds == pytest.approx(aware.timestamp())


def test_local_time_stays_in_the_zone_of_the_recording():
    """A naive read on record tells how far ahead of UTC its machine was."""
    there = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=_FIRST_NS // 1000, hours=5, minutes=45)
    recorded = builders.run("a").read(Kind.CLOCK, "datetime.now", there.isoformat()).build()
    now = dt.datetime.fromisoformat(read(VirtualClock(recorded, waits=VirtualWaits()), "datetime.now"))
    assert abs(now - there) < dt.timedelta(seconds=1)


def test_real_time_passes_once_it_has_begun():
    """Without virtual waits a clock goes on as fast as the real one, never back, from the first read on."""
    recorded = builders.run("a").read(Kind.CLOCK, "time.monotonic_ns", 5).build()
    clock = VirtualClock(recorded)
    first = read(clock, "time.monotonic_ns")
    until = real_perf_counter() + 0.02
    while real_perf_counter() < until:
        pass
    passed = read(clock, "time.monotonic_ns") - first
    assert 0.02e9 * 0.9 <= passed < 5e9


def test_what_is_no_clock_is_left_to_the_next_source():
    """Other kinds, unknown names, and calls."""
    clock = VirtualClock(builders.run("a").build())
    assert clock.read(Kind.CLOCK, "loop.time", PLACE, "") is None
    assert clock.read(Kind.RANDOM, "random.random", PLACE, "") is None
    call = Call(Kind.SLEEP, "time.sleep", SideEffect.NONE, Payload.of(b"", ""))
    assert clock.answer(call, PLACE) is None
    assert clock.read(Kind.CLOCK, THREAD_END, PLACE, "1") is None  # a mark beside the times of spans: real as they are
    virtual = VirtualClock(builders.run("a").build(), waits=VirtualWaits())
    assert virtual.read(Kind.CLOCK, THREAD_END, PLACE, "1").value >= _FIRST_NS


@pytest.fixture
def passed(monkeypatch):
    """Real time stands, but for what is put in the list."""
    moment = [0]
    monkeypatch.setattr(virtual_clock, "_monotonic_ns", lambda: moment[0])
    return moment


def clock_reads(*reads):
    """Return a clock at the first step of a recording, and the reads that were made after it, each (name, value)."""
    run = builders.run("a")
    run.read(Kind.CLOCK, "time.time_ns", _FIRST_NS).read(Kind.CLOCK, "time.monotonic_ns", 6 * S)
    run.tool("first", {}, 1)
    for name, value in reads:
        run.read(Kind.CLOCK, name, value)
    recorded = run.build()
    begins = next(node.sequence for node in recorded.nodes if node.kind is Kind.TOOL)
    made = sorted((read for node in recorded.nodes for read in node.reads), key=lambda read: read.sequence)
    return VirtualClock(recorded, until=begins), made[2:]


S = 10**9


def test_time_goes_on_from_what_the_tape_gave_last(passed):
    """All clocks jump with it; what passes after it is real; how long the run itself took till then is no matter."""
    clock, (wall,) = clock_reads(("time.time_ns", _FIRST_NS + HOUR_NS))
    began = read(clock, "time.perf_counter_ns")
    clock, (wall,) = clock_reads(("time.time_ns", _FIRST_NS + HOUR_NS))
    clock.start()
    passed[0] += 5 * HOUR_NS
    assert clock.takes_up(wall)
    passed[0] += 2 * S
    assert read(clock, "time.time_ns") == wall.value + 2 * S
    assert read(clock, "datetime.now(tz)") == (wall.value + 2 * S) // 1000
    assert read(clock, "time.monotonic_ns") == pytest.approx(6 * S + HOUR_NS + 2 * S, abs=S)
    assert read(clock, "time.perf_counter_ns") - began == pytest.approx(HOUR_NS + 2 * S, abs=S)


def test_a_recorded_time_that_has_passed_is_not_shown(passed):
    """Once a clock went on by itself, only a later recorded time is given, of whatever clock."""
    clock, (first, up, last) = clock_reads(
        ("time.time_ns", _FIRST_NS + S), ("time.monotonic_ns", 7 * S), ("time.time_ns", _FIRST_NS + HOUR_NS)
    )
    assert clock.takes_up(first)
    passed[0] += 60 * S
    assert read(clock, "time.time_ns") == first.value + 60 * S
    assert not clock.takes_up(up)
    assert clock.takes_up(last)
    assert read(clock, "time.time_ns") == last.value


def test_threads_get_their_own_recorded_times_in_any_order(passed):
    """A thread's read of before is given though another one was given a later one; to itself it is not."""
    clock, (early, late) = clock_reads(("time.time_ns", _FIRST_NS + S), ("time.time_ns", _FIRST_NS + 9 * S))
    assert clock.takes_up(late)
    assert not clock.takes_up(early)
    assert clock.takes_up(early._replace(strand="1"))
    assert read(clock, "time.time_ns") == late.value


def test_local_times_and_days_come_from_the_tape_too(passed):
    """A naive time moves the clocks as far as its zone tells; a day is given while it is none of before."""
    ahead = dt.timedelta(hours=5, minutes=45, seconds=10)
    moment = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=_FIRST_NS // 1000) + ahead
    clock, (now, day) = clock_reads(("datetime.now", moment.isoformat()), ("date.today", moment.date().isoformat()))
    assert clock.takes_up(day)
    assert clock.takes_up(now)
    assert read(clock, "datetime.now") == moment.isoformat()
    assert clock.takes_up(day)
    passed[0] += 24 * HOUR_NS
    assert read(clock, "date.today") == (moment + dt.timedelta(days=1)).date().isoformat()
    assert not clock.takes_up(day)


def test_a_wait_that_was_cut_short_has_passed_in_full(passed):
    """Two of a minute side by side take a minute; what was recorded before their end is not shown after it."""
    clock, (before, after) = clock_reads(("time.time_ns", _FIRST_NS + 30 * S), ("time.time_ns", _FIRST_NS + 65 * S))
    began = read(clock, "time.time_ns")
    overs = [clock.asleep(60), clock.asleep(60)]
    passed[0] += S
    for over in overs:
        over()
    assert not clock.takes_up(before)
    assert clock.takes_up(after)
    assert 60 * S <= read(clock, "time.time_ns") - began < 66 * S


def test_a_clock_beside_another_shows_the_same_time(passed):
    """A run that another one's code begins goes on in its time; one that was recorded later begins later."""
    recorded = builders.run("a").read(Kind.CLOCK, "time.monotonic_ns", 50 * S).build()
    clock = VirtualClock(recorded)
    inner = VirtualClock(builders.run("b").build(), beside=clock)
    passed[0] += 30 * S
    assert read(inner, "time.monotonic_ns") == read(clock, "time.monotonic_ns")
    assert read(inner, "time.time_ns") == read(clock, "time.time_ns")


def test_the_clocks_of_a_re_runs_recording_count_and_not_its_spans():
    """Its spans are of the day of the re-run, its clocks of the day of its origin: a fork of it goes on in that."""
    recorded = builders.run("a").tool("first", {}, 1).read(Kind.CLOCK, "time.time_ns", 7 * S).build()
    begins = next(node.sequence for node in recorded.nodes if node.kind is Kind.TOOL)
    for until in (None, begins):
        assert read(VirtualClock(recorded, until=until), "time.time") == pytest.approx(7, abs=1)


def test_half_an_hour_of_waiting_takes_no_time(hooked):
    """Waits move the clocks by what they take, in milliseconds of real time."""

    def back_off():
        begun = time.monotonic()
        for seconds in (60, 600, 1140):
            time.sleep(seconds)
        return time.monotonic() - begun

    began = real_perf_counter()
    assert in_component(builders.run("a").build(), back_off) == pytest.approx(1800)
    assert real_perf_counter() - began < 1


def test_waits_side_by_side_overlap_and_end_in_order(hooked):
    """Three tasks that wait 10, 5 and 7 seconds end after 5, 7 and 10; a cancelled wait holds nobody up."""
    ended = []

    async def wait(seconds):
        await asyncio.sleep(seconds)
        ended.append((seconds, time.monotonic() - begun[0]))

    begun = []

    async def all_of_them():
        begun.append(time.monotonic())
        tasks = [asyncio.create_task(wait(seconds)) for seconds in (10, 5, 7)]
        given_up = asyncio.create_task(wait(1))
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.gather(*tasks)

    in_component(builders.run("a").build(), lambda: asyncio.run(all_of_them()))
    assert [seconds for seconds, _ in ended] == [5, 7, 10]
    assert [after for _, after in ended] == pytest.approx([5, 7, 10])


def test_a_wait_of_no_length_is_not_guessed():
    """A call that does not say how long it waits is an error."""
    clock = VirtualClock(builders.run("a").build(), waits=VirtualWaits())
    with pytest.raises(DamagedRecording):
        clock.answer(Call(Kind.SLEEP, "time.sleep", SideEffect.NONE, Payload.of(b"{}", "")), PLACE)
