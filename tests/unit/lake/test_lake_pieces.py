"""How bodies are cut, shared and referred to."""

from __future__ import annotations

import json

from otel_agent_replay.lake.payload_store import Body, PackWriter
from otel_agent_replay.model import digest_of


class _Store:
    """A pack in memory."""

    def __init__(self):
        self.rows = []
        self.writer = PackWriter(9, lambda table: self.rows.extend(table.to_pylist()))

    def add(self, *bodies):
        return self.writer.add_run([_body(data) for data in bodies])

    def bytes_of(self, number):
        self.writer.flush()
        row = self.rows[number]
        if row["pieces"] is None:
            return row["data"]
        numbers = [n for found in row["pieces"] for n in range(found["first"], found["first"] + found["count"])]
        return b"".join(self.rows[n]["data"] for n in numbers)

    def ranges(self):
        self.writer.flush()
        return [row["pieces"] for row in self.rows if row["pieces"] is not None]


def _body(data):
    return Body(digest_of(data), data, "openai.chat_completions" if data.startswith(b'{"model"') else "")


def _requests(count, *, text="message number {} and more"):
    messages = [{"role": "user", "content": text.format(number)} for number in range(2 * count)]
    return [
        json.dumps({"model": "m", "messages": messages[: 2 * step + 1], "temperature": 0}).encode()
        for step in range(count)
    ]


def test_a_request_is_a_few_ranges_however_long_it_grows():
    """The messages of a run lie in order, so each request is its head and messages, and its tail."""
    store = _Store()
    requests = _requests(50)
    numbers = store.add(*requests)
    assert max(len(found) for found in store.ranges()) <= 2
    assert [store.bytes_of(numbers[digest_of(request)]) for request in requests] == requests


def test_each_message_is_stored_once():
    """Fifty requests that repeat each other hold each message one time."""
    store = _Store()
    store.add(*_requests(50))
    store.writer.flush()
    pieces = [row["data"] for row in store.rows if row["role"] == "user"]
    assert len(pieces) == len(set(pieces)) == 99


def test_short_messages_that_recur_do_not_break_ranges():
    """A short repeat inside a conversation is stored again: cheaper than a range in every later request."""
    store = _Store()
    requests = _requests(40, text="yes")
    numbers = store.add(*requests)
    assert max(len(found) for found in store.ranges()) <= 2
    assert [store.bytes_of(numbers[digest_of(request)]) for request in requests] == requests


def test_a_long_message_is_shared_between_runs():
    """The system prompt of a thousand runs lies in a pack once."""
    store = _Store()
    for run in range(3):
        messages = [{"role": "system", "content": "policy " * 200}, {"role": "user", "content": f"I am number {run}"}]
        store.add(json.dumps({"model": "m", "messages": messages}).encode())
    store.writer.flush()
    assert sum(row["role"] == "system" for row in store.rows) == 1


def test_equal_bodies_have_one_number():
    """The same bytes in two runs are one payload."""
    store = _Store()
    assert store.add(b"same") == store.add(b"same")


def test_a_body_of_another_shape_stays_whole():
    """What the protocol's splitter does not know is kept byte for byte."""
    store = _Store()
    odd = b'{"model": "m", "messages": ['
    numbers = store.add(odd, b"\xff\xfe")
    assert store.ranges() == []
    assert store.bytes_of(numbers[digest_of(odd)]) == odd


def test_an_empty_body_is_a_payload():
    """No bytes are not the same as no payload."""
    store = _Store()
    assert store.bytes_of(store.add(b"")[digest_of(b"")]) == b""


def test_a_large_image_is_stored_once():
    """Turns that repeat an image repeat its number, not its bytes."""
    store = _Store()
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "QUJD" * 10_000}}
    messages = [{"role": "user", "content": [{"type": "text", "text": "what is it?"}, image]}]
    requests = []
    for turn in range(5):
        requests.append(json.dumps({"model": "m", "messages": messages}).encode())
        messages = [*messages, {"role": "user", "content": f"turn {turn}"}]
    numbers = store.add(*requests)
    assert [store.bytes_of(numbers[digest_of(request)]) for request in requests] == requests
    assert sum(len(row["data"] or b"") for row in store.rows) < 45_000
