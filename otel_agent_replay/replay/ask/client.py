"""Sending a question and reading its answer whole: retries, waits, limits, and no other place than it may go to.

Answers pass the same redaction as recorded ones, so that both are compared, and kept, alike. What nobody can have paid
for (a refused connection, 429, a 5xx) is tried again; whatever may have been answered and was not read whole is in
doubt, and is left to whoever asks. Our own traffic is neither recorded nor traced.
"""

from __future__ import annotations

import email.utils
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from urllib.request import getproxies, proxy_bypass

from otel_agent_replay.errors import CannotJudge
from otel_agent_replay.payload import credentials
from otel_agent_replay.payload.redaction import Redaction
from otel_agent_replay.replay.ask.answer import Answer
from otel_agent_replay.replay.ask.candidate import Question
from otel_agent_replay.replay.ask.destination import endpoint_of

_TRIED_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_REFUSALS = frozenset({401, 403})
_KEPT_TEXT = 300  # bytes of an error's body
MOST_READ = 64 << 20
"""Bytes; an answer that is longer is not read to its end."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long is waited, in seconds: for a connection, for a whole answer, and before trying again, so many times."""

    connect_s: float = 20
    answer_s: float = 600
    longest_wait_s: float = 60
    attempts: int = 4


class Unanswered(Exception):
    """There is no answer. `in_doubt`: the question may have been answered, and paid for. `refused`: a wrong key."""

    def __init__(self, why: str, *, in_doubt: bool = False, refused: bool = False) -> None:
        self.why = why
        self.in_doubt = in_doubt
        self.refused = refused
        super().__init__(why)


class Client:
    """Sends questions, from any number of threads. `before_again` is called before an attempt that is not the first.

    `stopping` ends every wait: a question that is waiting to be tried again is then unanswered.
    """

    def __init__(
        self,
        *,
        connections: int = 1,
        patience: Patience | None = None,
        redaction: Redaction | None = None,
        before_again: Callable[[], None] = lambda: None,
        stopping: threading.Event | None = None,
    ) -> None:
        self._patience = patience or Patience()
        self._redaction = redaction or Redaction.default()
        self._before_again = before_again
        self._stopping = stopping or threading.Event()
        self._connections = connections
        self._pools: dict[str, Any] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close every connection."""
        with self._lock:
            for pool in self._pools.values():
                pool.clear()
            self._pools.clear()

    def ask(self, question: Question) -> Answer:
        """Return the answer. Raises Unanswered, with the provider's words where it said why.

        Raises CannotJudge for a question that may not go where it would.
        """
        from opentelemetry.instrumentation.utils import suppress_instrumentation

        if endpoint_of(question.url) not in question.allowed:
            raise CannotJudge(f"{question.url} is neither the recorded endpoint nor a declared one: nothing is sent")
        for name, value in question.headers:
            if credentials.is_header(name):
                self._redaction.learn(value.rpartition(" ")[2])
        last: _Again | None = None
        for attempt in range(self._patience.attempts):
            if last is not None:
                self._wait(attempt, last)
                self._before_again()
            if self._stopping.is_set():
                raise last or Unanswered("stopped before it was sent")
            try:
                with suppress_instrumentation():
                    answer, wait_s = self._sent(question)
            except _Again as error:
                last = error
                continue
            if 200 <= answer.status < 300:
                return replace(answer, body=self._redaction.body(answer.body, answer.media_type))
            if answer.status not in _TRIED_AGAIN:
                raise Unanswered(self._told(answer), refused=answer.status in _REFUSALS)
            last = _Again(self._told(answer), wait_s)
        raise last or Unanswered("no attempt was allowed")

    def _told(self, answer: Answer) -> str:
        """Return the provider's words; a key that it repeats is masked."""
        text = answer.body[:_KEPT_TEXT].decode("utf-8", "replace")
        return f"HTTP {answer.status}: {self._redaction.text(text)}"

    def _wait(self, attempt: int, last: _Again) -> None:
        """Wait before trying again, as long as the provider says. Raises `last` where that is too long."""
        asked, longest = last.wait_s, self._patience.longest_wait_s
        if asked is not None and asked > longest:
            raise Unanswered(f"{last}; it asks to wait {asked:.0f} s, longer than {longest:.0f} s")
        backoff = min(longest, 0.5 * 2 ** (attempt - 1)) * random.uniform(0.5, 1)  # noqa: S311 - spreads the load
        self._stopping.wait(backoff if asked is None else asked)

    def _sent(self, question: Question) -> tuple[Answer, float | None]:
        import urllib3

        patience = self._patience
        timeout = urllib3.Timeout(connect=patience.connect_s, read=patience.answer_s)
        began = time.perf_counter_ns()
        try:
            response = self._pool(question.url).request(
                "POST",
                question.url,
                body=question.body,
                headers=dict(question.headers),
                redirect=False,
                retries=False,
                preload_content=False,
                timeout=timeout,
            )
        except (
            urllib3.exceptions.NewConnectionError,
            urllib3.exceptions.ConnectTimeoutError,
            urllib3.exceptions.ProxyError,
            urllib3.exceptions.SSLError,
        ) as error:
            raise _Again(f"no connection: {error}") from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise Unanswered(f"sent, but not answered: {error}", in_doubt=True) from error
        first = time.perf_counter_ns() - began
        try:
            body = _whole(response, until_ns=began + int(patience.answer_s * 1e9))
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise Unanswered(f"the answer broke off: {error}", in_doubt=response.status < 400) from error
        finally:
            response.release_conn()
        media_type = (response.headers.get("content-type") or "").partition(";")[0].strip().lower()
        answer = Answer(response.status, media_type, body, time.perf_counter_ns() - began, first)
        return answer, _asked_to_wait(response.headers)

    def _pool(self, url: str) -> Any:
        import urllib3

        scheme, host, _ = endpoint_of(url)
        proxy = "" if proxy_bypass(host) else getproxies().get(scheme, "")
        with self._lock:
            if proxy not in self._pools:
                options: dict[str, Any] = {"maxsize": self._connections, "block": False}
                self._pools[proxy] = urllib3.ProxyManager(proxy, **options) if proxy else urllib3.PoolManager(**options)
            return self._pools[proxy]


class _Again(Unanswered):
    """An attempt that may be made again, after `wait_s` seconds where the provider says so."""

    def __init__(self, why: str, wait_s: float | None = None) -> None:
        super().__init__(why)
        self.wait_s = wait_s


def _whole(response: Any, *, until_ns: int) -> bytes:
    pieces, size = [], 0
    for piece in response.stream(1 << 16, decode_content=True):
        pieces.append(piece)
        size += len(piece)
        if size > MOST_READ:
            response.close()
            raise OSError(f"it is longer than {MOST_READ >> 20} MiB")
        if time.perf_counter_ns() > until_ns:
            response.close()
            raise OSError("it takes too long")
    return b"".join(pieces)


def _asked_to_wait(headers: Any) -> float | None:
    """Return the seconds that a provider asks to wait, None where it does not."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        text = headers.get(name)
        if text is None:
            continue
        try:
            return max(0.0, float(text) / unit)
        except ValueError:
            pass
        try:
            moment = email.utils.parsedate_to_datetime(text)
        except ValueError:
            continue
        return max(0.0, moment.timestamp() - time.time())
    return None
