"""An observer that keeps nothing: for runs that are on record already and are only gone through again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from otel_agent_replay.boundary.crossing import Crossing, Place
from otel_agent_replay.boundary.policy import EXACT
from otel_agent_replay.boundary.runs import RunRequest
from otel_agent_replay.boundary.session import Answerer, Session
from otel_agent_replay.model import AnswerSource, Chunk, HttpResponseHead, Loss, Outcome, Read, RecordedRun
from otel_agent_replay.payload.redaction import Redaction

_NOTHING_CURRENT = nullcontext()


class NothingRecorded:
    """Implements `boundary.session.Observer`."""

    wants_facts = False

    def began(self, crossing: Crossing) -> None:
        """A crossing begins."""

    def ended(self, crossing: Crossing, outcome: Outcome) -> None:
        """It ended."""

    def entered(self, place: Place, attributes: Mapping[str, Any]) -> None:
        """A scope was opened."""

    def left(self, place: Place, error: BaseException | None, attributes: Mapping[str, Any]) -> None:
        """It was closed."""

    def read(self, place: Place, read: Read) -> None:
        """A bulk read was made."""

    def sent(self, crossing: Crossing) -> None:
        """A streamed request is known."""

    def partial(self, crossing: Crossing, head: HttpResponseHead, data: bytes, chunks: Sequence[Chunk]) -> None:
        """A part of a body came."""

    def lost(self, loss: Loss) -> None:
        """Something was not kept."""

    def inside(self, place: Place) -> AbstractContextManager[object]:  # noqa: ARG002 - the protocol's
        """Make nothing current."""
        return _NOTHING_CURRENT


def played(request: RunRequest, recorded: RecordedRun, playback: Answerer, redaction: Redaction) -> Session:
    """Return the open session of a run that is on record: nothing of it is live, and nothing is recorded."""
    session = Session(
        run_id=recorded.run.run_id,
        root=Place.root(request.agent),
        mode=EXACT,
        observer=NothingRecorded(),
        redaction=redaction,
        answerers={AnswerSource.TAPE: playback},
    )
    session.open()
    return session
