"""JSON reports of other commands -> the sections of a brief. Reports come from anywhere: nothing in them is trusted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.report import amounts
from otel_agent_replay.report.brief import Quote, Section, number_word, quoted, run_word

_PLACES = 8  # differing places that are quoted
_LISTED = 10


def sections_of(report: Any) -> tuple[str, list[Section]]:
    """Return what a report is, in our words, and its sections, the most important first.

    Raises ConfigurationError for JSON that is none of the reports known here.
    """
    if isinstance(report, Mapping):
        schema = report.get("schema")
        if schema is None and {"status", "run_id", "exit_code"} <= report.keys():
            return "a replay", list(_replay(report))
        if isinstance(schema, str) and schema in _KNOWN:
            what, build = _KNOWN[schema]
            return what, list(build(report))
    raise ConfigurationError(
        "this JSON is no report that a brief can be made of: it takes what `diff`, `replay`, `gate`, `steps`, "
        "`rerun` and `verify --replay` print with --json"
    )


def comparison_sections(report: Mapping[str, Any]) -> Iterator[Section]:
    """Yield the sections of a comparison."""
    a, b = (run_word(_map(report.get(side)).get("run_id")) for side in "ab")
    yield Section(
        "Verdict",
        [f"Run B ({b}) was compared with run A ({a})."],
        [quoted("Verdict", report.get("verdict")), quoted("In a sentence", report.get("sentence", ""))],
    )
    departure = _map(report.get("departure"))
    notices = [quoted("Said before any claim", _map(item).get("text")) for item in _list(report.get("notices"))]
    if departure:
        at = _map(departure.get("at"))
        evidence = "\n".join(map(str, _list(departure.get("evidence"))))
        follow = len(_list(departure.get("consequences")))
        changes = len(_list(report.get("changes")))
        yield Section(
            "Departure and cause",
            [
                f"B leaves A at step {number_word(at.get('step'))}.",
                f"{changes} changes in all; {follow} later ones were looked at as its consequences.",
            ],
            [
                quoted("Where", f"{at.get('kind')} {at.get('name')}\n{'/'.join(map(str, _list(at.get('path'))))}"),
                quoted("Cause", departure.get("cause")),
                quoted("Evidence", evidence),
            ],
        )
        values = [*_values(_map(departure.get("change"))), *_values(_map(departure.get("instead")))]
        if values:
            yield Section("The two values", quotes=values)
        way = _way_of_the_end(report)
        if way:
            yield Section("Why the final answer differs", quotes=[Quote("Step by step", "\n".join(way))])
    if notices:
        yield Section("What the recordings lack", quotes=notices)
    questions = [
        f"{_map(item).get('asked')}: {_map(item).get('reply')} {_map(item).get('detail') or ''}".rstrip()
        for item in _list(report.get("questions"))
    ]
    step = number_word(_map(departure.get("at")).get("step"))
    yield Section(
        "Reproduce",
        commands=[
            f"agent-replay diff {a} {b}",
            *(f"agent-replay show {run} --step {step}" for run in (a, b) if step != "?"),
            f"agent-replay replay {a} --entry PKG.MOD:FUNC",
        ],
    )
    if questions:
        yield Section("Six questions", quotes=[Quote("Answers", "\n".join(questions))])


def _way_of_the_end(report: Mapping[str, Any]) -> list[str]:
    """Return the way back from the runs' own results, [] where they do not differ or are where the runs part."""
    changes = _list(report.get("changes"))
    if _map(report.get("departure")).get("comparable") is False:
        return []
    for walk in map(_map, _list(report.get("walks"))):
        number = walk.get("change_number")
        change = _map(changes[number]) if isinstance(number, int) and 0 < number < len(changes) else {}
        if _map(change.get("a")).get("index") == 0:
            return [str(sentence) for sentence in _list(walk.get("sentences"))]
    return []


def _values(change: Mapping[str, Any]) -> Iterator[Quote]:
    count = 0
    for field in _list(change.get("fields")):
        for place in _list(_map(field).get("differences")):
            if count == _PLACES:
                return
            count += 1
            found = _map(place)
            yield quoted(f"Place {count}", f"{_map(field).get('field')} {found.get('path') or ''}".rstrip())
            yield quoted(f"Place {count}, in A", found.get("before", "(nothing)"))
            yield quoted(f"Place {count}, in B", found.get("after", "(nothing)"))


def departure_sections(departure: Mapping[str, Any]) -> Iterator[Section]:
    """Yield where a replay left its tape."""
    quotes = [
        quoted("Where", "/".join(map(str, _list(departure.get("path"))))),
        quoted("Expected", departure.get("expected")),
        quoted("Came", departure.get("came")),
    ]
    if departure.get("location"):
        quotes.append(quoted("Asked by the code at", departure["location"]))
    yield Section("Departure", [f"The replay leaves its tape at step {number_word(departure.get('step'))}."], quotes)
    differing = [quoted("Differs (recorded -> came)", one) for one in _list(departure.get("differences"))[:_PLACES]]
    if differing:
        yield Section("The two values", quotes=differing)
    nearest = [_map(one) for one in _list(departure.get("candidates"))[:3]]
    if nearest:
        told = "\n".join(f"step {one.get('step')}: {'; '.join(map(str, _list(one.get('reasons'))))}" for one in nearest)
        yield Section("Nearest recorded steps", quotes=[Quote("Nearest", told)])


def _replay(report: Mapping[str, Any]) -> Iterator[Section]:
    run = run_word(report.get("run_id"))
    done, of = number_word(report.get("steps_replayed")), number_word(report.get("steps_recorded"))
    quotes = [quoted("Verdict", report.get("status")), quoted("Agent", report.get("agent", ""))]
    if report.get("reason"):
        quotes.append(quoted("Reason", report["reason"]))
    yield Section(
        "Verdict",
        [f"Run {run} was replayed: {done} of {of} steps were answered from the recording."],
        quotes,
    )
    if _map(report.get("departure")):
        yield from departure_sections(_map(report.get("departure")))
    for key, label in (("output_differences", "Output differs"), ("losses", "The recording lost")):
        if _list(report.get(key)):
            yield Section(label, quotes=[Quote(label, "\n".join(map(str, _list(report.get(key))[:_LISTED])))])
    yield Section(
        "Reproduce",
        commands=[f"agent-replay replay {run} --entry PKG.MOD:FUNC", f"agent-replay show {run}"],
    )


def _replayability(report: Mapping[str, Any]) -> Iterator[Section]:
    run = run_word(report.get("run"))
    tried = len(_list(report.get("replays")))
    yield Section(
        "Verdict",
        [f"Run {run} was replayed {tried} times with other hash seeds and scheduling."],
        [quoted("Verdict", report.get("verdict")), quoted("Reason", report.get("reason"))],
    )
    if _map(report.get("departure")):
        yield from departure_sections(_map(report.get("departure")))
    yield Section("Reproduce", commands=[f"agent-replay verify {run} --replay --entry PKG.MOD:FUNC"])


def _gate(report: Mapping[str, Any]) -> Iterator[Section]:
    cases = [_map(one) for one in _list(report.get("cases"))]
    failing = [one for one in cases if one.get("standing") != "passed"]
    yield Section(
        "Verdict",
        [f"{len(failing)} of {amounts.counted(len(cases), 'case')} do not pass."],
        [quoted("Standing", report.get("standing")), quoted("In a sentence", report.get("sentence", ""))],
    )
    for number, case in enumerate(failing[:_LISTED], start=1):
        quotes = [
            quoted("Case", case.get("case")),
            quoted("Standing", f"{case.get('standing')}: {case.get('told')} {case.get('detail') or ''}".rstrip()),
        ]
        trials = [_map(one) for one in _list(case.get("trials"))]
        invariants = [_map(one) for trial in trials for one in _list(trial.get("invariants"))]
        quotes += [
            quoted("Invariant", {key: one.get(key) for key in ("name", "state", "evidence")})
            for one in invariants
            if one.get("evidence")
        ]
        yield Section(f"Failing case {number}", quotes=quotes)
        compared = next((_map(one.get("comparison")) for one in trials if one.get("comparison")), None)
        if compared:
            yield from (
                Section(f"Case {number}: {one.title}", one.said, one.quotes) for one in comparison_sections(compared)
            )
    if len(failing) > _LISTED:
        yield Section("More", [f"{len(failing) - _LISTED} further cases do not pass; the report lists them."])
    yield Section(
        "Reproduce", commands=["agent-replay gate CASES --entry PKG.MOD:FUNC", "agent-replay case check CASE"]
    )


def _steps(report: Mapping[str, Any]) -> Iterator[Section]:
    found = _list(report.get("disagreements"))
    yield Section(
        "Verdict",
        [f"{number_word(report.get('steps'))} model steps were asked again; {len(found)} disagreements are listed."],
        [quoted("Lanes", report.get("lanes"))],
    )
    yield Section(
        "Disagreements", quotes=[quoted(f"Disagreement {n}", one) for n, one in enumerate(found[:_LISTED], start=1)]
    )
    shown = [_map(one) for one in found[:3]]
    yield Section(
        "Reproduce",
        commands=[
            f"agent-replay show {run_word(one.get('run') or one.get('run_id'))} --step {number_word(one.get('step'))}"
            for one in shown
        ]
        or ["agent-replay steps --help"],
    )


def _rerun(report: Mapping[str, Any]) -> Iterator[Section]:
    every = [_map(one) for one in _list(report.get("results"))]
    results = [one for one in every if one.get("lane") != "observed"]  # those are the runs on record
    reports = [(one, _map(one.get("report")) or one) for one in results]
    bad = [pair for pair in reports if pair[1].get("status") != "finished"]
    parted = [pair for pair in reports if pair not in bad and _map(pair[0].get("parted"))]
    counted = f"{len(bad)} of {amounts.counted(len(results), 're-run')} did not finish; {len(parted)} finished"
    told_first = f"{counted} and did something else than on record."
    yield Section("Verdict", [told_first], [quoted("Lanes", report.get("lanes"))])
    for number, (result, told) in enumerate([*bad, *parted][:_LISTED], start=1):
        run, again = run_word(told.get("origin_run_id") or result.get("run")), run_word(told.get("run_id"))
        keys = ("status", "code", "step", "reason", "refused", "drifted", "pool_misses")
        parting = _map(result.get("parted"))
        quotes = [
            quoted("Lane", result.get("lane")),
            quoted("How it ended", {key: told.get(key) for key in keys if told.get(key)}),
        ]
        if parting:
            quotes += [quoted("On record", parting.get("observed")), quoted("Now", parting.get("came"))]
        where = number_word(parting.get("observed_step")) if parting else "?"
        step = f" --step {where}" if where != "?" else ""
        commands = [f"agent-replay show {run}{step}"]
        if again not in ("RUN", run):
            commands.append(f"agent-replay diff {run} {again} --lake-b RERUNS")
        yield Section(f"Re-run {number}", [f"Of run {run}."], quotes, commands)
    if len(bad) + len(parted) > _LISTED:
        yield Section("More", [f"{len(bad) + len(parted) - _LISTED} further re-runs; the report lists them."])


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else ()


_KNOWN = {
    "agent-replay/comparison": ("a comparison of two runs", comparison_sections),
    "agent-replay/replayability": ("an attempt to prove a run replayable", _replayability),
    "agent-replay/gate": ("a gate", _gate),
    "agent-replay/steps": ("a screening of model steps", _steps),
    "agent-replay/rerun": ("re-runs", _rerun),
}
