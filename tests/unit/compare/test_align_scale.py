"""Comparing grows with the runs, not with their square: work and memory at a small size, never seconds."""

import tracemalloc
from collections import Counter

from otel_agent_replay.compare import compare
from otel_agent_replay.compare.timeline import Timeline
from otel_agent_replay.compare.tree_alignment import Rule
from otel_agent_replay.testing.builders import run

KILOBYTES_A_SPAN = 12


def looped(count, *, seed=1, altered=()):
    builder = run("loop", seed=seed)
    for number in range(count):
        builder.tool("poll", {"n": "other" if number in altered else number % 7}, {"state": number % 3})
    return builder.build(output="done")


def peak_of(count):
    a, b = looped(count), looped(count, seed=2, altered={count // 2})
    tracemalloc.start()
    try:
        compare(a, b)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_grows_with_the_spans():
    """Four times the spans take about four times the memory, a few kilobytes a span."""
    small, large = peak_of(500), peak_of(2000)
    assert large < 6 * small
    assert large / 4000 < KILOBYTES_A_SPAN * 1024


def looks_at_times(count, monkeypatch):
    """Compare siblings that ran side by side, every two neighbours swapped; return how often a time was looked at."""

    def swapped(numbers, seed):
        builder = run("agent", seed=seed)
        builder.together(lambda same: [same.tool(f"tool_{n}", n, n) for n in numbers])
        return builder.build()

    looks = Counter()
    for name in ("begin", "end"):
        asked = getattr(Timeline, name)
        monkeypatch.setattr(Timeline, name, lambda self, index, asked=asked: looks.update("x") or asked(self, index))
    pairs = [(n + 1, n) for n in range(0, count, 2)]
    comparison = compare(swapped(range(count), 1), swapped([n for pair in pairs for n in pair], 2))
    assert len(comparison.reordered) == count // 2
    return looks["x"]


def test_swapped_siblings_are_not_held_against_each_other(monkeypatch):
    """Four times the siblings that changed places are about four times the work, not sixteen times."""
    small = looks_at_times(50, monkeypatch)
    assert looks_at_times(200, monkeypatch) < 6 * small


def test_long_lists_of_strangers_stay_within_the_budget(monkeypatch):
    """Where two lists of unlike scopes are too long to look into, that is not done, and a notice says so."""
    from otel_agent_replay.compare import tree_alignment

    def strangers(word, seed):
        builder = run("agent", seed=seed)
        for number in range(60):
            builder.step(f"{word} {chr(97 + number % 26)}", lambda inner, n=number: inner.tool(f"{word}_{n}", n, n))
        return builder.build()

    a, b = strangers("left", 1), strangers("right", 2)
    assert "budget" not in [notice.code for notice in compare(a, b).notices]
    monkeypatch.setattr(tree_alignment, "SPLICE_BUDGET", 500)
    assert "budget" in [notice.code for notice in compare(a, b).notices]


def test_a_deep_chain_needs_no_recursion():
    """A chain far deeper than Python's stack is compared, and its last step is the only change."""
    depth = 1500

    def chain(answer, seed):
        builder = run("deep", seed=seed)
        inside = []

        def below(inner):
            inside.append(inner)

        builder.step("level", below)
        for _ in range(depth):
            inside[-1].step("level", below)
        inside[-1].tool("search", {"q": 1}, answer)
        return builder.build()

    comparison = compare(chain("one", 1), chain("two", 2))
    assert len(comparison.changes) == 1
    assert comparison.changes[0].a.name == "search"
    assert all(pair.rule is not Rule.MOVED for pair in comparison.alignment.pairs)
