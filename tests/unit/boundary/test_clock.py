"""Reads of time are recorded and come back; nobody else's clock is touched."""

from __future__ import annotations

import asyncio
import datetime as dt
import inspect
import pickle
import sys
import threading
import time
import warnings
from datetime import date, datetime, timedelta, timezone

import pytest

from otel_agent_replay.boundary import clock, sleep
from otel_agent_replay.boundary.policy import RECORD
from otel_agent_replay.boundary.session import set_call_context
from otel_agent_replay.errors import ReplayDeparture
from otel_agent_replay.model import Kind, OutcomeStatus

_real = {name: getattr(time, name) for name in ("time", "monotonic", "perf_counter", "sleep")}
_real_now = datetime.__dict__["now"]


@pytest.fixture(autouse=True)
def installed():
    clock.install()
    sleep.install()
    yield
    clock.uninstall()
    sleep.uninstall()


CLOCKS = ("time", "monotonic", "perf_counter", "process_time", "thread_time")


@pytest.mark.parametrize("name", [f"{name}{unit}" for name in CLOCKS for unit in ("", "_ns")])
def test_every_number_of_the_time_module_replays(stage, name):
    """Each function that returns a number gives the recorded numbers again, with their types."""
    recorded, replayed = stage.both(lambda: [getattr(time, name)() for _ in range(3)])
    assert replayed == recorded
    assert type(replayed[0]) is type(recorded[0])
    assert stage.observer.names == [f"time.{name}"] * 3


def test_a_recorded_clock_still_runs(stage):
    """Recording returns the real time."""
    before, read, after = stage.record(lambda: (_real["time"](), time.time(), _real["time"]()))
    assert before <= read <= after


def test_outside_a_run_and_in_libraries_the_clock_is_the_real_one(stage, library):
    """A library's read in a run is neither recorded nor replayed."""
    lib = library("import time\ndef stamp(): return time.time()")
    recorded, replayed = stage.both(lib.stamp)
    assert replayed > recorded
    assert stage.observer.reads == []
    assert time.time() >= replayed


def test_datetime_now_replays_naive_and_aware(stage):
    """`now` comes back equal, without a zone and in any zone."""
    tokyo = timezone(timedelta(hours=9))

    def agent():
        return datetime.now(), datetime.now(timezone.utc), datetime.now(tokyo), datetime.now(tz=None)

    recorded, replayed = stage.both(agent)
    assert replayed == recorded
    assert [value.tzinfo for value in replayed] == [None, timezone.utc, tokyo, None]
    assert isinstance(stage.observer.values[0], str)
    assert isinstance(stage.observer.values[1], int)


def test_dates_and_utcnow_replay(stage):
    """`utcnow`, `datetime.today` and `date.today` come back equal and of the same type."""

    def agent():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            return datetime.utcnow(), datetime.today(), date.today()

    recorded, replayed = stage.both(agent)
    assert replayed == recorded
    assert [type(value) for value in replayed] == [datetime, datetime, date]
    assert stage.observer.names == ["datetime.utcnow", "datetime.today", "date.today"]


def test_subclasses_and_names_bound_earlier_are_caught(stage):
    """A subclass gets its own type back, and a method bound before the session is the hooked one."""

    class Stamp(datetime):
        pass

    class Day(date):
        pass

    bound = datetime.now

    def agent():
        return Stamp.now(), Stamp.now(timezone.utc), Day.today(), bound()

    recorded, replayed = stage.both(agent)
    assert replayed == recorded
    assert [type(value) for value in replayed] == [Stamp, Stamp, Day, datetime]


def test_the_repeated_hour_comes_back_with_its_fold(stage):
    """`fold` distinguishes the two passes of the hour in which clocks go back."""
    moment = datetime(2026, 10, 25, 2, 30, fold=1)
    decoded = clock._naive(datetime)(clock._text(moment))
    assert decoded == moment
    assert decoded.fold == 1


def test_aware_times_keep_their_microseconds():
    """No float lies between an aware time and its stored form."""
    for moment in (datetime.max, datetime.min, datetime(2026, 11, 29, 1, 2, 3, 999_999)):
        aware = moment.replace(tzinfo=timezone.utc)
        assert clock._aware(datetime, clock._microseconds(aware), timezone.utc) == aware


def test_a_wrong_argument_fails_as_before(stage):
    """The error of a wrong zone is the standard one."""
    with pytest.raises(TypeError, match="tzinfo"):
        stage.record(lambda: datetime.now(3))


@pytest.mark.skipif(sys.version_info < (3, 12), reason="deprecated since 3.12")
def test_the_deprecation_of_utcnow_blames_the_callers_line():
    """The warning names the application's file, not ours."""
    with pytest.warns(DeprecationWarning, match="utcnow") as caught:
        datetime.utcnow()
    assert caught[0].filename == __file__


def test_formatting_the_present_replays(stage):
    """Functions that take the present by default take the recorded present."""

    def agent():
        return (
            time.strftime("%Y-%m-%d %H:%M:%S"),
            time.localtime(),
            time.gmtime(None),
            time.ctime(),
            time.asctime(),
            time.gmtime(0),
            time.strftime("%Y", time.gmtime(0)),
        )

    recorded = stage.record(agent)
    assert stage.observer.names == ["time.strftime", "time.localtime", "time.gmtime", "time.ctime", "time.asctime"]
    stage.observer.reads[:] = [
        (path, type(read)(read.kind, read.name, read.value - 86_400 * 400, read.strand))
        for path, read in stage.observer.reads
    ]
    replayed = stage.replay(agent)
    assert replayed[0] != recorded[0]
    assert replayed[1].tm_year < recorded[1].tm_year
    assert replayed[5:] == recorded[5:] == (time.gmtime(0), "1970")


def test_a_loop_on_a_deadline_turns_as_often_as_recorded(stage):
    """A loop that polls the monotonic clock makes the same number of turns in a replay."""

    def agent():
        deadline, turns = time.monotonic() + 0.002, 0
        while time.monotonic() < deadline:
            turns += 1
        return turns

    recorded, replayed = stage.both(agent)
    assert recorded == replayed > 0


def test_a_read_that_was_not_recorded_stops_the_replay(stage):
    """One read more than recorded is a departure, and stays one whatever the code catches."""
    stage.record(time.time)

    def agent():
        time.time()
        try:
            time.time()
        except BaseException:
            pass
        return time.time()

    with pytest.raises(ReplayDeparture):
        stage.replay(agent)


def test_the_hooks_look_like_what_they_replace():
    """Names, documentation and pickling of the hooked functions are the originals'."""
    assert time.time.__name__ == "time"
    assert time.time.__doc__ == _real["time"].__doc__
    assert pickle.loads(pickle.dumps(time.time)) is time.time
    assert asyncio.iscoroutinefunction(asyncio.sleep)
    assert inspect.signature(asyncio.sleep).parameters.keys() == {"delay", "result"}


def test_uninstall_puts_everything_back():
    """After uninstall the originals are in their places, in modules and in types."""
    clock.uninstall()
    sleep.uninstall()
    assert {name: getattr(time, name) for name in _real} == _real
    assert datetime.__dict__["now"] is _real_now
    assert asyncio.sleep is asyncio.tasks.sleep is sleep._asyncio_sleep
    assert datetime.now().date() == date.today()


def test_installing_twice_is_installing_once():
    """A second install wraps nothing again."""
    hook, method = time.time, datetime.__dict__["now"]
    clock.install()
    sleep.install()
    assert time.time is hook
    assert datetime.__dict__["now"] is method


def test_the_event_loops_clock_is_never_recorded_nor_replayed(stage):
    """Scenarios 21 and 23: loop.time() runs on in a replay, and timeouts fire."""

    async def agent():
        loop = asyncio.get_running_loop()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 0.001)
        return loop.time()

    recorded, replayed = stage.both(lambda: asyncio.run(agent()))
    assert replayed > recorded
    assert stage.observer.reads == []


def test_asyncio_sleep_under_replay_does_not_hang(stage):
    """Scenario 21: a sleeping agent with a frozen clock replays at once, however long it slept."""

    async def agent():
        started = time.monotonic()
        value = await asyncio.sleep(0.05, "rested")
        await asyncio.gather(*(asyncio.sleep(0.05) for _ in range(3)))
        return value, time.monotonic() - started

    recorded = stage.record(lambda: asyncio.run(agent()))
    before = _real["monotonic"]()
    replayed = stage.replay(lambda: asyncio.run(agent()))
    assert recorded == replayed
    assert recorded[1] >= 0.1
    assert _real["monotonic"]() - before < 0.1
    assert [crossing.call.name for crossing, _ in stage.observer.crossings] == ["asyncio.sleep"] * 4


def test_time_sleep_waits_live_and_is_instant_in_a_replay(stage):
    """A wait is a crossing of kind sleep with its seconds; a replay does not wait."""

    def agent():
        time.sleep(0.05)
        return "done"

    before = _real["monotonic"]()
    stage.record(agent)
    assert _real["monotonic"]() - before >= 0.05
    (crossing, outcome), *_ = stage.observer.crossings
    assert (crossing.call.kind, crossing.call.name) == (Kind.SLEEP, "time.sleep")
    assert b"0.05" in crossing.call.request.data
    assert outcome.status is OutcomeStatus.OK
    before = _real["monotonic"]()
    assert stage.replay(agent) == "done"
    assert _real["monotonic"]() - before < 0.05


def test_a_wait_of_zero_is_a_yield_and_no_crossing(stage):
    """`sleep(0)` lets others run and is not recorded; a negative wait fails as before."""

    async def agent():
        await asyncio.sleep(0)
        time.sleep(0)
        with pytest.raises(ValueError):
            time.sleep(-1)
        with pytest.raises(TypeError):
            time.sleep("1")

    stage.both(lambda: asyncio.run(agent()))
    assert stage.observer.crossings == []


def test_a_cancelled_sleep_is_cancelled_again(stage):
    """A wait that was given up is held in the replay until it is given up again."""

    async def agent():
        task = asyncio.create_task(asyncio.sleep(60))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return task.cancelled()

    recorded = stage.record(lambda: asyncio.run(agent()))
    assert stage.observer.crossings[0][1].status is OutcomeStatus.CANCELLED
    assert stage.replay(lambda: asyncio.run(agent())) is recorded is True


def test_a_librarys_sleep_is_left_alone(stage, library):
    """Waits inside a client are the client's own."""
    lib = library("import asyncio, time\ndef wait(): time.sleep(0.001)\ndef later(): return asyncio.sleep(0.001)")

    async def agent():
        lib.wait()
        await lib.later()

    stage.record(lambda: asyncio.run(agent()))
    assert stage.observer.crossings == []


def test_a_clients_wait_between_tries_is_instant_in_a_replay(stage, library):
    """A model client that backs off does so when recorded; in a replay nobody waits for it."""
    client = library(
        "import asyncio, time\n"
        "def back_off(): time.sleep(0.05)\n"
        "async def later(): return await asyncio.sleep(0.05, 3)",
        "openai",
    )

    def agent():
        before = _real["monotonic"]()
        client.back_off()
        assert asyncio.run(client.later()) == 3
        return _real["monotonic"]() - before

    assert stage.record(agent) >= 0.1
    assert stage.replay(agent) < 0.05
    assert stage.observer.crossings == []


def test_an_interrupted_sleep_keeps_its_error(stage, monkeypatch):
    """A wait that a signal handler broke with an error breaks with the same error again."""

    def broken(_):
        raise ConnectionResetError(104, "gone")

    def agent():
        with pytest.raises(ConnectionResetError) as caught:
            time.sleep(1)
        return caught.value.args

    with monkeypatch.context() as patch:
        patch.setattr(sleep, "_time_sleep", broken)
        recorded = stage.record(agent)
    assert stage.replay(agent) == recorded == (104, "gone")


def test_sleeps_in_threads_replay(stage):
    """Waits made in a thread of the application are crossings too."""
    from otel_agent_replay.boundary import threads

    threads.install()
    try:

        def agent():
            thread = threading.Thread(target=lambda: time.sleep(0.01))
            thread.start()
            thread.join()

        stage.both(agent)
    finally:
        threads.uninstall()
    assert len(stage.observer.crossings) == 1


def test_what_is_covered_is_said():
    """Install reports what it covers and what it does not."""
    states = {entry.what: entry.state for entry in [*clock.install(), *sleep.install()]}
    assert states["time"] == states["datetime"] == states["sleep"] == "captured"
    assert states["clock.event_loop"] == states["clock.c_libraries"] == "not_captured"


def test_the_dt_itself_is_untouched():
    """The types stay the very same objects: isinstance and pickling are not affected."""
    assert dt.datetime is datetime
    assert type(datetime.now()) is datetime
    assert pickle.loads(pickle.dumps(datetime(2026, 1, 1))) == datetime(2026, 1, 1)


def test_reads_of_code_in_an_implicit_run_are_its_own(stage):
    """Where no agent is declared, what the application reads belongs to the run that its calls have opened."""
    session = stage.session(RECORD)
    session.open()
    set_call_context(implicit=lambda opens: None if opens else (session, session.root), suppressed=None)
    try:
        read = time.time()
    finally:
        set_call_context(implicit=None, suppressed=None)
        session.close()
    assert stage.observer.values == [read]
    assert time.time() >= read
    assert len(stage.observer.reads) == 1
