"""One HTTP exchange across the boundary, the same for every client library: who answers it, and with what.

A transport asks `here_for_http`, hands its request to `begin_exchange`, and gets a `ResponseTap` (call through
and tell it what comes), a `Served` (give back the recording), or None (call through as if we were not there).
No I/O and no library's classes in here.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from otel_agent_replay.boundary.crossing import Place
from otel_agent_replay.boundary.http_call import SentRequest, call_of, make_sent, protocol_of
from otel_agent_replay.boundary.http_faults import answers_first, may_go_live, report, stop
from otel_agent_replay.boundary.http_rewrite import revision_of
from otel_agent_replay.boundary.http_served import Served
from otel_agent_replay.boundary.http_tap import ResponseTap, finish_abandoned
from otel_agent_replay.boundary.session import Session, active_for_call, opens_implicit_runs
from otel_agent_replay.errors import AgentReplayError, ReplayInterrupt
from otel_agent_replay.model import Kind

__all__ = [
    "Here",
    "ResponseTap",
    "SentRequest",
    "Served",
    "answers_first",
    "begin_exchange",
    "finish_abandoned",
    "here_for_http",
    "make_sent",
]

_log = logging.getLogger("otel_agent_replay")
_clock = time.perf_counter_ns  # bound at import: our own clock reads are never recorded
_MODEL, _HTTP = Kind.MODEL, Kind.HTTP  # naming a member costs 35 ns before Python 3.12


Here = tuple[Session, Place] | tuple[None, None]
"""Where an HTTP call belongs; (None, None): to a run that begins with it, if it is a model call."""


def here_for_http() -> Here | None:
    """Return where an HTTP call belongs, or None when it is nobody's, or part of an exchange that is open already.

    A transport that wraps another one (a retry layer, an application served in process) is one exchange: the
    outermost that we stand in.
    """
    here = active_for_call(opens=False)
    if here is None:
        return (None, None) if opens_implicit_runs() else None
    kind = here[1].kind
    return None if kind is _MODEL or kind is _HTTP else here


def begin_exchange(here: Here, describe: Callable[..., SentRequest], *what: Any) -> ResponseTap | Served | None:
    """Ask the session who answers the request that `describe(*what)` returns.

    Raises the session's interrupt when nobody may. A defect of ours gives None while calls may go live, and
    stops the replay where they may not.
    """
    began_ns = _clock()
    belongs = _opened_for(describe, *what) if here[0] is None else here
    if belongs is None:
        return None
    session, place = belongs
    finish_abandoned()
    try:
        request = describe(*what)
        call, protocol = call_of(session.redaction, request, facts=session.observer.wants_facts)
        revision = revision_of(session, place, call, protocol, request)
        crossing = session.begin(call, place, revise=revision)
        answer = crossing.answer
        if answer is None:
            if revision is None or not revision.changed:
                return ResponseTap(crossing, protocol, request, began_ns)
            return ResponseTap(crossing, protocol, revision.request, began_ns, edited=True)
        return Served(crossing, answer)
    except AgentReplayError:
        raise  # the ledger's word, not a defect: the call must not be made
    except Exception as error:
        if may_go_live(session) and session.edits is None and session.route is None:
            report(session, "recording an HTTP call", error)
            return None
        raise stop(session, ReplayInterrupt(f"replaying an HTTP call failed: {error!r}")) from error


def _opened_for(describe: Callable[..., SentRequest], *what: Any) -> tuple[Session, Place] | None:
    """Return the run that a call outside any run opens: a model call does, so that plain services are not recorded."""
    try:
        if protocol_of(describe(*what)) is None:
            return None
    except Exception:
        _log.exception("a call outside any run could not be looked at; it goes unrecorded")
        return None
    return active_for_call()
