"""One question put several times, to see how typical the recorded answer was."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from otel_agent_replay.payload.redaction import Redaction
from otel_agent_replay.replay.ask.answer import Answer
from otel_agent_replay.replay.ask.candidate import Question
from otel_agent_replay.replay.ask.client import Client, Patience, Unanswered


def ask_repeatedly(
    questions: Mapping[str, Question],
    times: int,
    *,
    parallel: int = 4,
    patience: Patience | None = None,
    redaction: Redaction | None = None,
) -> dict[str, list[Answer | Unanswered]]:
    """Send each question so many times, `parallel` at once; return what came, by name, in the order it was sent.

    Answers pass `redaction`, that of the recording.
    """
    stopping = threading.Event()
    client = Client(connections=parallel, patience=patience, redaction=redaction, stopping=stopping)

    def ask(question: Question) -> Answer | Unanswered:
        try:
            return client.ask(question)
        except Unanswered as why:
            return why

    with ThreadPoolExecutor(parallel, "ask") as pool:
        try:
            asked = {name: [pool.submit(ask, question) for _ in range(times)] for name, question in questions.items()}
            return {name: [one.result() for one in answers] for name, answers in asked.items()}
        finally:
            stopping.set()
            client.close()
