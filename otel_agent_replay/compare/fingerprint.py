"""Keys of a tree's nodes, as dense integers that two trees share.

A key says what a node is, never when or under which id it ran. Keys guide pairing only: whether a pair differs
is decided by looking at both sides.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from otel_agent_replay import semconv
from otel_agent_replay.compare.substance import RunSubstance, Substance, failure_tree, without_loopback_ports
from otel_agent_replay.compare.tree import Tree, TreeNode
from otel_agent_replay.model import Kind, RecordedSpan
from otel_agent_replay.payload.canonical import canonical_json

_IDS = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b(?=\w*\d)[0-9a-f]{8,}\b|\d{5,}", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Keys:
    """One list a key, indexed as the tree's nodes.

    `exact`: name, request, answer and all below; `call`: name and request, of a node that asks nothing the calls
    below it; `head`: name and the first call in it; `shape`: names of it and all below; `name`: kind and name.
    `request`: the request alone. `size`: nodes of the subtree. `telling`: whether it asks something of its own.
    `digest` stands for the whole tree and gives a direction to a pair of trees.
    """

    exact: Sequence[int]
    call: Sequence[int]
    head: Sequence[int]
    shape: Sequence[int]
    name: Sequence[int]
    request: Sequence[int]
    size: Sequence[int]
    telling: Sequence[bool]
    digest: bytes

    def layers(self) -> tuple[Sequence[int], ...]:
        """The keys that siblings are aligned by, most telling first."""
        return (self.exact, self.call, self.head, self.shape, self.name)


class Interner:
    """Gives equal things the same small integer."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}

    def __call__(self, thing: Hashable) -> int:
        """Return the number of `thing`."""
        return self._numbers.setdefault(thing, len(self._numbers))


def label_of(recorded: RecordedSpan | None) -> str:
    """Return kind and name with everything left out that is drawn anew for each run, and a model call's model."""
    if recorded is None:
        return "run"
    node, span = recorded.node, recorded.span
    if node is None:
        return "span " + _IDS.sub("*", without_loopback_ports(span.name))
    if node.kind is Kind.RUN:
        return "run"
    name = without_loopback_ports(node.name)
    if node.kind is Kind.MODEL:
        model = span.attributes.get(semconv.REQUEST_MODEL) or ""
        if not model and node.call is not None:
            model = node.call.attributes.get(semconv.REQUEST_MODEL) or ""
        name = name.replace(str(model), "*") if model else name
    return f"{node.kind} {_IDS.sub('*', name)}"


@dataclass(frozen=True, slots=True)
class Payloads:
    """The payload digests of a tree's nodes, None where there is none: what was asked and what was answered."""

    asked: Sequence[bytes | None]
    answered: Sequence[bytes | None]

    @classmethod
    def of(cls, tree: Tree) -> Payloads:
        """Return those of a tree."""
        asked: list[bytes | None] = []
        answered: list[bytes | None] = []
        for item in tree.nodes:
            call = None if item.node is None else item.node.call
            outcome = None if item.node is None else item.node.outcome
            asked.append(None if call is None else call.digest)
            answered.append(None if outcome is None or outcome.result is None else outcome.result.digest)
        return cls(asked, answered)

    def shared(self, other: Payloads) -> frozenset[bytes]:
        """Return the digests that both trees have: equal without being looked at."""
        mine, others = {*self.asked, *self.answered}, {*other.asked, *other.answered}
        return frozenset(digest for digest in mine & others if digest is not None)


def keys_of(
    tree: Tree, payloads: Payloads, substance: RunSubstance, shared: frozenset[bytes], intern: Interner
) -> Keys:
    """Return the keys of a tree; trees to be compared use one `intern` and one `shared`."""
    count = len(tree.nodes)
    exact, call, head, shape, name, request, size = ([0] * count for _ in range(7))
    telling = [False] * count
    content: list[bytes] = []
    for node in tree.nodes:
        index = node.index
        label = label_of(node.recorded)
        asked = _asked(node, payloads.asked[index], substance, shared)
        answered = _answered(node, payloads.answered[index], substance, shared)
        place = f"{node.depth} {label}\0".encode("utf-8", "surrogatepass")
        content.append(b"".join((place, asked, b"\0", answered, b"\n")))
        name[index] = intern(("name", label))
        request[index] = intern(("request", asked))
        exact[index] = intern(("answer", answered))
        telling[index] = bool(asked)
    for node in reversed(tree.nodes):
        index, below = node.index, node.children
        asks = request[index] if telling[index] else tuple([call[child] for child in below])
        call[index] = intern(("call", name[index], asks))
        head[index] = call[index] if telling[index] or not below else intern(("head", name[index], head[below[0]]))
        if below:
            exact[index] = intern(("exact", call[index], exact[index], tuple([exact[child] for child in below])))
            shape[index] = intern(("shape", name[index], tuple([shape[child] for child in below])))
            size[index] = 1 + sum([size[child] for child in below])
        else:
            exact[index] = intern(("exact", call[index], exact[index]))
            shape[index], size[index] = intern(("shape", name[index])), 1
    digest = hashlib.blake2b(b"".join(content), digest_size=16).digest()
    return Keys(exact, call, head, shape, name, request, size, telling, digest)


def _asked(node: TreeNode, raw: bytes | None, substance: RunSubstance, shared: frozenset[bytes]) -> bytes:
    if raw is None or node.recorded is None:
        return b""
    return raw if raw in shared else _digest(substance.request(node.recorded))


def _answered(node: TreeNode, raw: bytes | None, substance: RunSubstance, shared: frozenset[bytes]) -> bytes:
    recorded = node.recorded
    if recorded is None:
        return b""
    if recorded.node is None:
        return f"{recorded.span.status_code} {recorded.span.attributes.get(semconv.ERROR_TYPE, '')}".encode()
    outcome = recorded.node.outcome
    if outcome is None:
        return b""
    failure = b"" if outcome.failure is None else canonical_json(failure_tree(outcome.failure))
    result = raw if raw is not None and raw in shared else _digest(substance.result(recorded))
    return b"\0".join((outcome.status.value.encode(), result, failure))


def _digest(found: Substance | None) -> bytes:
    if found is None:
        return b""
    unknown = b"" if found.known else found.digest
    return hashlib.blake2b(canonical_json(found.tree) + unknown, digest_size=16).digest()
