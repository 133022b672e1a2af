"""The session of a run that is on record already and is only gone through again."""

from __future__ import annotations

from otel_agent_replay.boundary.crossing import Place
from otel_agent_replay.boundary.policy import EXACT
from otel_agent_replay.boundary.runs import RunRequest
from otel_agent_replay.boundary.session import Answerer, Session
from otel_agent_replay.boundary.unrecorded import NothingRecorded
from otel_agent_replay.model import AnswerSource, Run
from otel_agent_replay.payload.redaction import Redaction


def played(request: RunRequest, run: Run, playback: Answerer, redaction: Redaction) -> Session:
    """Return the open session of a run that is on record: nothing of it is live, and nothing is recorded."""
    session = Session(
        run_id=run.run_id,
        root=Place.root(request.agent),
        mode=EXACT,
        observer=NothingRecorded(),
        redaction=redaction,
        answerers={AnswerSource.TAPE: playback},
    )
    session.open()
    return session
