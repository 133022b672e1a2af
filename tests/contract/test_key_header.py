"""The idempotency key of a tool rides on the writes that its code makes over HTTP, whatever client makes them."""

from __future__ import annotations

import pytest

from otel_agent_replay.boundary import transports
from otel_agent_replay.boundary.crossing import current
from otel_agent_replay.testing import Reply, ScriptedProvider
from tests.support.http_clients import CLIENTS, client_of
from tests.support.tape_session import recording

BODY = b'{"cents": 1, "messages": []}'


@pytest.fixture(autouse=True)
def _patched():
    transports.install()
    yield
    transports.uninstall()


@pytest.fixture(params=CLIENTS)
def client(request):
    return client_of(request.param)


class Ledger:
    """A ledger that knows nothing yet."""

    def intend(self, call, place, terms):
        return None


def keys_seen(client, method="POST", headers=None, *, ledger=True, key="key-1", path="/refunds"):
    """Make one request inside a tool that has a key; return the keys and the body that the server saw."""
    with ScriptedProvider([Reply(b'{"ok": 1}')]) as provider, recording() as observer:
        session, place = current.get()
        session.effects = Ledger() if ledger else None
        place.key = key
        got = client.fetch(method, provider.url + path, BODY if method == "POST" else b"", headers=headers)
    assert (got.error, got.body) == (None, b'{"ok": 1}')
    (request,) = provider.seen
    assert observer.losses == []
    return [value for name, value in request.headers if name.lower() == "idempotency-key"], request.body, observer


def test_a_write_below_a_tool_carries_its_key(client):
    """The server gets the key and the same body; the record says that the key was sent."""
    keys, body, observer = keys_seen(client)
    assert (keys, body) == (["key-1"], BODY)
    (exchange,) = observer.exchanges
    assert exchange.call.idempotency_key == "key-1"


def test_a_key_of_the_caller_stays_its_own(client):
    """A request that has a key is sent as it is."""
    assert keys_seen(client, headers={"Idempotency-Key": "mine"})[0] == ["mine"]


@pytest.mark.parametrize("case", ["no ledger", "no tool", "a read", "a model call"])
def test_nothing_else_is_touched(client, case):
    """Without a ledger, outside a tool, on a read and on a model call no header is added."""
    keys = {
        "no ledger": lambda: keys_seen(client, ledger=False),
        "no tool": lambda: keys_seen(client, key=""),
        "a read": lambda: keys_seen(client, method="GET"),
        "a model call": lambda: keys_seen(
            client, path="/v1/chat/completions", headers={"content-type": "application/json"}
        ),
    }[case]()[0]
    assert keys == []
