"""A request that goes live with a change: what is sent and recorded is the changed one.

Asked only after every source that knows the original request had its turn. A request that cannot be changed as
wanted is not sent at all: an answer to the unchanged one would pass for an answer to the other.
"""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlsplit, urlunsplit

from otel_agent_replay.boundary.crossing import Place
from otel_agent_replay.boundary.effects import key_above, sandbox_above
from otel_agent_replay.boundary.http_call import SentRequest, call_of, header
from otel_agent_replay.boundary.http_coding import codings_of, decoded_chunks
from otel_agent_replay.boundary.http_faults import stop
from otel_agent_replay.boundary.session import Session
from otel_agent_replay.boundary.signing import Headers, signed_again
from otel_agent_replay.errors import ConfigurationError, ReplayInterrupt
from otel_agent_replay.model import Call, Kind, SideEffect
from otel_agent_replay.protocols.edit import changed_members
from otel_agent_replay.protocols.protocol import Protocol

IDEMPOTENCY_KEY = "Idempotency-Key"
"""The header that payment services and many others take a key in (IETF draft-ietf-httpapi-idempotency-key-header)."""

_SIGNED = "the client has signed it (its body and path); change model and endpoint where the client is made"
_OF_THE_BODY = frozenset({"content-md5", "content-digest", "repr-digest", "digest"})
"""Headers that hold a digest of the body; a changed one goes without."""


class Revision:
    """The change of one request. Called with the original call once it goes live; returns the call that is sent.

    `request` is what the transport has to send, `changed` whether it is another one than the client made.
    """

    __slots__ = ("_protocol", "_session", "changed", "request")

    def __init__(self, session: Session, protocol: Protocol | None, request: SentRequest) -> None:
        self._session = session
        self._protocol = protocol
        self.request = request
        self.changed = False

    def __call__(self, call: Call, place: Place) -> Call:
        """Return the call to be made in place of `call`. Raises ReplayInterrupt, which stops the session."""
        if self._protocol is None:
            return call
        try:
            return self._revised(call, place, self._protocol)
        except Exception as error:
            what = f"the model request of step {place.step} cannot be changed as wanted, so it was not sent: {error}"
            raise stop(self._session, ReplayInterrupt(what)) from error

    def _revised(self, call: Call, place: Place, protocol: Protocol) -> Call:
        request = self._edited(call, place, protocol)
        request = self._moved(request, protocol)
        if request is self.request:
            return call
        request = _signed(self.request, request)
        revised, now = call_of(self._session.redaction, request, facts=self._session.observer.wants_facts)
        if now is not protocol:
            raise ConfigurationError(f"what is left is no request of {protocol.name}")
        self.request = request
        self.changed = True
        return replace(revised, asked=call.digest)

    def _edited(self, call: Call, place: Place, protocol: Protocol) -> SentRequest:
        """Return the request with the body, and the model in its URL, that the session's rewriter wants."""
        request, rewriter = self.request, self._session.edits
        if rewriter is None:
            return request
        codings = codings_of(request.headers) if request.packed else ()
        original = request.body or b""
        body = decoded_chunks([original], codings)[0] if codings else original
        changed = rewriter.rewrite(call, place, protocol.name, body, request.headers)
        url = rewriter.address(request.url)
        names = [] if url == request.url else ["model in the URL"]
        if changed is None or changed == body:
            return request if not names else replace(request, url=url, notes=(*request.notes, f"edited: {names[0]}"))
        note = f"edited: {', '.join((*names, *changed_members(body, changed)))}"
        return replace(
            request,
            url=url,
            body=changed,
            headers=_headers(request.headers, len(changed), unpacked=bool(codings)),
            notes=(*request.notes, note),
        )

    def _moved(self, request: SentRequest, protocol: Protocol) -> SentRequest:
        """Return the request at the endpoint that the session's route wants."""
        route = self._session.route
        moved = None if route is None else route.moved(protocol.name, request.url, request.headers)
        if moved is None or moved == (request.url, request.headers):
            return request
        return _sent_to(request, *moved)


class Sandboxed:
    """A request of a tool that is only rehearsed, sent to the tool's sandbox. Used like `Revision`."""

    __slots__ = ("_sandbox", "_session", "changed", "request")

    def __init__(self, session: Session, sandbox: str, request: SentRequest) -> None:
        self._session = session
        self._sandbox = sandbox
        self.request = request
        self.changed = False

    def __call__(self, call: Call, place: Place) -> Call:
        """Return the call at the sandbox. Raises ReplayInterrupt, which stops the session: it is sent nowhere else."""
        try:
            asked, sandbox = urlsplit(self.request.url), urlsplit(self._sandbox)
            path = sandbox.path.rstrip("/") + asked.path
            url = urlunsplit((sandbox.scheme, sandbox.netloc, path, asked.query, asked.fragment))
            headers = tuple(
                (name, sandbox.netloc.rpartition("@")[2] if name.lower() == "host" else value)
                for name, value in self.request.headers
            )
            self.request = _signed(self.request, _sent_to(self.request, url, headers))
            self.changed = True
            sent, _ = call_of(self._session.redaction, self.request, facts=self._session.observer.wants_facts)
            return replace(sent, asked=call.digest)
        except Exception as error:
            above = "" if place.parent is None else f" of {place.parent.name}"
            what = f"a request{above} cannot go to its sandbox {self._sandbox}, so it was not sent: {error}"
            raise stop(self._session, ReplayInterrupt(what)) from error


class KeyHeader:
    """The idempotency key of the tool that makes a request, put into its headers. Used like `Revision`.

    The system behind it can then tell a repeat, also where the tool's own code knows of no key.
    """

    __slots__ = ("_key", "_session", "changed", "request")

    def __init__(self, session: Session, key: str, request: SentRequest) -> None:
        self._session = session
        self._key = key
        self.request = request
        self.changed = False

    def __call__(self, call: Call, place: Place) -> Call:
        """Return the call with the key among its headers."""
        del call, place
        self.request = replace(self.request, headers=(*self.request.headers, (IDEMPOTENCY_KEY, self._key)))
        self.changed = True
        return call_of(self._session.redaction, self.request, facts=self._session.observer.wants_facts)[0]


def revision_of(
    session: Session, place: Place, call: Call, protocol: Protocol | None, request: SentRequest
) -> Revision | KeyHeader | Sandboxed | None:
    """Return what changes a request on its way out, or None: it goes as it is."""
    sandbox = sandbox_above(place) if session.mode.is_replay and call.kind is Kind.HTTP else ""
    if sandbox:
        return Sandboxed(session, sandbox, request)
    if session.edits is not None or session.route is not None:
        return Revision(session, protocol, request)
    if session.effects is None or call.kind is not Kind.HTTP or call.side_effect is not SideEffect.WRITE:
        return None
    key = key_above(place)
    if not key or call.idempotency_key or request.streamed or request.body is None:
        return None
    return KeyHeader(session, key, request)


def _sent_to(request: SentRequest, url: str, headers: Headers) -> SentRequest:
    """Return the request at another URL. Raises ConfigurationError where its transport cannot go there."""
    before, after = urlsplit(request.url), urlsplit(url)
    if (before.scheme, before.netloc) != (after.scheme, after.netloc) and not request.movable:
        raise ConfigurationError(
            f"its client has connected to {before.netloc} already and cannot be sent to {after.netloc}; tell the "
            "client itself where to go (its base URL, by --env-file)"
        )
    note = () if url == request.url else (f"edited: sent to {after.netloc} instead of {before.netloc}",)
    return replace(request, url=url, headers=headers, notes=(*request.notes, *note))


def _signed(original: SentRequest, request: SentRequest) -> SentRequest:
    """Return the request with a signature of what is sent, where its client signs body and path."""
    if not header(request.headers, "authorization").startswith("AWS4-"):
        if header(request.headers, "signature"):
            raise ConfigurationError(_SIGNED)
        return request
    headers = signed_again(original.headers, request)
    if headers is None:
        raise ConfigurationError(_SIGNED)
    return replace(request, headers=headers)


def _headers(headers: tuple[tuple[str, str], ...], size: int, *, unpacked: bool) -> tuple[tuple[str, str], ...]:
    """Return the headers that fit a body of `size` bytes."""
    kept = []
    for name, value in headers:
        lower = name.lower()
        if lower in _OF_THE_BODY or (unpacked and lower == "content-encoding"):
            continue
        kept.append((name, str(size) if lower == "content-length" else value))
    return tuple(kept)
