"""Results of tau2-bench: `{info, tasks, simulations: [{task_id, trial, messages, reward_info, termination_reason}]}`.

A message tells when it was written: its step ends there, and begins where the message before was written. The greeting
that the benchmark puts first is no model's answer. The agent's instructions are not in the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from otel_agent_replay.errors import DamagedRecording
from otel_agent_replay.imports.trajectories.chat_messages import Message, called, chat_message, last_text, turns_of
from otel_agent_replay.imports.trajectories.places import identity_of, list_in, mapping_in, nanoseconds
from otel_agent_replay.imports.trajectories.tau_tools import tau_effect
from otel_agent_replay.imports.trajectories.trajectory import Said, Trajectory
from otel_agent_replay.model import RunStatus

NAME = "tau2-bench"
_STATUS = {"max_steps": RunStatus.ABORTED, "too_many_errors": RunStatus.ERROR, "agent_error": RunStatus.ERROR}
_GAPS = {
    "instructions": "the agent's instructions and tools are not in the file",
    "begin of steps": "a step is taken to begin when the message before it was written",
}


def recognises(document: Any) -> bool:
    """Whether a parsed file is such a result."""
    simulations = document.get("simulations") if isinstance(document, Mapping) else None
    return isinstance(simulations, list) and all(
        isinstance(one, Mapping) and isinstance(one.get("messages"), list) for one in simulations
    )


def read(document: Any, source: str) -> Iterator[Trajectory]:
    """Yield a trajectory for each simulation. Raises DamagedRecording, naming it, for one that is none."""
    if not recognises(document):
        raise DamagedRecording(f"{source} is no result of {NAME}: simulations with messages are wanted")
    info = document["info"] if isinstance(document.get("info"), Mapping) else {}
    agent, world = mapping_in(info, "agent_info"), mapping_in(info, "environment_info")
    model, settings = str(agent.get("llm") or ""), mapping_in(agent, "llm_args")
    tasks = {str(task.get("id")): task for task in list_in(document, "tasks", source) if isinstance(task, Mapping)}
    for number, one in enumerate(document["simulations"]):
        place = f"{source}#{number}"
        messages = list(_messages(one, place))
        reason = str(one.get("termination_reason") or "")
        task = str(one.get("task_id"))
        yield Trajectory(
            NAME,
            place,
            identity_of(one, agent, world.get("domain_name")),
            str(world.get("domain_name") or NAME),
            turns_of(messages, settings=settings, model=model, effects=tau_effect),
            input={"task_id": task, "scenario": mapping_in(tasks.get(task, {}), "user_scenario").get("instructions")},
            output=last_text(messages),
            status=_STATUS.get(reason, RunStatus.OK),
            error=reason if _STATUS.get(reason) is RunStatus.ERROR else "",
            started_ns=nanoseconds(one.get("start_time"), place),
            ended_ns=nanoseconds(one.get("end_time"), place),
            model=model,
            told=_told(one, task, reason),
            gaps=_GAPS,
            code=str(info.get("git_commit") or ""),
        )


def _told(one: Mapping[str, Any], task: str, reason: str) -> list[Said]:
    reward = mapping_in(one, "reward_info").get("reward")
    told = [
        Said("task", task),
        Said("trial", one.get("trial")),
        Said("reward", float(reward) if isinstance(reward, (int, float)) else None),
        Said("termination_reason", reason or None),
        Said("user_cost_usd", one.get("user_cost"), "what the simulated user cost"),
    ]
    return [said for said in told if said.value is not None]


def _messages(one: Mapping[str, Any], place: str) -> Iterator[Message]:
    before = nanoseconds(one.get("start_time"), place)
    for index, given in enumerate(one["messages"]):
        where = f"{place} messages[{index}]"
        if not isinstance(given, Mapping):
            raise DamagedRecording(f"{where} is no message: {str(given)[:60]!r}")
        written = nanoseconds(given.get("timestamp"), where)
        raw = mapping_in(given, "raw_data")
        failed = given.get("error") is True
        calls = given.get("tool_calls") if given.get("role") == "assistant" else None
        yield Message(
            chat_message(_chat(given, calls), where),
            asked=not (given.get("role") == "assistant" and index == 0 and not given.get("usage")),
            finish_reason=str(raw.get("finish_reason") or ""),
            usage=mapping_in(given, "usage") or None,
            cost_usd=given.get("cost") if isinstance(given.get("cost"), float) else None,
            error=str(given.get("content")) if failed else "",
            begun_ns=before if written else 0,
            ended_ns=written,
        )
        before = written or before


def _chat(given: Mapping[str, Any], calls: Any) -> dict[str, Any]:
    chat: dict[str, Any] = {"role": given.get("role"), "content": given.get("content")}
    if given.get("role") == "tool":
        chat["tool_call_id"] = given.get("id")
    if isinstance(calls, list):
        chat["tool_calls"] = [
            called(call.get("name"), call.get("arguments"), call.get("id")) if isinstance(call, Mapping) else call
            for call in calls
        ]
    return chat
