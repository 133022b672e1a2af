"""Sending a message again and again, until an endpoint takes it or says that it never will."""

from __future__ import annotations

from collections.abc import Callable

from otel_agent_replay.errors import ExportRefused

TRIES = 8
"""How often a message is sent before that is given up."""

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 30.0


class NotTaken(Exception):
    """An endpoint did not take a message. `again` tells whether it may; `asked_s` is how long it asked to wait."""

    def __init__(self, why: str, *, again: bool, asked_s: float = 0.0) -> None:
        self.why, self.again, self.asked_s = why, again, asked_s
        super().__init__(why)


def send_until_taken(send: Callable[[], None], to: str, *, tries: int, wait: Callable[[float], None]) -> None:
    """Call `send`, which raises NotTaken, until it does not. Raises ExportRefused; `to` is who is asked."""
    pause, why = _FIRST_WAIT_S, ""
    for _ in range(tries):
        answer = _answer(send)
        if answer is None:
            return
        why = answer.why
        if not answer.again:
            raise ExportRefused(f"{to} refused the spans: {why}") from answer
        wait(min(max(pause, answer.asked_s), _LONGEST_WAIT_S))
        pause *= 2
    raise ExportRefused(f"{to} did not take the spans, {tries} times asked: {why}", may_try_again=True)


def _answer(send: Callable[[], None]) -> NotTaken | None:
    try:
        send()
    except NotTaken as answer:
        return answer
    return None
