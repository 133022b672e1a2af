"""What a question will cost: about what its recorded answer did, and at most."""

from __future__ import annotations

from otel_agent_replay import semconv
from otel_agent_replay.replay.ask.answer import price_of
from otel_agent_replay.replay.ask.candidate import Candidate, Question
from otel_agent_replay.replay.ask.request import RecordedStep

_BYTES_A_TOKEN = 4
_OTHER_TOKENIZER = 1.3  # another model may cut the same text into so many times as many tokens
_LONGER_ANSWER = 4
_LIMIT = semconv.REQUEST_MAX_TOKENS
_SHORT_ANSWER = 1024  # tokens; what an answer may have where nothing bounds it and the recorded one was short


def tokens_given(input_tokens: int | None, body_bytes: int) -> int:
    """Return the tokens of a request: the recorded ones, else as many as its size tells."""
    return input_tokens or body_bytes // _BYTES_A_TOKEN


def most_tokens(given: int, made: int, output_limit: int | None, questions: int = 1) -> tuple[int, int]:
    """Return what so many questions may be given and make at most, together, where `given` and `made` were recorded.

    `output_limit` is what each of them may make.
    """
    if output_limit is not None:
        most_made = output_limit * questions
    else:
        most_made = max(_LONGER_ANSWER * made, _SHORT_ANSWER * questions)
    return int(given * _OTHER_TOKENIZER) + questions, most_made


def most_usd(step: RecordedStep, question: Question, candidate: Candidate) -> float | None:
    """Return what a question will cost at most, None where no price is known."""
    longer = max(0, len(question.body) - len(step.body))
    given = tokens_given(step.input_tokens, len(step.body)) + longer // _BYTES_A_TOKEN
    made = step.output_tokens or 0
    limit = question.protocol.request_facts(question.body, question.url).get(_LIMIT)
    most_given, most_made = most_tokens(given, made, limit if isinstance(limit, int) else None)
    return price_of(question.provider, question.model, most_given, most_made, candidate.price)
