"""Every model step of a cohort put to a candidate: in parallel, within a rate and a budget, resumable after a kill.

    screen(load, results, lanes, limits, environment=..., tell=...)

One thread reads the lake and owns the results file: it writes the intents of the next questions together with the
answers that have come, and only then lets the questions go. Others do nothing but send. Runs are read one at a time,
and of each only what is under way is in memory.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from otel_agent_replay.errors import AgentReplayError
from otel_agent_replay.payload.redaction import Redaction
from otel_agent_replay.replay.ask.answer import Answer, used_by
from otel_agent_replay.replay.ask.candidate import Candidate, Question
from otel_agent_replay.replay.ask.client import Client, Unanswered
from otel_agent_replay.replay.ask.pace import Budget, Limits, Pace
from otel_agent_replay.replay.ask.results import Results
from otel_agent_replay.replay.ask.works import LoadRun, Work, open_works

_FAILURES = 20
"""So many questions without an answer, one after the other, end the screening: the endpoint is not there."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a screening stands: questions answered in this go, without an answer, and money over all goes."""

    answered: int
    unanswered: int
    spent_usd: float


@dataclass(frozen=True, slots=True)
class _Done:
    work: Work
    answer: Answer | None
    failure: BaseException | None


def screen(
    load: LoadRun,
    results: Results,
    lanes: Mapping[str, Candidate],
    limits: Limits,
    *,
    environment: Mapping[str, str],
    redaction: Redaction | None = None,
    tell: Callable[[Progress], None] = lambda _: None,
    stopping: threading.Event | None = None,
) -> str:
    """Ask what is not answered yet; return why it ended early, "" when everything was asked.

    Keys are looked up in `environment`; answers pass `redaction`, that of the recordings. What fails without having
    been paid for is asked again by the next go. When `stopping` is set, what is under way is waited for and nothing
    more is asked. Raises NoKey where a key is not there; what came until then is in `results`.
    """
    stopping = stopping or threading.Event()
    pace = Pace(limits.per_second, wait=stopping.wait)
    client = Client(
        connections=limits.parallel,
        patience=limits.patience,
        redaction=redaction,
        before_again=pace.take,
        stopping=stopping,
    )
    works = open_works(load, results, lanes, limits, environment)
    return _Screening(works, results, limits, tell, client, pace, stopping).run()


class _Screening:
    def __init__(
        self,
        works: Iterator[Work],
        results: Results,
        limits: Limits,
        tell: Callable[[Progress], None],
        client: Client,
        pace: Pace,
        stopping: threading.Event,
    ) -> None:
        self._works, self._results, self._limits, self._tell = works, results, limits, tell
        self._client, self._pace, self._stopping = client, pace, stopping
        spent = results.spent()
        self._budget = Budget(limits.usd, limits.calls, spent.usd, spent.calls)
        self._todo: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[_Done] = queue.SimpleQueue()
        self._under_way = self._failures = 0
        self._answered = self._unanswered = 0
        self._why = ""

    def run(self) -> str:
        for _ in range(self._limits.parallel):
            # Who leaves in the middle of a long answer does not have to wait for it: it is then in doubt.
            threading.Thread(target=self._send_all, name="ask", daemon=True).start()
        try:
            self._drive()
        finally:
            self._stopping.set()
            while self._under_way:
                self._note(self._done.get())
            self._results.commit()
            for _ in range(self._limits.parallel):
                self._todo.put(None)
            self._client.close()
        return self._why

    def _drive(self) -> None:
        more = True
        while more or self._under_way:
            batch: list[Work] = []
            turn_s = 0.0
            try:
                while more and self._under_way + len(batch) < self._limits.parallel:
                    turn_s = self._pace.ready_in()
                    if turn_s:
                        break
                    work = next(self._works, None)
                    if work is None or not self._let_through(work):
                        more = False
                        break
                    self._pace.take()
                    batch.append(work)
            except BaseException:
                for work in batch:  # these will not go any more: nothing about them is in doubt
                    self._results.unanswered(work.key, "not sent", in_doubt=False)
                raise
            self._results.commit()  # intents are on disk before their questions go
            for work in batch:
                self._under_way += 1
                self._todo.put(work)
            self._take_in(turn_s)
            if self._stopping.is_set() and more:
                self._why = self._why or "it was interrupted"
            more = more and not self._why

    def _take_in(self, turn_s: float) -> None:
        """Note what came, waiting for the first of it, but no longer than until the next question's turn."""
        if not self._under_way:
            self._stopping.wait(turn_s)
            return
        try:
            self._note(self._done.get(timeout=turn_s or None))
        except queue.Empty:
            return
        while not self._done.empty():
            self._note(self._done.get())
        self._tell(Progress(self._answered, self._unanswered, self._budget.spent_usd))

    def _let_through(self, work: Work) -> bool:
        self._why = self._budget.why_not(work.most_usd)
        if self._why:
            return False
        self._budget.take(work.most_usd)
        self._results.intend(work.key, work.most_usd, work.question.lost)
        return True

    def _send_all(self) -> None:
        while (work := self._todo.get()) is not None:
            self._done.put(self._sent(work))

    def _sent(self, work: Work) -> _Done:
        try:
            return _Done(work, self._client.ask(work.question), None)
        except BaseException as error:
            return _Done(work, None, error)

    def _note(self, done: _Done) -> None:
        """Take in what became of a question."""
        self._under_way -= 1
        work = done.work
        question = work.question
        failure = done.failure
        if done.answer is not None:
            failure = _broken(question, done.answer)
            used = used_by(
                done.answer, question.protocol, question.provider, question.model, price=work.candidate.price
            )
            self._budget.settle(work.most_usd, used.cost_usd)
            if failure is None:
                self._results.answered(work.key, done.answer, question.protocol.name, used)
                self._answered += 1
                self._failures = 0
                return
        self._note_failure(work, failure, settled=done.answer is not None)

    def _note_failure(self, work: Work, failure: BaseException | None, *, settled: bool) -> None:
        in_doubt = failure.in_doubt if isinstance(failure, Unanswered) else not isinstance(failure, AgentReplayError)
        told = str(failure) or repr(failure)
        self._results.unanswered(work.key, told, in_doubt=in_doubt)
        if in_doubt and not settled:
            self._budget.settle(work.most_usd, None)
        elif not in_doubt:
            self._budget.give_back(work.most_usd)
        self._unanswered += 1
        self._failures += 1
        if isinstance(failure, Unanswered) and failure.refused:
            self._why = self._why or f"the endpoint refuses the key: {told}"
        elif self._failures >= _FAILURES:
            self._why = self._why or f"{self._failures} questions in a row got no answer, the last one: {told}"


def _broken(question: Question, answer: Answer) -> Unanswered | None:
    """Return why a whole answer is none: an error after HTTP 200, or cut off. It may be paid for."""
    folded = question.protocol.fold(answer.body, answer.media_type, answer.status)
    if folded.error is not None:
        return Unanswered(f"{folded.error.type}: {folded.error.message or ''}".rstrip(": "), in_doubt=True)
    return None if folded.complete else Unanswered("the answer ends in its middle", in_doubt=True)
