"""What is kept of a LangGraph checkpoint, and how it is put together again.

Owns the line between the state, which a replay is held to, and what lies beside it: ids, versions and times, which
LangGraph draws anew and which nobody's answer hangs on. Pure: no session, no saver. Written and read side by side.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

CHECKPOINT = "langgraph"
"""Name of the checkpoints that stand for a LangGraph checkpoint."""

WRITES = "langgraph.writes"
"""Name of those that stand for one task's writes, which LangGraph keeps beside a checkpoint until its step is over."""

_START = "__start__"
_SENDS = "__pregel_tasks"
_BRANCH = "branch:to:"
_JOIN = "join:"


def ids_of(config: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return where in the saver a config points to: thread, namespace, checkpoint (None: the latest)."""
    configurable = (config or {}).get("configurable", {})
    return {
        "thread_id": configurable.get("thread_id"),
        "checkpoint_ns": configurable.get("checkpoint_ns", ""),
        "checkpoint_id": configurable.get("checkpoint_id"),
    }


def config_of(ids: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config that points there."""
    named = ("thread_id", "checkpoint_ns", "checkpoint_id")
    return {"configurable": {name: ids[name] for name in named if ids.get(name) is not None}}


# --- a checkpoint ---


def state_of(checkpoint: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state: the values of the channels."""
    return {name: _packed(name, value) for name, value in checkpoint["channel_values"].items()}


def beside_state(config: Mapping[str, Any], checkpoint: Mapping[str, Any], metadata: Any) -> dict[str, Any]:
    """Return everything else of a checkpoint; `config` points to its parent."""
    rest = {name: value for name, value in checkpoint.items() if name != "channel_values"}
    if "pending_sends" in rest:
        rest["pending_sends"] = _packed(_SENDS, rest["pending_sends"])
    return {"saved_at": ids_of(config), "checkpoint": rest, "metadata": metadata}


def checkpoint_from(state: Mapping[str, Any], beside: Mapping[str, Any]) -> dict[str, Any]:
    """Return the checkpoint that was saved."""
    rest = dict(beside["checkpoint"])
    if "pending_sends" in rest:
        rest["pending_sends"] = _unpacked(_SENDS, rest["pending_sends"])
    return {**rest, "channel_values": {name: _unpacked(name, value) for name, value in state.items()}}


def next_nodes(checkpoint: Mapping[str, Any]) -> list[str] | None:
    """Return the nodes that come next, in the order of their names; None where a checkpoint does not tell.

    It tells by its channels, which a `StateGraph` and an `entrypoint` name after the nodes that they set off. Other
    graphs name theirs as they like.
    """
    versions, seen = checkpoint["channel_versions"], checkpoint["versions_seen"]
    if _START not in versions:
        return None
    found = set()
    for name, value in checkpoint["channel_values"].items():
        if name == _START:
            found.add(_START)
        elif name == _SENDS:
            found.update(send.node for send in value)
        else:
            node = _set_off(name, value)
            if node and versions.get(name) != seen.get(node, {}).get(name):
                found.add(node)
    found.update(send.node for send in checkpoint.get("pending_sends") or ())
    return sorted(found)


def _set_off(channel: str, value: Any) -> str:
    """Return the node that a channel of a `StateGraph` sets off with this value, "" for none."""
    waits_for_end = isinstance(value, (tuple, list)) and len(value) == 2 and isinstance(value[1], bool)
    if waits_for_end and not value[1]:
        return ""  # of a deferred node: other nodes come first
    if channel.startswith(_BRANCH):
        return channel.removeprefix(_BRANCH)
    if channel.startswith(_JOIN):
        starts, _, node = channel.removeprefix(_JOIN).rpartition(":")
        done = value[0] if waits_for_end else value
        return node if set(starts.split("+")) <= set(done or ()) else ""
    return ""


# --- the writes of a task ---


def channels_of(writes: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return which channels a task wrote: all that a replay is held to.

    The values are no state yet. LangGraph goes on with them while they are saved: a message without an id gets one in
    place, now or a moment later. The state that they lead to is in the next checkpoint.
    """
    return {"channels": [channel for channel, _ in writes]}


def beside_channels(
    config: Mapping[str, Any], writes: Iterable[tuple[str, Any]], task_id: str, task_path: str
) -> dict[str, Any]:
    """Return the writes themselves, whose they are, and which checkpoint they lie beside."""
    kept = [[channel, _packed(channel, value)] for channel, value in writes]
    return {"saved_at": ids_of(config), "task_id": task_id, "task_path": task_path, "writes": kept}


def writes_from(beside: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the writes as they were put."""
    return [(channel, _unpacked(channel, value)) for channel, value in beside["writes"]]


# --- what a saver gave ---


def loaded_tuple(found: Any) -> dict[str, Any] | None:
    """Return what is kept of a `CheckpointTuple`."""
    if found is None:
        return None
    return {
        "at": ids_of(found.config),
        "state": state_of(found.checkpoint),
        **beside_state(found.parent_config or {}, found.checkpoint, found.metadata),
        "pending": [[task, channel, _packed(channel, value)] for task, channel, value in found.pending_writes or ()],
    }


def tuple_from(kept: Mapping[str, Any] | None) -> Any:
    """Return the `CheckpointTuple` that was given."""
    if kept is None:
        return None
    from langgraph.checkpoint.base import CheckpointTuple

    checkpoint: Any = checkpoint_from(kept["state"], kept)
    config: Any = config_of({**kept["at"], "checkpoint_id": checkpoint["id"]})
    parent: Any = config_of(kept["saved_at"]) if kept["saved_at"]["checkpoint_id"] is not None else None
    pending = [(task, channel, _unpacked(channel, value)) for task, channel, value in kept["pending"]]
    return CheckpointTuple(config, checkpoint, kept["metadata"], parent, pending)


# --- Send: the one class of LangGraph whose objects the codec has no form for ---


def _packed(channel: str, value: Any) -> Any:
    if channel != _SENDS:
        return value
    return [_plain(one) for one in value] if isinstance(value, (list, tuple)) else _plain(value)


def _plain(send: Any) -> dict[str, Any]:
    return {"node": send.node, "arg": send.arg, "timeout": getattr(send, "timeout", None)}


def _unpacked(channel: str, value: Any) -> Any:
    if channel != _SENDS:
        return value
    return [_send(one) for one in value] if isinstance(value, list) else _send(value)


def _send(kept: Mapping[str, Any]) -> Any:
    from langgraph.types import Send

    timed = {} if kept["timeout"] is None else {"timeout": kept["timeout"]}
    return Send(kept["node"], kept["arg"], **timed)
