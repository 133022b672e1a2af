"""Volatile paths blank exactly the values that they name."""

import pytest

from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.replay.matching import Volatile

VALUE = {
    "id": 1,
    "messages": [{"at": 2, "text": "a"}, {"at": 3, "parts": [{"at": 4}]}],
    "meta": {"at": 5, "b": {"c": 6}},
}


def _blanked(*paths):
    import copy

    value = copy.deepcopy(VALUE)
    Volatile(paths).blank(value)
    return value


@pytest.mark.parametrize(
    ("path", "gone"),
    [
        ("id", ["id"]),
        ("messages[*].at", ["messages.0.at", "messages.1.at"]),
        ("messages[1].at", ["messages.1.at"]),
        ("**.at", ["messages.0.at", "messages.1.at", "messages.1.parts.0.at", "meta.at"]),
        ("meta.**.c", ["meta.b.c"]),
        ("meta.*", ["meta.at", "meta.b"]),
        ("nothing.there", []),
        ("messages.at", []),
    ],
)
def test_path_blanks_what_it_names(path, gone):
    """Every value under the path becomes null; everything else stays."""

    def walk(value, at=""):
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, item in items:
            where = f"{at}.{key}".lstrip(".")
            if item is None:
                yield where
            yield from walk(item, where)

    assert sorted(walk(_blanked(path))) == sorted(gone)


@pytest.mark.parametrize("path", ["", "a[", "a[x]", "[]"])
def test_path_that_cannot_be_read_is_an_error(path):
    """A wrong path is refused and named, never silently ignored."""
    with pytest.raises(ConfigurationError, match="volatile path"):
        Volatile([path])
