"""Threads and tasks carry the session, and nothing else does."""

from __future__ import annotations

import asyncio
import contextvars
import multiprocessing
import sys
import threading
import time
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures import TimeoutError as FuturesTimeoutError

import pytest

from otel_agent_replay.boundary import session as session_module
from otel_agent_replay.boundary import threads
from otel_agent_replay.boundary.crossing import strand_label


@pytest.fixture(autouse=True)
def installed():
    threads.install()
    yield
    threads.uninstall()


def _where():
    """The session that the running code belongs to, and its label."""
    here = session_module.active()
    return None if here is None else (here[0].run_id, strand_label())


def _in_thread(function):
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


def test_a_thread_of_the_application_carries_the_session(stage):
    """A thread started in a run belongs to the run, under a label of its own."""
    assert stage.record(_in_thread, _where) == (b"r" * 16, "1")


def test_a_subclass_with_its_own_run_carries_the_session(stage):
    """A thread class that overrides `run` is carried as well, and keeps its own `run` afterwards."""

    class Worker(threading.Thread):
        found = None

        def run(self):
            self.found = _where()

    worker = Worker()
    stage.record(lambda: (worker.start(), worker.join()))
    assert worker.found == (b"r" * 16, "1")
    assert "run" not in vars(worker)


def test_threads_are_labelled_in_the_order_of_their_start(stage):
    """Labels follow the order in which threads are started, whichever runs first."""

    def agent():
        gates = [threading.Event() for _ in range(3)]
        found = {}

        def work(number):
            gates[number].wait(10)
            found[number] = strand_label()

        workers = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for worker in workers:
            worker.start()
        for number in (2, 0, 1):
            gates[number].set()
            workers[number].join()
        return found

    assert stage.record(agent) == {0: "1", 1: "2", 2: "3"}


def test_threads_below_threads_are_labelled_below_them(stage):
    """A thread's own threads are numbered under its label."""
    assert stage.record(_in_thread, lambda: _in_thread(_where)) == (b"r" * 16, "1.1")


def test_a_thread_outside_a_run_carries_nothing():
    """Without a run a thread belongs to none."""
    assert _in_thread(_where) is None


def test_a_thread_started_by_an_installed_exporter_does_not_inherit_the_session(stage, library):
    """An exporter's worker that happens to start inside a run stays outside it."""
    exporter = library(
        "import threading\ndef export(target):\n    t = threading.Thread(target=target)\n    t.start()\n    t.join()\n"
    )
    found = []
    stage.record(exporter.export, lambda: found.append(_where()))
    assert found == [None]


def test_starting_a_thread_twice_fails_as_before(stage):
    """The error of a second start is the standard one, and leaves the thread as it was."""

    def agent():
        thread = threading.Thread(target=lambda: None)
        thread.start()
        thread.join()
        with pytest.raises(RuntimeError, match="can only be started once"):
            thread.start()
        return vars(thread)

    assert "run" not in stage.record(agent)


def test_pool_tasks_carry_the_session_and_workers_keep_nothing(stage):
    """A pool's worker belongs to the run while it runs the run's function, and to nobody after."""
    with ThreadPoolExecutor(1) as pool:
        assert stage.record(lambda: pool.submit(_where).result()) == (b"r" * 16, "1")
        stage.record(lambda: list(pool.map(lambda _: None, range(3))))
        assert pool.submit(_where).result() is None
        context = pool.submit(contextvars.copy_context).result()
    assert not [value for variable, value in context.items() if variable.name.startswith("agent_replay") and value]


def test_a_worker_that_starts_inside_a_run_is_free_after_it(stage):
    """The worker thread itself, started by the first submit, does not inherit the run."""
    pool = ThreadPoolExecutor(1)
    stage.record(lambda: pool.submit(lambda: None).result())
    assert pool.submit(_where).result() is None
    pool.shutdown()


def test_run_in_executor_and_to_thread_carry_the_session(stage):
    """Both asyncio ways to a thread belong to the run, labelled in the order they were asked for."""

    async def agent():
        loop = asyncio.get_running_loop()
        first = await loop.run_in_executor(None, _where)
        second = await asyncio.to_thread(_where)
        both = await asyncio.gather(asyncio.to_thread(_where), asyncio.to_thread(_where))
        return [found[1] for found in (first, second, *both)]

    assert stage.record(lambda: asyncio.run(agent())) == ["1.1", "1.2", "1.3", "1.4"]


def test_tasks_are_labelled_in_the_order_of_their_making(stage):
    """Concurrent tasks keep their labels whichever of them asks first."""

    async def agent():
        gates = [asyncio.Event() for _ in range(3)]

        async def work(number):
            await gates[number].wait()
            return strand_label()

        tasks = [asyncio.create_task(work(number)) for number in range(3)]
        for number in (2, 1, 0):
            gates[number].set()
            await asyncio.sleep(0)
        return await asyncio.gather(*tasks)

    assert stage.record(lambda: asyncio.run(agent())) == ["1.1", "1.2", "1.3"]


def test_tasks_that_a_library_makes_take_no_number(stage, library):
    """A client's inner tasks, which exist only when it really connects, do not shift the application's labels."""
    client = library(
        "import asyncio\n"
        "async def nothing(): pass\n"
        "async def connect(times):\n"
        "    for _ in range(times): await asyncio.create_task(nothing())\n"
    )

    async def agent(times):
        async def label():
            return strand_label()

        await client.connect(times)
        return await asyncio.create_task(label())

    assert stage.record(lambda: asyncio.run(agent(3))) == stage.record(lambda: asyncio.run(agent(0)))


def test_concurrent_runs_do_not_mix(stage):
    """Two runs in one process, each with a pool of its own, never see each other."""
    other = type(stage)()
    barrier = threading.Barrier(2, timeout=10)

    def agent():
        with ThreadPoolExecutor(2) as pool:
            barrier.wait()
            return [pool.submit(lambda: session_module.active()[0]).result() for _ in range(20)]

    results = []
    runners = [threading.Thread(target=lambda s=s: results.append(s.record(agent))) for s in (stage, other)]
    for runner in runners:
        runner.start()
    for runner in runners:
        runner.join()
    first, second = (set(found) for found in results)
    assert len(first) == len(second) == 1
    assert first != second


def test_a_process_pool_is_left_alone(stage):
    """Functions for a process pool go there as they are."""

    def agent():
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            return pool.submit(abs, -3).result()

    assert stage.record(agent) == 3


def test_uninstall_puts_everything_back():
    """After uninstall the originals are in their places."""
    threads.uninstall()
    assert threading.Thread.start is threads._start
    assert ThreadPoolExecutor.submit is threads._submit
    assert asyncio.BaseEventLoop.create_task is threads._create_task


def test_installing_twice_is_installing_once():
    """A second install changes nothing, and one uninstall undoes both."""
    before = threading.Thread.start
    threads.install()
    assert threading.Thread.start is before
    threads.uninstall()
    assert threading.Thread.start is threads._start


def test_clock_reads_in_threads_find_their_own_values(stage):
    """Scenario 12: reads made in a thread pool replay to the thread that made them."""
    from otel_agent_replay.boundary import clock

    clock.install()
    try:

        def agent():
            with ThreadPoolExecutor(3) as pool:
                return list(pool.map(lambda _: time.perf_counter_ns(), range(12)))

        recorded, replayed = stage.both(agent)
    finally:
        clock.uninstall()
    assert recorded == replayed


def test_tasks_and_futures_come_out_of_a_set_in_the_order_in_which_they_were_made(stage):
    """What a set of tasks, of a pool's futures or of `run_in_executor`'s gives first does not hang on addresses."""
    kept = []

    def elsewhere(make):
        kept.append(bytearray(97 * (len(kept) % 7)))  # so that addresses do not rise by themselves
        return make()

    async def agent():
        loop = asyncio.get_running_loop()

        async def nothing():
            return None

        for make in (
            lambda: asyncio.create_task(nothing()),
            lambda: pool.submit(int),
            lambda: loop.run_in_executor(pool, int),
        ):
            made = [elsewhere(make) for _ in range(40)]
            assert list(set(made)) == made
            assert len({*made, made[0]}) == 40
            await asyncio.wait([one if asyncio.isfuture(one) else asyncio.wrap_future(one) for one in made])

    with ThreadPoolExecutor(2) as pool:
        stage.record(lambda: asyncio.run(agent()))


def test_coroutines_given_to_as_completed_start_in_the_order_given(stage):
    """`asyncio.as_completed` makes its tasks in the order of its argument, and still takes each awaitable once."""
    started = []

    async def work(number):
        started.append((number, strand_label()))
        return number

    async def agent():
        coroutines = [work(number) for number in range(30)]
        results = [await nearest for nearest in asyncio.as_completed([*coroutines, coroutines[0]])]
        assert sorted(results) == list(range(30))
        for wrong in (work(0), asyncio.get_running_loop().create_future()):
            with pytest.raises(TypeError, match="expects? an iterable"):
                next(iter(asyncio.as_completed(wrong)))
            if asyncio.iscoroutine(wrong):
                wrong.close()

    stage.record(lambda: asyncio.run(agent()))
    assert started == [(number, f"1.{number + 1}") for number in range(30)]


def test_a_loop_with_a_task_factory_of_its_own_keeps_it(stage):
    """Tasks are made by the loop's own factory where it has one, and carry their label all the same."""
    made = []

    def factory(loop, coro, **options):
        made.append(coro)
        return asyncio.Task(coro, loop=loop, **options)

    async def agent():
        asyncio.get_running_loop().set_task_factory(factory)

        async def label():
            return strand_label()

        return await asyncio.create_task(label())

    assert stage.record(lambda: asyncio.run(agent())) == "1.1"
    assert made[0].__name__ == "label"


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with 3.12")
def test_eager_tasks_start_at_once_and_come_out_of_a_set_in_the_order_in_which_they_were_made(stage):
    """The eager factory of asyncio is kept: each task runs up to its first wait as it is made, under its own label."""
    started = []

    async def work(turns):
        started.append(strand_label())
        for _ in range(turns):
            await asyncio.sleep(0)

    async def agent():
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
        made = []
        for number in range(40):
            made.append(asyncio.create_task(work(number % 2), name=f"work {number}"))
            assert len(started) == len(made)
            assert made[-1].done() is (number % 2 == 0)
        assert list(set(made)) == made
        assert made[7].get_name() == "work 7"
        await asyncio.wait(made)

    stage.record(lambda: asyncio.run(agent()))
    assert started == [f"1.{number + 1}" for number in range(40)]


def test_futures_that_were_done_before_anybody_asked_come_in_the_order_in_which_they_were_done(stage):
    """`concurrent.futures.as_completed` gives what is done already first done first, what is not as it is done."""
    last = threading.Event()

    def agent():
        with ThreadPoolExecutor(1) as pool:
            futures = [pool.submit(int, str(number)) for number in range(20)]
            futures[-1].result()
            late = pool.submit(last.wait, 10)
            completed = as_completed([late, *reversed(futures), futures[0]])
            order = [next(completed) for _ in futures]
            last.set()
            assert list(completed) == [late]
            assert order == futures
            with pytest.raises(FuturesTimeoutError, match=r"1 \(of 1\) futures unfinished"):
                list(as_completed([pool.submit(time.sleep, 0.2)], timeout=0.001))

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(globals(), "as_completed", threads.futures_as_completed)
        stage.record(agent)


def test_a_task_that_is_done_first_is_seen_first(stage, monkeypatch):
    """A thread that is held up between its place in the run's order and its future's result holds the next one up."""
    ends, first_in = [], threading.Event()

    def slow_end(_session, _place, _name):
        ends.append(strand_label())
        if len(ends) == 1:
            first_in.set()
            time.sleep(0.05)  # what a busy machine does to a thread

    monkeypatch.setattr(session_module.Session, "mark", slow_end)
    seen = []

    def agent():
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(int)
            first.add_done_callback(lambda _: seen.append("1"))
            second = pool.submit(first_in.wait, 10)
            second.add_done_callback(lambda _: seen.append("2"))

    stage.record(agent)
    assert seen == ends == ["1", "2"]


def test_a_pool_with_futures_of_its_own_is_not_held_up(stage, monkeypatch):
    """Where a pool gives futures of another class, its tasks end as ever."""

    class Own(Future):
        pass

    monkeypatch.setattr("concurrent.futures.thread._base.Future", Own)

    def agent():
        with ThreadPoolExecutor(2) as pool:
            began = time.perf_counter()
            assert [future.result() for future in [pool.submit(int) for _ in range(8)]] == [0] * 8
            return time.perf_counter() - began

    assert stage.record(agent) < 0.9
