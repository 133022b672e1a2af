"""Runs of a refund desk with known calls, for tests of cases: good ones, and ones that break a rule."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from otel_agent_replay import semconv
from otel_agent_replay.gate import Case, check
from otel_agent_replay.model import (
    Failure,
    HttpRequestHead,
    Kind,
    Outcome,
    OutcomeStatus,
    RecordedRun,
    RecordedSpan,
    RunStatus,
    SideEffect,
)
from tests.support.lake_runs import RunMaker

READ, WRITE, EXTERNAL, NONE = SideEffect.READ, SideEffect.WRITE, SideEffect.EXTERNAL, SideEffect.NONE


class Desk(RunMaker):
    """A run of the desk; steps are added in order, arguments by name as tools record them."""

    def call(self, name, arguments, result=None, effect=READ, kind=Kind.TOOL, **facts) -> Desk:
        self.add(kind, name, self.value(arguments), self.value(result), side_effect=effect, **facts)
        return self

    def fails(self, name, arguments, error="builtins:TimeoutError", effect=WRITE) -> Desk:
        self.call(name, arguments, effect=effect)
        last = self.members[-1]
        outcome = Outcome(OutcomeStatus.ERROR, failure=Failure(error, "no answer"))
        self.members[-1] = RecordedSpan(last.span, dataclasses.replace(last.node, outcome=outcome))
        return self

    def state(self, name, **state) -> Desk:
        return self.call(name, state, effect=NONE, kind=Kind.CHECKPOINT)

    def asks(self, *calls, text="", finish="tool_calls", tokens=(10, 5), cost=0.25) -> Desk:
        """A model answer that asks for tool calls: pairs of name and arguments."""
        asked = [
            {"id": f"call_{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for n, (name, arguments) in enumerate(calls)
        ]
        message = {"role": "assistant", "content": text, **({"tool_calls": asked} if asked else {})}
        answer = {"id": "c1", "object": "chat.completion", "choices": [
            {"index": 0, "message": message, "finish_reason": finish}]}  # fmt: skip
        attributes = {semconv.PROTOCOL: "openai.chat_completions", semconv.REQUEST_MODEL: "gpt-4o"}
        for key, value in zip((semconv.USAGE_INPUT_TOKENS, semconv.USAGE_OUTPUT_TOKENS), tokens):
            attributes[key] = value
        if cost is not None:
            attributes[semconv.COST_USD] = cost
        body = json.dumps({"model": "gpt-4o", "messages": [{"role": "user", "content": f"turn {self.step}"}]}).encode()
        head = HttpRequestHead("POST", "http://127.0.0.1/v1/chat/completions", (), "HTTP/1.1")
        request, result = self.keep(body), self.keep(json.dumps(answer).encode())
        self.add(Kind.MODEL, "chat", request, result, attributes=attributes, head=head, side_effect=NONE)
        return self

    def says(self, text, given=None, status=RunStatus.OK, losses=()) -> RecordedRun:
        """End the run with this result; `given` is its input."""
        run = self.run()
        root, *members = run.spans
        node = root.node
        call = dataclasses.replace(node.call, request=self.value(given or {"order_id": "17"}))
        outcome = None if status is RunStatus.PENDING else Outcome(OutcomeStatus.OK, self.value(text))
        node = dataclasses.replace(node, call=call, outcome=outcome)
        facts = dataclasses.replace(run.run, status=status, ended_ns=0 if status is RunStatus.PENDING else self.now)
        return dataclasses.replace(run, run=facts, spans=(RecordedSpan(root.span, node), *members), losses=losses)

    def without(self, payload) -> Desk:
        """Forget the bytes of a payload: only its digest was kept."""
        self.bodies.pop(payload.digest)
        return self


def good_run(number: int = 0) -> RecordedRun:
    """The order is looked up, the policy checked, one refund made, and the policy named."""
    desk = Desk(number)
    desk.asks(("lookup", {"order_id": "17"}))
    desk.call("lookup", {"order_id": "17"}, {"id": "17", "cents": 4900})
    desk.state("CHECKING", status="CHECKING")
    desk.call("check_policy", {"order_id": "17"}, {"allowed": True, "source": "policy-7"})
    desk.asks(("refund", {"order": {"id": "17"}, "cents": 4900}))
    desk.call("refund", {"order": {"id": "17"}, "cents": 4900}, {"state": "done"}, WRITE, key="refund-17")
    desk.state("REFUNDED", status="REFUNDED")
    desk.asks(text="Refunded, as policy-7 says.", finish="stop")
    return desk.says("Refunded, as policy-7 says.")


def bad_run(number: int = 1) -> RecordedRun:
    """No policy is checked, another order is refunded, twice, and mail goes out."""
    desk = Desk(number)
    desk.asks(("lookup", {"order_id": "17"}))
    desk.call("lookup", {"order_id": "17"}, {"id": "17", "cents": 4900})
    desk.state("WAITING_HUMAN_APPROVAL", status="WAITING_HUMAN_APPROVAL")
    desk.state("AUTO_EXECUTE", status="AUTO_EXECUTE")
    desk.call("refund", {"order": {"id": "71"}, "cents": 9900}, {"state": "done"}, WRITE)
    desk.call("refund", {"order": {"id": "71"}, "cents": 9900}, {"state": "done"}, WRITE)
    desk.call("send_mail", {"to": "all"}, None, EXTERNAL)
    desk.asks(text="Done.", finish="stop")
    return desk.says("Done.")


def case_of(effects=None, transitions=None, **expect) -> Case:
    """A case that states these invariants."""
    content = {"expect": expect, "effects": effects or {"at_most_once": False}}
    if transitions:
        content["transitions"] = transitions
    return Case.of(content, Path("cases/one"))


def states_of(run, rows=None, **stated) -> list[str]:
    """What came of each invariant, in order."""
    return [result.state.value for result in check(case_of(**stated), run, rows=rows)]


def state_of(run, rows=None, **stated) -> str:
    """What came of the one invariant."""
    (state,) = states_of(run, rows, **stated)
    return state
