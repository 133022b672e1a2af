"""Draws of randomness are recorded without changing them, and come back."""

from __future__ import annotations

import os
import random
import secrets
import uuid
from dataclasses import dataclass, field
from random import choice as early_choice
from uuid import uuid4 as early_uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otel_agent_replay.boundary import clock, entropy, randomness
from otel_agent_replay.errors import ReplayDeparture
from otel_agent_replay.model import Kind

_original_random = random.random
_module_level = random.Random()


@pytest.fixture(autouse=True)
def installed():
    randomness.install()
    entropy.install()
    before = random.getstate()
    yield
    random.setstate(before)
    randomness.uninstall()
    entropy.uninstall()


_small = st.integers(1, 20)
_draws = st.one_of(
    st.tuples(st.just("random")),
    st.tuples(st.just("getrandbits"), st.integers(0, 200)),
    st.tuples(st.just("randbytes"), st.integers(0, 40)),
    st.tuples(st.just("randint"), st.just(-5), st.integers(0, 10**30)),
    st.tuples(st.just("randrange"), _small),
    st.tuples(st.just("uniform"), st.just(-1.0), st.floats(0, 9)),
    st.tuples(st.just("gauss"), st.just(0.0), st.just(2.0)),
    st.tuples(st.just("normalvariate"), st.just(0.0), st.just(2.0)),
    st.tuples(st.just("expovariate"), st.just(1.5)),
    st.tuples(st.just("betavariate"), st.just(2.0), st.just(3.0)),
    st.tuples(st.just("gammavariate"), st.just(0.4), st.just(1.0)),
    st.tuples(st.just("triangular"), st.just(0.0), st.just(1.0)),
    st.tuples(st.just("choice"), st.lists(st.text(max_size=3), min_size=1, max_size=9)),
    st.tuples(st.just("choices"), st.lists(st.integers(), min_size=1, max_size=9)),
    st.builds(lambda size: ("sample", list(range(30)), size), _small),
    st.tuples(st.just("shuffle"), st.lists(st.integers(), max_size=20)),
    st.tuples(st.just("seed"), st.one_of(st.integers(), st.text(max_size=4))),
)


def _perform(source, draws):
    results = []
    for name, *arguments in draws:
        given_copy = [list(argument) if isinstance(argument, list) else argument for argument in arguments]
        results.append((getattr(source, name)(*given_copy), given_copy))
    return results


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(), before=st.integers(0, 3), draws=st.lists(_draws, max_size=12))
def test_any_draws_replay_equal_and_recording_changes_none(stage, seed, before, draws):
    """Recorded draws are those of an unrecorded generator with the same seed, and a replay gives them again."""
    reference = random.Random(seed)
    random.seed(seed)
    for _ in range(before):  # an odd number of gauss draws leaves a second one over, from before the run
        reference.gauss(0.0, 1.0)
        random.gauss(0.0, 1.0)
    expected = _perform(reference, draws)
    recorded = stage.record(_perform, random, draws)
    state = random.getstate()
    assert recorded == expected
    assert state == reference.getstate()
    random.seed(seed + 1)
    assert stage.replay(_perform, random, draws) == expected


def test_a_choice_is_the_same_object_and_a_shuffle_is_in_place(stage):
    """Choices keep their identity, and a shuffle works on the list it is given."""
    things = [object() for _ in range(9)]

    def agent():
        order = list(things)
        random.shuffle(order)
        return random.choice(things), random.sample(things, 3), order

    recorded, replayed = stage.both(agent)
    assert recorded == replayed
    assert any(replayed[0] is thing for thing in things)


def test_a_seed_set_in_the_run_keeps_its_effect(stage):
    """After `random.seed(42)` a recorded run draws what anybody draws after it."""

    def agent():
        random.seed(42)
        return random.random(), random.randint(1, 6)

    reference = random.Random(42)
    assert stage.record(agent) == (reference.random(), reference.randint(1, 6))


def test_one_extra_draw_in_a_library_does_not_shift_the_users(stage, library):
    """Scenario 24: retry jitter drawn by a client from the shared generator leaves the application's draws alone."""
    client = library("import random\ndef call(tries):\n    return [random.random() for _ in range(tries)]")

    def agent(tries):
        first = random.random()
        client.call(tries)
        return first, random.random(), str(uuid.uuid4())

    recorded = stage.record(agent, 1)
    assert stage.replay(agent, 5) == recorded


def test_an_extra_draw_of_the_application_is_a_departure(stage):
    """One draw more than recorded stops the replay."""
    stage.record(random.random)
    with pytest.raises(ReplayDeparture):
        stage.replay(lambda: (random.random(), random.random()))


def test_a_draw_from_another_range_is_a_departure(stage):
    """A draw of other width is not served with a value from the old one."""
    stage.record(lambda: random.randrange(6))
    with pytest.raises(ReplayDeparture):
        stage.replay(lambda: random.randrange(100))


def test_methods_bound_earlier_are_caught(stage):
    """A function imported before the hooks came draws through them all the same."""
    recorded, replayed = stage.both(lambda: [early_choice(range(1000)) for _ in range(5)])
    assert recorded == replayed
    assert stage.observer.reads


def test_an_unseeded_generator_replays_from_its_entropy(stage):
    """`random.Random()` takes one recorded read, whatever is drawn from it later."""

    def agent():
        own = random.Random()
        return [own.random() for _ in range(50)], own.sample(range(1000), 5), own.gauss(0, 1)

    recorded, replayed = stage.both(agent)
    assert recorded == replayed
    assert stage.observer.names == ["random.Random"]


def test_a_seeded_generator_is_left_alone(stage):
    """A generator with a seed repeats by itself and is not recorded."""
    recorded, replayed = stage.both(lambda: [random.Random("abc").random(), random.Random(7).gauss(0, 1)])
    assert recorded == replayed == [random.Random("abc").random(), random.Random(7).gauss(0, 1)]
    assert stage.observer.reads == []


def test_a_generator_made_before_the_run_is_recorded_draw_by_draw(stage):
    """What a module-level generator draws in a run replays, wherever that generator has got to."""

    def agent():
        return [_module_level.random() for _ in range(3)], _module_level.randint(1, 10**6), _module_level.gauss(0, 1)

    recorded, replayed = stage.both(agent)
    assert recorded == replayed
    assert "random.Random.random" in stage.observer.names


def test_a_generator_seeded_in_one_run_is_recorded_in_the_next(stage):
    """A seed settles a generator only in the run that set it."""
    own = random.Random()
    stage.record(own.seed, 1)
    recorded, replayed = stage.both(own.random)
    assert recorded == replayed


def test_a_subclass_with_a_source_of_its_own_is_left_alone(stage):
    """A generator that overrides the primitives draws from what it says."""

    class Constant(random.Random):
        def random(self):
            return 0.25

        def getrandbits(self, k):
            return 1

    recorded, replayed = stage.both(lambda: (Constant().random(), Constant().choice("abc")))
    assert recorded == replayed
    assert recorded[0] == 0.25


def test_wrong_arguments_fail_as_before_and_draw_nothing(stage):
    """Errors of the original are the original's, recorded or replayed."""

    def agent():
        for bits in (-1, "x", None):
            with pytest.raises((ValueError, TypeError)):
                random.getrandbits(bits)
        with pytest.raises(IndexError):
            random.choice([])
        return random.getrandbits(0)

    assert stage.both(agent) == (0, 0)
    assert stage.observer.reads == []


def test_entropy_secrets_and_uuids_replay(stage):
    """Every door to the system's entropy gives the recorded values again."""

    def agent():
        system = random.SystemRandom()
        return (
            os.urandom(9),
            os.urandom(0),
            secrets.token_hex(4),
            secrets.token_bytes(),
            secrets.token_urlsafe(5),
            secrets.randbits(100),
            secrets.randbelow(1000),
            secrets.choice("abcdef"),
            system.random(),
            system.sample(range(99), 3),
            system.randbytes(3),
            uuid.uuid4(),
            uuid.uuid1(),
            uuid.uuid1(node=5, clock_seq=3),
            early_uuid4(),
        )

    recorded, replayed = stage.both(agent)
    assert recorded == replayed
    assert replayed[-1].version == 4
    assert replayed[-3].version == 1
    kinds = {read.name: read.kind for _, read in stage.observer.reads}
    assert kinds["uuid.uuid4"] is kinds["uuid.uuid1"] is Kind.UUID
    assert kinds["os.urandom(9)"] is Kind.RANDOM


def test_recorded_uuids_are_text(stage):
    """A uuid is stored as people read it."""
    recorded = stage.record(uuid.uuid4)
    assert stage.observer.values == [str(recorded)]


def test_framework_ids_and_times_replay_equal(stage, library):
    """Scenario 25: an agent framework's run ids and timestamps replay with no change by its user."""
    clock.install()
    try:
        framework = library(
            "from uuid import uuid4\n"
            "import datetime\n"
            "def start(): return str(uuid4()), datetime.datetime.now(datetime.timezone.utc)",
            "pydantic_ai",
        )
        recorded, replayed = stage.both(framework.start)
    finally:
        clock.uninstall()
    assert recorded == replayed


def test_default_factories_replay(stage):
    """A dataclass of the application that makes its own id makes the recorded one."""

    @dataclass
    class Event:
        id: uuid.UUID = field(default_factory=early_uuid4)
        weight: float = field(default_factory=random.random)

    recorded, replayed = stage.both(Event)
    assert recorded == replayed


def test_a_librarys_entropy_is_its_own(stage, library):
    """Connection ids and boundaries drawn by libraries are neither recorded nor replayed."""
    lib = library("import os, uuid, secrets\ndef ids(): return os.urandom(8), uuid.uuid4(), secrets.token_hex(8)")
    recorded, replayed = stage.both(lib.ids)
    assert recorded != replayed
    assert stage.observer.reads == []


def test_pickling_and_state_are_unaffected():
    """A generator pickles, copies and restores as it does without us."""
    import copy
    import pickle

    own = random.Random(5)
    own.gauss(0, 1)
    for other in (pickle.loads(pickle.dumps(own)), copy.deepcopy(own)):
        assert type(other) is random.Random
        assert other.getstate() == own.getstate()
    assert [own.gauss(0, 1), own.random()] == [other.gauss(0, 1), other.random()]


def test_uninstall_puts_everything_back():
    """After uninstall class and module are as they were."""
    randomness.uninstall()
    entropy.uninstall()
    assert random.random is _original_random
    assert not {"random", "getrandbits", "gauss_next"} & set(vars(random.Random))
    assert os.urandom is vars(random)["_urandom"] is entropy._urandom
    assert random.Random(1).gauss(0, 1) == random.Random(1).gauss(0, 1)


numpy = pytest.importorskip("numpy", reason="numpy is optional")


@pytest.fixture
def with_numpy():
    from otel_agent_replay.boundary import numpy_randomness

    entries = numpy_randomness.install()
    before = numpy.random.get_state()
    yield entries
    numpy.random.set_state(before)
    numpy_randomness.uninstall()


def _numpy_agent():
    shuffled = list(range(9))
    numpy.random.shuffle(shuffled)
    return (
        numpy.random.rand(2, 3).tolist(),
        numpy.random.randn(3).tolist(),
        numpy.random.randint(0, 1000, 5).tolist(),
        numpy.random.choice(["a", "b", "c"], 4).tolist(),
        numpy.random.sample(2).tolist(),
        shuffled,
        numpy.random.standard_normal(),
    )


def test_numpys_legacy_functions_replay_and_recording_changes_none(stage, with_numpy):
    """The shared generator's draws come back, in place ones too, and are those of an unrecorded run."""
    numpy.random.seed(3)
    expected = _numpy_agent()
    numpy.random.seed(3)
    recorded = stage.record(_numpy_agent)
    assert sum(value is not None for value in stage.observer.values) == 1, "the state is recorded once"
    numpy.random.seed(99)
    assert expected == recorded == stage.replay(_numpy_agent)


def test_a_librarys_numpy_draws_do_not_shift_the_users(stage, with_numpy, library):
    """Draws in between by a library, more or fewer of them, leave the application's alone."""
    lib = library("import numpy.random\ndef noise(n): return [numpy.random.rand() for _ in range(n)]")

    def agent(n):
        first = numpy.random.rand()
        lib.noise(n)
        return first, numpy.random.rand(), numpy.random.normal()

    recorded = stage.record(agent, 2)
    assert stage.replay(agent, 7) == recorded


def test_a_numpy_seed_set_in_the_run_keeps_its_effect(stage, with_numpy):
    """After `numpy.random.seed(42)` a recorded run draws what anybody draws after it."""

    def agent():
        before = numpy.random.rand()
        numpy.random.seed(42)
        return before, numpy.random.rand()

    recorded, replayed = stage.both(agent)
    assert recorded == replayed
    assert recorded[1] == numpy.random.RandomState(42).rand()


def test_unseeded_numpy_generators_replay_from_their_entropy(stage, with_numpy):
    """`default_rng()` and `RandomState()` without a seed take one recorded read each; seeded ones none."""

    def agent():
        modern, legacy = numpy.random.default_rng(), numpy.random.RandomState()
        return modern.random(3).tolist(), legacy.rand(3).tolist(), numpy.random.default_rng(1).integers(0, 99)

    recorded, replayed = stage.both(agent)
    assert recorded == replayed
    assert stage.observer.names == ["numpy.random.entropy(128)"] * 2


def test_numpy_is_put_back(with_numpy):
    """After uninstall numpy's functions are its own."""
    from otel_agent_replay.boundary import numpy_randomness

    numpy_randomness.uninstall()
    assert numpy.random.rand.__self__ is numpy.random.mtrand._rand
    assert {entry.what: entry.state for entry in with_numpy}["numpy.random"] == "captured"
