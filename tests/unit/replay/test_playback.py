"""Playback serves a run from its tape, and stops it where it leaves the tape."""

import asyncio
import json
from dataclasses import replace

import pytest

from otel_agent_replay.boundary.crossing import Place
from otel_agent_replay.boundary.session import active
from otel_agent_replay.errors import ReplayDeparture, TapeEnded, TapeUnreadable
from otel_agent_replay.model import (
    Call,
    HttpRequestHead,
    Kind,
    MediaType,
    Outcome,
    OutcomeStatus,
    Payload,
    Read,
    RecordedRun,
    RecordedSpan,
    SideEffect,
)
from otel_agent_replay.replay.playback import Playback
from otel_agent_replay.replay.tape import Tape
from tests.taped_runs import Replayed, record, tool, tool_async


def ask(messages):
    return f"answer to {messages[-1]['content']}"


ask = tool("ask", ask, "messages")
look_up = tool("look_up", lambda key: {"key": key}, "key")


def _messages(*texts):
    return [{"role": "user", "content": text} for text in texts]


def _departure(recording, agent):
    with pytest.raises(ReplayDeparture) as raised:
        Replayed(recording, agent)
    return raised.value


def _edited(recording, change):
    """The recording with each node passed through `change`."""
    spans = [RecordedSpan(item.span, change(item.node)) for item in recording.spans]
    return RecordedRun(recording.run, spans, recording.payload)


def test_unchanged_agent_gets_its_recorded_answers():
    """The same calls get the same answers, each marked with the recorded step it came from."""
    agent = lambda: [ask(_messages("a")), look_up("k"), ask(_messages("a", "b"))]
    expected, recording = record(agent)
    replayed = Replayed(recording, agent)
    assert replayed.result == expected
    assert replayed.tape.taken == 3
    assert [entry.node.step for entry in replayed.tape.entries] == [1, 2, 3]
    assert list(replayed.tape.left()) == []


def test_identical_calls_go_by_who_makes_them():
    """Of two tasks that ask the same, each gets what it got before, also when the other asks first this time."""
    answers = iter(("first", "second"))

    async def answer(_question):
        return next(answers)

    ask_same = tool_async("ask_same", answer, "question")

    def agent(order):
        async def work(name, turn):
            look_up(name)
            await turn.wait()
            return await ask_same("the same")

        async def run():
            turns = {name: asyncio.Event() for name in "ab"}
            tasks = [asyncio.create_task(work(name, turn)) for name, turn in turns.items()]
            await asyncio.sleep(0)
            for name in order:
                turns[name].set()
                await asyncio.sleep(0)
            return await asyncio.gather(*tasks)

        return run()

    expected, recording = record(lambda: agent("ab"))
    assert expected == ["first", "second"]
    replayed = Replayed(recording, lambda: agent("ba"))
    assert replayed.result == expected
    assert replayed.playback.order.not_imposed_on(replayed.tape) == ()


def test_one_changed_word_departs_with_its_place():
    """A one-word prompt change stops the replay and names the step and the JSON path."""
    _, recording = record(lambda: [look_up("k"), ask(_messages("one", "two", "three", "refund order 7"))])
    departure = _departure(recording, lambda: [look_up("k"), ask(_messages("one", "two", "three", "refund order 8"))])
    assert departure.step == 2
    assert str(departure).startswith("request differs at step 2: messages[3].content")
    assert "'refund order 7' -> 'refund order 8'" in departure.differences[0]


def test_key_order_is_no_departure():
    """A request whose JSON keys come in another order is the recorded one, and counted as canonically equal."""
    _, recording = record(lambda: ask([{"role": "user", "content": "x"}]))
    replayed = Replayed(recording, lambda: ask([{"content": "x", "role": "user"}]))
    assert replayed.result == "answer to x"
    assert replayed.playback.canonical_matches == [1]


def test_volatile_path_may_differ_and_nothing_else():
    """A value under a declared volatile path is not compared; its neighbours are."""
    send = tool("send", lambda body: "sent", "body")
    _, recording = record(lambda: send({"id": "r-1", "items": [{"at": 1, "text": "x"}]}))
    same = lambda: send({"id": "r-2", "items": [{"at": 2, "text": "x"}]})
    assert Replayed(recording, same, volatile=["body.id", "**.at"]).result == "sent"
    assert _departure(recording, same).differences == ("body.id: 'r-1' -> 'r-2'", "body.items[0].at: 1 -> 2")
    with pytest.raises(ReplayDeparture):
        Replayed(
            recording, lambda: send({"id": "r-2", "items": [{"at": 2, "text": "y"}]}), volatile=["body.id", "**.at"]
        )


def test_call_that_was_never_recorded_names_the_nearest():
    """A new call is a departure that says what was expected there and which recorded steps come near."""
    _, recording = record(lambda: [look_up("k"), look_up("l")])
    other = tool("delete", lambda key: None, "key")
    departure = _departure(recording, lambda: [look_up("k"), other("l")])
    assert departure.step == 2
    assert departure.expected == 'tool look_up({"key":"l"})'
    assert departure.came == 'tool delete({"key":"l"})'
    assert departure.candidates[0].step == 2
    assert "tool 'look_up', not 'delete'" in departure.candidates[0].reasons


def test_call_recorded_elsewhere_says_where():
    """A request that another part of the run made is named with its step and parent."""

    def in_scope(name, key):
        session, place = active()
        with session.scope(place.child(Kind.SCOPE, name), {}):
            return look_up(key)

    _, recording = record(lambda: [in_scope("plan", "a"), in_scope("act", "b")])
    departure = _departure(recording, lambda: [in_scope("plan", "b")])
    reasons = [reason for candidate in departure.candidates for reason in candidate.reasons]
    assert "this is recorded as step 2, under another parent (run:agent#0/scope:act#0)" in reasons


def test_repeated_call_says_that_it_was_already_served():
    """One call more than recorded departs and says which step held the answer."""
    _, recording = record(lambda: look_up("a"))
    departure = _departure(recording, lambda: [look_up("a"), look_up("a")])
    assert departure.step is None
    assert departure.expected == "nothing more: all 1 recorded steps were asked for"
    assert "already asked for" in departure.candidates[0].reasons[0]


def test_identical_calls_get_first_second_third():
    """Identical calls in a row are answered in the order of their recording."""
    answers = iter("abc")
    draw = tool("draw", lambda: next(answers))
    agent = lambda: [draw(), draw(), draw()]
    expected, recording = record(agent)
    assert expected == ["a", "b", "c"]
    assert Replayed(recording, agent).result == expected


def test_departure_is_sticky_though_the_agent_swallows_it():
    """After a departure every later call gets it again, whatever the code catches."""
    _, recording = record(lambda: [look_up("a"), look_up("b")])
    seen = []

    def stubborn():
        for key in ("x", "a", "b"):
            try:
                look_up(key)
            except BaseException as error:
                seen.append(error)
        return "fine"

    replayed = Replayed(recording, stubborn)
    assert len(seen) == 3
    assert seen[0] is seen[1] is seen[2]
    assert replayed.playback.interrupt is seen[0]
    assert isinstance(seen[0], ReplayDeparture)


def test_calls_below_an_answered_call_are_not_missed():
    """What a tool's own code crossed is not asked for again, and is not reported as missing."""
    inner = tool("inner", lambda: "deep")
    outer = tool("outer", lambda: inner() + "er")
    expected, recording = record(outer)
    assert len(recording.nodes) == 3
    replayed = Replayed(recording, outer)
    assert replayed.result == expected == "deeper"
    assert list(replayed.tape.left()) == []
    assert replayed.tape.steps == 1


def test_recorded_failure_is_raised_as_its_own_class():
    """A tool that raised raises again: same class, same arguments, no code run."""
    runs = []

    def fail():
        runs.append(1)
        raise KeyError("gone", 7)

    failing = tool("failing", fail)

    def agent():
        try:
            failing()
        except KeyError as error:
            return [type(error).__name__, list(error.args)]

    expected, recording = record(agent)
    assert Replayed(recording, agent).result == expected == ["KeyError", ["gone", 7]]
    assert runs == [1]


def test_call_in_which_the_process_died_ends_the_tape():
    """A pending outcome stops the replay as the end of the tape, not as a departure."""
    agent = lambda: [look_up("a"), look_up("b")]
    _, recording = record(agent)
    died = _edited(
        recording,
        lambda node: replace(node, outcome=Outcome(OutcomeStatus.PENDING), end_sequence=0) if node.step == 2 else node,
    )
    with pytest.raises(TapeEnded) as raised:
        Replayed(died, agent)
    assert raised.value.step == 2


def test_missing_answer_cannot_be_judged():
    """A result whose bytes are gone stops the replay, and says which step and digest."""
    _, recording = record(lambda: look_up("a"))
    gone = RecordedRun(recording.run, recording.spans, lambda digest: None)
    with pytest.raises(TapeUnreadable, match="result of step 1"):
        Replayed(gone, lambda: look_up("a"))


def test_altered_answer_cannot_be_judged():
    """A result whose bytes do not fit their digest is not served."""
    _, recording = record(lambda: look_up("a"))
    altered = RecordedRun(recording.run, recording.spans, lambda digest: b'{"key":"z"}')
    with pytest.raises(TapeUnreadable, match="was altered"):
        Replayed(altered, lambda: look_up("a"))


def test_concurrent_scopes_may_be_numbered_differently():
    """The same call in the same scope is found though the scopes of that name began in another order."""

    def in_scope(key):
        session, place = active()
        with session.scope(place.child(Kind.SCOPE, "work"), {}):
            return look_up(key)

    _, recording = record(lambda: [in_scope("a"), in_scope("b")])
    assert Replayed(recording, lambda: [in_scope("b"), in_scope("a")]).result == [{"key": "b"}, {"key": "a"}]


def _http_call(body, media_type, url="https://api.example/v1/upload"):
    head = HttpRequestHead("POST", url, (("Accept", "application/json"),))
    return Call(Kind.HTTP, "POST api.example", SideEffect.WRITE, Payload.of(body, media_type), head)


def _http_tape(call):
    from otel_agent_replay.model import Node, Run, Span

    root = Place.root("agent")
    place = root.child(Kind.HTTP, call.name)
    outcome = Outcome(OutcomeStatus.OK, Payload.of(b"{}", "application/json"))
    nodes = [
        Node(b"r" * 16, Kind.RUN, "agent", root.path, root.sequence),
        Node(b"r" * 16, Kind.HTTP, call.name, place.path, place.sequence, 3, place.step, call=call, outcome=outcome),
    ]
    spans = [RecordedSpan(Span(b"t" * 16, b"s" * 8, node.name, 1, 2), node) for node in nodes]
    return Playback(Tape(RecordedRun(Run(b"r" * 16, b"t" * 16, b"s" * 8, "agent", 1), spans, lambda digest: None)))


def test_multipart_boundary_is_no_difference():
    """A random multipart boundary does not depart; a changed part does."""
    body = b"--%s\r\nContent-Disposition: form-data; name=f\r\n\r\n%s\r\n--%s--"
    recorded = _http_call(body % (b"aaa", b"1", b"aaa"), "multipart/form-data; boundary=aaa")
    same = _http_call(body % (b"bbb", b"1", b"bbb"), "multipart/form-data; boundary=bbb")
    changed = _http_call(body % (b"bbb", b"2", b"bbb"), "multipart/form-data; boundary=bbb")
    place = lambda: Place.root("agent").child(Kind.HTTP, recorded.name)
    assert _http_tape(recorded).answer(same, place()) is not None
    assert _http_tape(recorded).answer(changed, place()) is None


def test_changed_url_departs_by_name():
    """A changed URL is a difference of the head."""
    recorded = _http_call(b"{}", "application/json")
    came = _http_call(b"{}", "application/json", url="https://api.example/v2/upload")
    playback = _http_tape(recorded)
    place = Place.root("agent").child(Kind.HTTP, recorded.name)
    assert playback.answer(came, place) is None
    departure = playback.departed(came, place, None)
    assert departure.differences == ("url: 'https://api.example/v1/upload' -> 'https://api.example/v2/upload'",)


def _reading_tape(*reads):
    _, recording = record(lambda: look_up("a"))
    return Playback(
        Tape(_edited(recording, lambda node: replace(node, reads=reads) if node.kind is Kind.RUN else node))
    )


def _read(playback, name, strand="", kind=Kind.CLOCK):
    read = playback.read(kind, name, Place.root("agent"), strand)
    return None if read is None else read.value


def test_reads_come_in_order_within_strand_and_name():
    """Each strand gets its own recorded reads of a name, in order, whatever others read in between."""
    playback = _reading_tape(
        Read(Kind.CLOCK, "time.time", 1.0, "", 2),
        Read(Kind.CLOCK, "time.time", 2.0, "1", 3),
        Read(Kind.RANDOM, "random.random", 0.5, "", 4),
        Read(Kind.CLOCK, "time.time", 3.0, "", 5),
    )
    assert _read(playback, "time.time", "1") == 2.0
    assert _read(playback, "time.time") == 1.0
    assert _read(playback, "random.random", kind=Kind.RANDOM) == 0.5
    assert _read(playback, "time.time") == 3.0
    assert _read(playback, "time.time") is None
    assert playback.tape.count_reads_left() == 0


def test_read_of_an_unknown_strand_falls_back_to_order():
    """A strand that recorded no such read takes the next one of that name there."""
    playback = _reading_tape(Read(Kind.CLOCK, "time.time", 1.0, "1", 2), Read(Kind.CLOCK, "time.time", 2.0, "2", 3))
    assert _read(playback, "time.time", "7") == 1.0
    assert _read(playback, "time.time", "1") is None


def test_read_that_was_not_recorded_departs():
    """One clock read more than recorded names the read."""
    playback = _reading_tape(Read(Kind.ENV, "os.environ[A]", "x", "", 2))
    departure = playback.departed(None, Place.root("agent"), (Kind.CLOCK, "time.time"))
    assert departure.came == "clock time.time"
    assert departure.expected == "env os.environ[A] next, of 1 recorded reads left here"


def test_arguments_that_cannot_be_kept_match_by_their_text():
    """An argument kept as text only does not depart because its address in memory differs."""

    class Connection:
        pass

    use = tool("use", lambda connection: "used", "connection")
    _, recording = record(lambda: use(Connection()))
    keep = [Connection() for _ in range(50)]  # so that the next one lies elsewhere
    assert Replayed(recording, lambda: use(keep[-1])).result == "used"


def test_departure_survives_json():
    """Every candidate's reasons are plain text."""
    _, recording = record(lambda: look_up("k"))
    departure = _departure(recording, lambda: look_up("z"))
    assert json.dumps([departure.differences, [list(one.reasons) for one in departure.candidates]])
    assert MediaType.VALUE.value == recording.nodes[1].call.request.media_type
