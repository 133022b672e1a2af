"""Small trajectories in each format, as other tools write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from otel_agent_replay.imports.files import read_file
from otel_agent_replay.imports.recording import ImportedRun
from otel_agent_replay.payload.redaction import Redaction

WRITTEN_NS = 1_764_547_200_000_000_000  # 2025-12-01T00:00:00Z


def call(name: str, arguments: dict[str, Any], call_id: str = "call_1") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def desk_messages(*, seat: str = "12A", answer: str = "Booked.") -> list[dict[str, Any]]:
    """A clerk who looks a flight up and books a seat."""
    return [
        {"role": "system", "content": "You are a clerk."},
        {"role": "user", "content": "A seat to Oslo, please."},
        {"role": "assistant", "content": None, "tool_calls": [call("search_direct_flight", {"to": "OSL"})]},
        {"role": "tool", "tool_call_id": "call_1", "name": "search_direct_flight", "content": '{"flights": ["HAT1"]}'},
        {"role": "assistant", "content": "HAT1 is free. Shall I book it?"},
        {"role": "user", "content": "Yes."},
        {"role": "assistant", "content": None, "tool_calls": [call("book_reservation", {"seat": seat})]},
        {"role": "tool", "tool_call_id": "call_1", "name": "book_reservation", "content": '{"id": "R1"}'},
        {"role": "assistant", "content": answer},
    ]


def tau_record(*, task: int = 0, trial: int = 0, reward: float = 1.0, **messages: str) -> dict[str, Any]:
    info = {"task": {"instruction": "You want a seat."}}
    return {"task_id": task, "trial": trial, "reward": reward, "info": info, "traj": desk_messages(**messages)}


def written(folder: Path, name: str, document: Any) -> Path:
    path = folder / name
    path.write_text(document if isinstance(document, str) else json.dumps(document, indent=1), encoding="utf-8")
    return path


def imported(path: Path, from_: str = "auto", *, redaction: Redaction | None = None) -> list[ImportedRun]:
    """Every run in a file, as it would be written."""
    found = read_file(path, from_)
    return [one.build(WRITTEN_NS, redaction or Redaction.default()) for one in found.recordings]


def documents() -> dict[str, Any]:
    """A small document of each format, with every part that its reader looks at."""
    at = "2025-10-06T19:24:{:02}.000001".format
    asking = {"id": "c", "name": "get_user_details", "arguments": {"user_id": "u"}}
    simulation = {
        "task_id": "8", "trial": 1, "start_time": at(0), "end_time": at(9), "termination_reason": "user_stop",
        "user_cost": 0.5, "reward_info": {"reward": 1.0},
        "messages": [
            {"role": "assistant", "content": "Hi!", "timestamp": at(1)},
            {"role": "user", "content": "Hello", "timestamp": at(2)},
            {
                "role": "assistant", "content": "", "tool_calls": [asking], "cost": 0.1, "timestamp": at(3),
                "usage": {"prompt_tokens": 7, "completion_tokens": 1}, "raw_data": {"finish_reason": "tool_calls"},
            },
            {"role": "tool", "id": "c", "content": "{}", "error": False, "timestamp": at(4)},
        ],
    }  # fmt: skip
    info = {"git_commit": "c", "agent_info": {"llm": "m", "llm_args": {"temperature": 0}}}
    history = [
        {"role": "system", "content": "Edit.", "agent": "main"},
        {"role": "user", "content": "Fix.", "agent": "main", "is_demo": False},
        {"role": "assistant", "content": "open a", "agent": "main", "tool_calls": [call("open", {"path": "a"})]},
    ]
    entry = {"action": "open a", "observation": "x", "response": "r", "execution_time": 0.5}
    stats = {"exit_status": "submitted", "submission": "d", "model_stats": {"instance_cost": 0.5, "tokens_sent": 3}}
    tool = {"toolName": "read_file", "input": {"p": 1}, "output": "o", "callId": "c", "error": "e"}
    counts = {"promptTokens": 1, "cachedTokens": 0, "responseTokens": 2, "thinkingTokens": 3}
    step = {
        "step": 1,
        "modelVersion": "v",
        "text": "t",
        "thoughts": "h",
        "toolCalls": [tool],
        "usage": counts,
        "costUsd": 1,
    }
    said = {"message": {"role": "assistant", "content": [{"type": "text", "text": "ok"}]}, "stop_reason": "stop"}
    events = [
        {"event": "span_begin", "id": "s", "name": "solve", "timestamp": at(1)},
        {
            "event": "model", "span_id": "s", "model": "m", "timestamp": at(2), "completed": at(3),
            "input": [], "input_refs": [[0, 1]], "tools": [{"name": "t"}], "config": {"seed": 1},
            "output": {"model": "m", "choices": [said], "usage": {"input_tokens": 1, "output_tokens": 1}},
            "call": {"request": {"messages": []}, "response": {"object": "chat.completion", "choices": []}},
        },
        {"event": "tool", "span_id": "s", "id": "c", "function": "f", "arguments": {}, "result": "r"},
        {"event": "span_end", "id": "s", "timestamp": at(5)},
    ]  # fmt: skip
    sample = {
        "id": 1, "epoch": 1, "input": [{"role": "user", "content": "q"}], "events": events, "attachments": {"a": "b"},
        "message_pool": [{"role": "user", "content": "q"}], "scores": {"match": {"value": "C", "explanation": "e"}},
        "messages": [{"role": "user", "content": "q"}, {"role": "tool", "content": "r", "error": {"type": "x"}}],
    }  # fmt: skip
    task = {"task": "t", "model": "m", "packages": {"inspect_ai": "1"}, "revision": {"commit": "c"}, "run_id": "r"}
    return {
        "tau-bench": [tau_record()],
        "tau2-bench": {
            "info": info,
            "tasks": [{"id": "8", "user_scenario": {"instructions": {}}}],
            "simulations": [simulation],
        },
        "swe-agent": {"trajectory": [entry, entry], "history": history, "info": stats},
        "who-and-when": {
            "question": "q",
            "mistake_step": "1",
            "mistake_agent": "x",
            "mistake_reason": "y",
            "is_correct": False,
            "history": [
                {"role": "human", "content": "q"},
                {"role": "ComputerTerminal", "content": "4"},
                {"role": "A", "content": "a"},
            ],
            "system_prompt": {"A": "You are A."},
            "question_ID": "i",
        },  # fmt: skip
        "ljoukov-llm": {"model": "m", "taskId": "t", "runIndex": 1, "result": {"text": "x", "steps": [step, step]}},
        "inspect": {"version": 2, "status": "success", "eval": task, "samples": [sample]},
        "chat": {"messages": desk_messages(), "tools": [], "model": "m", "score": 0.5},
    }
