"""The closed lists: kinds of crossings, side effects, answer sources, capture levels, fidelity.

Every value is stored as its lower-case text, in spans, in the lake and on the command line.
"""

from __future__ import annotations

from otel_agent_replay.model.word import Word


class Kind(Word):
    """What a node of a run is: a scope the agent opened, or a crossing of the boundary."""

    RUN = "run"  # the root: one execution of an agent
    SCOPE = "scope"  # `replay.step(...)`: a named part of the agent's own code
    CHECKPOINT = "checkpoint"  # a save-point the agent declared
    MODEL = "model"  # a request to a language model
    TOOL = "tool"  # a declared tool
    HTTP = "http"  # any other HTTP exchange
    RETRIEVAL = "retrieval"  # a search for context
    DECISION = "decision"  # a router, planner or classifier
    APPROVAL = "approval"  # a human's yes or no
    INPUT = "input"  # a user's later turn
    CLOCK = "clock"  # a read of wall or monotonic time
    SLEEP = "sleep"  # a wait
    RANDOM = "random"  # a draw of randomness
    UUID = "uuid"  # a generated identifier
    ENV = "env"  # a read of the process environment
    PROCESS = "process"  # reserved in format 1: a child process
    FILE = "file"  # reserved in format 1: a file read or written

    @property
    def is_bulk(self) -> bool:
        """Whether it is a bulk read: kept in order on the span that made it, no step of its own."""
        return self in _BULK

    @property
    def is_crossing(self) -> bool:
        """Whether it is a call across the determinism line (scopes and checkpoints are not)."""
        return self not in _SCOPES


_BULK = frozenset({Kind.CLOCK, Kind.RANDOM, Kind.UUID, Kind.ENV})
_SCOPES = frozenset({Kind.RUN, Kind.SCOPE, Kind.CHECKPOINT})


class SideEffect(Word):
    """What a crossing may change in the world. An undeclared tool counts as `EXTERNAL`."""

    NONE = "none"  # a pure computation
    READ = "read"  # reads the world
    WRITE = "write"  # changes a system that can tell a repeat by its key
    EXTERNAL = "external"  # leaves our control: mail, money, a person


class AnswerSource(Word):
    """Where a crossing's answer came from; stored with every answered crossing."""

    LIVE = "live"  # called through
    TAPE = "tape"  # this run's recording
    LEDGER = "ledger"  # the result that the ledger keeps of the same effect, or a person's decision on it
    POOL = "pool"  # another run that made the same call with the same arguments
    FIXTURE = "fixture"  # a case's prepared answer
    DRY_RUN = "dry_run"  # the tool's declared dry-run endpoint
    EDITED = "edited"  # the recording with a person's change
    INSTANT = "instant"  # a sleep that took no time
    SEEDED = "seeded"  # a generator with a declared seed
    VIRTUAL = "virtual"  # a virtual clock
    WAIT = "wait"  # a person, now
    REFUSED = "refused"  # nobody may answer


class CaptureLevel(Word):
    """How much of a payload is kept."""

    DIGEST = "digest"  # the digest only
    REDACTED = "redacted"  # the content, after every redaction rule
    FULL = "full"  # the content, after the credential rules only


class Fidelity(Word):
    """How close a recording is to what crossed the wire, best first."""

    WIRE = "wire"  # raw bytes and chunk boundaries
    EXCHANGE = "exchange"  # request and response JSON
    MESSAGES = "messages"  # normalised messages
    TEXT = "text"  # text only


class EdgeBasis(Word):
    """Whether a relation was seen or guessed; a guess is never stored as a fact."""

    RECORDED = "recorded"
    INFERRED = "inferred"
