"""All that a run depended on, named and digested: what a case's manifest freezes. Pure.

The same run gives the same parts whenever and wherever it is read, so that a part that differs was altered.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from otel_agent_replay import semconv
from otel_agent_replay.model import Kind, Node, Payload, RecordedRun, RecordedSpan, digest_of
from otel_agent_replay.payload.canonical import canonical_json
from otel_agent_replay.protocols import PROTOCOLS, RequestMessages

_ARTIFACTS = (Kind.TOOL, Kind.RETRIEVAL, Kind.DECISION, Kind.APPROVAL, Kind.INPUT, Kind.HTTP)


@dataclass(frozen=True, slots=True)
class Part:
    """One thing that a run depended on: `what` it is, where it lies, what is said of it, and its SHA-256 in hex.

    `step` is the step that it belongs to, None for what the whole run shares.
    """

    what: str
    name: str
    sha256: str
    step: int | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def place(self) -> tuple[str, str, int | None]:
        """What tells it from the other parts."""
        return self.what, self.name, self.step


def parts_of(recorded: RecordedRun) -> list[Part]:
    """Return the parts of a run: bundle, model snapshots, routes, prompts, tool schemas, index, policy, raw bytes."""
    found: dict[tuple[str, str, int | None], Part] = {}
    for part in [*_versions(recorded), *_models(recorded), *_raw(recorded)]:
        found.setdefault(part.place, part)
    return list(found.values())


def _versions(recorded: RecordedRun) -> Iterator[Part]:
    run = recorded.run
    versions = run.versions
    bundle = {"agent": versions.agent, "code": versions.code, "source": versions.source, "entry": run.entry}
    yield _said("bundle", run.agent, bundle)
    yield _said("packages", run.agent, dict(versions.packages))
    yield _said("policy_version", run.agent, versions.policy)
    yield _said("index_snapshot", run.agent, versions.index)
    yield _said("prompt_version", run.agent, versions.prompt)
    yield _said("tool_schema_version", run.agent, versions.tool_schema)
    yield _said("model_route", run.agent, versions.model_route)
    if recorded.input is not None:
        yield _payload("test_input", run.agent, recorded.input)


def _models(recorded: RecordedRun) -> Iterator[Part]:
    for item in recorded.spans:
        node = item.node
        if node is None or node.kind is not Kind.MODEL or node.call is None:
            continue
        attributes = {**node.call.attributes, **item.span.attributes}
        asked = str(attributes.get(semconv.REQUEST_MODEL) or node.name)
        answering = {
            "model": attributes.get(semconv.RESPONSE_MODEL),
            "fingerprint": attributes.get(semconv.OPENAI_SYSTEM_FINGERPRINT),
        }
        yield _said("model_snapshot", f"{asked} {answering['model'] or ''}".strip(), answering)
        if node.call.head is not None:
            url = node.call.head.url.partition("?")[0]
            yield _said("route", url, {"method": node.call.head.method, "url": url})
        messages = _messages(item, node, recorded.payload)
        if messages is not None and messages.tools:
            yield from (_said("tool_schema", _tool_name(tool), tool) for tool in messages.tools)
        if messages is not None and messages.system:
            yield _said("prompt", f"system of {node.name}", messages.system, step=node.step)


def _raw(recorded: RecordedRun) -> Iterator[Part]:
    """Yield the bytes of every exchange; of streams the number of pieces that they came in too."""
    for node in recorded.nodes:
        if node.step is None or node.call is None or not (node.kind is Kind.MODEL or node.kind in _ARTIFACTS):
            continue
        what = "provider_request" if node.kind is Kind.MODEL else "artifact_request"
        yield _payload(what, node.name, node.call.request, node.step)
        outcome = node.outcome
        if outcome is None or outcome.result is None:
            continue
        what = "provider_events" if node.kind is Kind.MODEL else f"{node.kind.value}_artifact"
        facts = {"pieces": len(outcome.chunks)} if outcome.chunks else {}
        yield _payload(what, node.name, outcome.result, node.step, facts)


def _said(what: str, name: str, value: Any, *, step: int | None = None) -> Part:
    facts = {"value": value} if isinstance(value, str) or (isinstance(value, Mapping) and what != "tool_schema") else {}
    return Part(what, name, digest_of(canonical_json(value)).hex(), step, facts)


def _payload(
    what: str, name: str, payload: Payload, step: int | None = None, more: Mapping[str, Any] | None = None
) -> Part:
    facts = {"media_type": payload.media_type, "bytes": payload.size, **(more or {})}
    return Part(what, name, payload.digest.hex(), step, facts)


def _messages(item: RecordedSpan, node: Node, payload: Callable[[bytes], bytes | None]) -> RequestMessages | None:
    name = item.span.attributes.get(semconv.PROTOCOL) or (node.call and node.call.attributes.get(semconv.PROTOCOL))
    protocol = PROTOCOLS.get(str(name))
    if protocol is None or node.call is None:
        return None
    request = node.call.request
    data = request.data if request.data is not None else payload(request.digest)
    return None if data is None else protocol.request_messages(data)


def _tool_name(tool: Mapping[str, Any]) -> str:
    inner = tool.get("function")
    named: Sequence[Any] = [tool.get("name"), inner.get("name") if isinstance(inner, Mapping) else None]
    return next((one for one in named if isinstance(one, str)), json.dumps(tool, sort_keys=True)[:80])
