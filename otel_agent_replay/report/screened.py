"""Results of asking a cohort again -> a screening: reduces every kept answer and compares it. One run in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from otel_agent_replay.compare.actions import Action, action_of, no_answer
from otel_agent_replay.compare.screening import Disagreement, ScreenedStep, Screening, ScreeningReport
from otel_agent_replay.protocols import PROTOCOLS, Protocol
from otel_agent_replay.replay.ask.answer import Answer, Used, used_by
from otel_agent_replay.replay.ask.candidate import Candidate, Question
from otel_agent_replay.replay.ask.client import Unanswered
from otel_agent_replay.replay.ask.request import RecordedStep
from otel_agent_replay.replay.ask.results import AskedCall, Results

NOT_ASKED = "not asked yet"


def action_in(protocol: Protocol, answer: Answer, used: Used) -> Action:
    """Return an answer as an action."""
    return action_of(
        protocol.fold(answer.body, answer.media_type, answer.status),
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        cost_usd=used.cost_usd,
        latency_ns=answer.latency_ns,
    )


def recorded_action(step: RecordedStep) -> Action:
    """Return the recorded answer of a step as an action, with the tokens and the cost that were recorded."""
    used = used_by(step.answer, step.protocol, step.provider, step.model)
    told = Used(
        used.model,
        used.input_tokens if step.input_tokens is None else step.input_tokens,
        used.output_tokens if step.output_tokens is None else step.output_tokens,
        used.cost_usd if step.cost_usd is None else step.cost_usd,
    )
    return action_in(step.protocol, step.answer, told)


def asked_actions(candidate: Candidate, question: Question, came: Sequence[Answer | Unanswered]) -> list[Action]:
    """Return what was answered to a question as actions, in order."""
    return [
        no_answer(str(one))
        if isinstance(one, Unanswered)
        else action_in(
            question.protocol,
            one,
            used_by(one, question.protocol, question.provider, question.model, price=candidate.price),
        )
        for one in came
    ]


def screening_of(
    results: Results,
    lanes: Sequence[str],
    *,
    text_likeness: float = 0.0,
    found: Callable[[Disagreement], None] = lambda _: None,
) -> ScreeningReport:
    """Return what the answers in a results file say; `found` is called with each disagreement of the first lane."""
    screening = Screening(lanes, results.tools(), text_likeness=text_likeness)
    for step in results.steps():
        asked = {lane: [call for call in step.calls if call.lane == lane] for lane in lanes}
        if step.answer is None or not asked[lanes[0]]:
            screening.skip(step.run_id, step.skipped or NOT_ASKED)
            continue
        protocol = PROTOCOLS[step.protocol]
        for call in asked[lanes[0]]:
            for what in call.lost:
                screening.lose(what)
        disagreement = screening.add(
            ScreenedStep(
                step.run_id,
                step.step,
                action_in(protocol, step.answer, step.used),
                {lane: [_asked(call) for call in calls] for lane, calls in asked.items()},
            )
        )
        if disagreement is not None:
            found(disagreement)
    return screening.finish()


def _asked(call: AskedCall) -> Action:
    if call.answer is None:
        return no_answer("in doubt: " + call.why if call.state == "in_doubt" else call.why or call.state)
    return action_in(PROTOCOLS[call.protocol], call.answer, call.used)
