"""Sending messages to an endpoint, each again and again, until it is taken or the endpoint says that it never will."""

from __future__ import annotations

from collections.abc import Callable

from otel_agent_replay.errors import ExportRefused

TRIES = 8
"""How often a message is sent before that is given up: for about a minute, where the endpoint does not ask for more."""

FIRST_TRIES = 4
"""The same while the endpoint has never answered: for 3.5 seconds. It may be starting; more likely it is not there."""

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 30.0


class NotTaken(Exception):
    """An endpoint did not take a message. `again` tells whether it may; `asked_s` is how long it asked to wait.

    `answered` is False where nobody was there to answer.
    """

    def __init__(self, why: str, *, again: bool, asked_s: float = 0.0, answered: bool = True) -> None:
        self.why, self.again, self.asked_s, self.answered = why, again, asked_s, answered
        super().__init__(why)


class Insistence:
    """How an endpoint is asked again. `to` names it, `tries` is how often at the most, `wait` sleeps."""

    def __init__(self, to: str, *, tries: int, wait: Callable[[float], None]) -> None:
        self._to, self._tries, self._wait = to, tries, wait
        self._has_answered = False

    def until_taken(self, send: Callable[[], None]) -> None:
        """Call `send`, which raises NotTaken, until it does not. Raises ExportRefused."""
        pause = _FIRST_WAIT_S
        asked = 0
        while True:
            answer = _answer(send)
            asked += 1
            self._has_answered = self._has_answered or answer is None or answer.answered
            if answer is None:
                return
            if not answer.again:
                raise ExportRefused(f"{self._to} refused the spans: {answer.why}") from answer
            if asked >= (self._tries if self._has_answered else min(self._tries, FIRST_TRIES)):
                raise self._given_up(asked, answer) from answer
            self._wait(min(max(pause, answer.asked_s), _LONGEST_WAIT_S))
            pause *= 2

    def _given_up(self, asked: int, answer: NotTaken) -> ExportRefused:
        if self._has_answered:
            return ExportRefused(
                f"{self._to} did not take the spans, {asked} times asked: {answer.why}", may_try_again=True
            )
        return ExportRefused(
            f"nobody answers at {self._to}, {asked} times asked: {answer.why}; is the address right, and does a "
            "collector listen there? (`agent-replay collector` takes gRPC at port 4317, HTTP at 4318)",
            may_try_again=True,
        )


def _answer(send: Callable[[], None]) -> NotTaken | None:
    try:
        send()
    except NotTaken as answer:
        return answer
    return None
