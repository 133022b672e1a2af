"""What the tests of going on share: a stage for agents that are killed, and the world that they act on."""

import pytest

from tests.support.resume_world import Stage, Theatre, World


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    stage = Stage(tmp_path_factory.mktemp("stage"))
    yield stage
    stage.close()


@pytest.fixture
def world():
    with World() as world:
        yield world


@pytest.fixture
def theatre(stage, world, tmp_path):
    return Theatre(stage, world, tmp_path)
