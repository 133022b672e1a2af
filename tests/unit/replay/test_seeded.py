"""Draws beyond the tape, taken by the real hooks: the right type, in range, and the same for the same seed."""

from __future__ import annotations

import os
import random
import secrets
import uuid
from contextlib import contextmanager

import pytest

from otel_agent_replay.boundary import entropy, numpy_randomness, randomness
from otel_agent_replay.boundary.crossing import Place
from otel_agent_replay.boundary.policy import COMPONENT, RECORD
from otel_agent_replay.boundary.session import Session
from otel_agent_replay.model import AnswerSource, Kind
from otel_agent_replay.replay.seeded import SeededReads
from tests.support.tape_session import MemoryObserver, redaction

NOON_NS = 1_764_590_400_000_000_000


@pytest.fixture(autouse=True)
def installed():
    hooks = (randomness, entropy, numpy_randomness)
    for hook in hooks:
        hook.install()
    before = random.getstate()
    yield
    random.setstate(before)
    for hook in hooks:
        hook.uninstall()


class Reads(MemoryObserver):
    def __init__(self):
        super().__init__()
        self.reads = []

    def read(self, place, read):
        self.reads.append(read)


@contextmanager
def session(seed=None, mode=COMPONENT):
    observer = Reads()
    answerers = {} if seed is None else {AnswerSource.SEEDED: SeededReads(seed, now_ns=lambda: NOON_NS)}
    one = Session(
        run_id=b"s" * 16,
        root=Place.root("agent"),
        mode=mode,
        observer=observer,
        redaction=redaction(),
        answerers=answerers,
    )
    one.open()
    try:
        with one.entered():
            yield observer
    finally:
        one.close()


def seeded(function, seed="s"):
    with session(seed):
        return function()


def many_draws():
    own = random.Random()
    shuffled = list(range(20))
    random.shuffle(shuffled)
    return [
        random.random(),
        [random.gauss(0, 1) for _ in range(3)],
        random.getrandbits(200),
        random.getrandbits(5),
        random.choice("abc"),
        shuffled,
        random.sample(range(100), 5),
        [own.random(), own.gauss(0, 1), own.randint(0, 10**30)],
        os.urandom(7),
        secrets.token_hex(8),
        secrets.randbelow(10),
        random.SystemRandom().random(),
        str(uuid.uuid4()),
        str(uuid.uuid1()),
    ]


def test_the_same_seed_draws_the_same():
    """Every door gives the same again from one seed, something else from another."""
    first = seeded(many_draws)
    assert seeded(many_draws) == first
    other = seeded(many_draws, "t")
    assert [a == b for a, b in zip(first, other, strict=True) if len(str(a)) > 3] == [False] * 11


def test_every_draw_has_the_type_and_range_that_the_real_one_has():
    """What the hooks hand to the application is what the real functions would give."""
    with session("s"):
        assert all(0 <= random.random() < 1 for _ in range(200))
        assert all(0 <= random.getrandbits(k) < 1 << k for k in range(1, 130))
        assert {random.getrandbits(2) for _ in range(100)} == {0, 1, 2, 3}
        assert [len(os.urandom(size)) for size in (1, 16, 4096)] == [1, 16, 4096]
        assert uuid.uuid4().version == 4
        assert len({random.random() for _ in range(100)}) == 100


def test_what_is_stored_is_what_a_recording_would_store():
    """The observer is told values of the same names and types as live draws give."""

    def told(**how):
        with session(**how) as observer:
            many_draws()
        return {(read.kind, read.name): type(read.value) for read in observer.reads}

    live, made = told(mode=RECORD), told(seed="s")
    shared = {name: kind for name, kind in live.items() if name in made}
    assert {name: made[name] for name in shared} == shared
    assert {name for _, name in live} >= {"random.random", "random.Random", "uuid.uuid4", "os.urandom(7)"}
    assert set(live) <= set(made) | {one for one in live if "getrandbits" in one[1]}


def test_a_draw_does_not_depend_on_the_order_of_threads():
    """Threads of control draw from streams of their own, whichever comes first."""

    def drawn(order):
        seeds, place = SeededReads("s"), Place.root("agent")
        return sorted((strand, seeds.read(Kind.RANDOM, "random.random", place, strand).value) for strand in order)

    assert drawn(["1", "2", "3", "1"]) == drawn(["3", "1", "1", "2"])
    assert len({value for _, value in drawn(["1", "2", "3", "1"])}) == 4


def test_identifiers_with_a_time_rise_and_hold_the_virtual_time():
    """A uuid1 is of version 1, later each time, and of the clock that was given."""
    ids = seeded(lambda: [uuid.uuid1() for _ in range(3)])
    assert [one.version for one in ids] == [1, 1, 1]
    assert [one.time for one in ids] == [ids[0].time + number for number in range(3)]
    assert (ids[0].time - 0x01B21DD213814000) * 100 == NOON_NS
    assert len({one.node for one in ids}) == 1
    for name, version in (("uuid.uuid6", 6), ("uuid.uuid7", 7)):
        seeds = SeededReads("s", now_ns=lambda: NOON_NS)
        made = [uuid.UUID(seeds.read(Kind.UUID, name, Place.root("agent"), "").value) for _ in range(3)]
        assert [one.version for one in made] == [version] * 3
        assert all(one.variant == uuid.RFC_4122 for one in made)
        assert len(set(made)) == 3
    assert int.from_bytes(made[0].bytes[:6], "big") == NOON_NS // 10**6
    assert made[0].bytes[:6] == made[2].bytes[:6]


def test_what_no_seed_makes_is_left_to_the_next_source():
    """Unknown names, other kinds, and timed identifiers without a clock."""
    seeds, place = SeededReads("s"), Place.root("agent")
    assert seeds.read(Kind.RANDOM, "torch.rand", place, "") is None
    assert seeds.read(Kind.CLOCK, "time.time", place, "") is None
    assert seeds.read(Kind.ENV, "os.environ[HOME]", place, "") is None
    assert seeds.read(Kind.UUID, "uuid.uuid1", place, "") is None


def test_numpy_draws_from_a_generator_of_its_own():
    """Legacy functions and unseeded generators repeat with the seed, and leave numpy's shared generator alone."""
    numpy = pytest.importorskip("numpy")
    numpy_randomness.uninstall()
    numpy_randomness.install()

    def draw():
        return [
            numpy.random.rand(3).tolist(),
            numpy.random.normal(size=5).tolist(),
            numpy.random.randint(0, 9, 4).tolist(),
            numpy.random.default_rng().random(2).tolist(),
        ]

    before = numpy.random.get_state()[1].tolist()
    first = seeded(draw)
    assert seeded(draw) == first
    assert seeded(draw, "t") != first
    assert first[0] != first[1][:3]
    assert numpy.random.get_state()[1].tolist() == before
