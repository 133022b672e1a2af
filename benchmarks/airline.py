"""The airline trajectories as runs: an agent whose model and tools answer what was recorded there.

The corpus is `tau-bench/gpt-4o-airline.tasks0-11.4trials.json` below OTEL_AGENT_REPLAY_DATA (default: ../shared/data
beside the checkout): 48 conversations, 698 model steps.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import httpx2

import otel_agent_replay as replay

FILE = "tau-bench/gpt-4o-airline.tasks0-11.4trials.json"
URL = "https://api.openai.com/v1/chat/completions"


def corpus() -> list[dict[str, Any]] | None:
    """Return the trajectories, or None where they are not to be had."""
    folder = os.environ.get("OTEL_AGENT_REPLAY_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data"
    path = Path(folder) / FILE
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def exchanges(trajectory: list[dict[str, Any]]) -> list[tuple[bytes, bytes]]:
    """Return the request and response body of each model step, as OpenAI's API would have carried them."""
    pairs = []
    for number, message in enumerate(trajectory):
        if message["role"] == "assistant":
            request = json.dumps({"model": "gpt-4o", "messages": trajectory[:number]}).encode()
            finish = "tool_calls" if message.get("tool_calls") else "stop"
            response = {
                "id": f"chatcmpl-{number:06d}",
                "object": "chat.completion",
                "created": 1700000000 + number,
                "model": "gpt-4o-2024-08-06",
                "choices": [{"index": 0, "message": message, "finish_reason": finish}],
                "usage": {
                    "prompt_tokens": len(request) // 4,
                    "completion_tokens": 40,
                    "total_tokens": len(request) // 4 + 40,
                },
            }
            pairs.append((request, json.dumps(response).encode()))
    return pairs


def tool_named(name: str):
    """Return a declared tool of that name that answers what it is given beside its arguments."""
    answers: list[Any] = []

    @replay.tool(name=name, side_effect="write" if name.startswith(("book", "cancel", "update", "send")) else "read")
    def call(**arguments: Any) -> Any:
        return answers.pop()

    return call, answers


class Airline:
    """Runs trajectories through the recorder, over a transport that answers from them."""

    def __init__(self) -> None:
        self._answers: list[bytes] = []
        self._client = httpx2.Client(transport=httpx2.MockTransport(self._respond))
        self._tools: dict[str, Any] = {}
        self.run = replay.agent(name="airline", version="1")(self._run)

    def _respond(self, request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "application/json"}, content=self._answers.pop())

    def _run(self, task: int, trial: int) -> str:
        return self._follow(self.trajectory)

    def drive(self, record: dict[str, Any]) -> None:
        """Record one trajectory as a run."""
        self.trajectory = record["traj"]
        self.run(record["task_id"], record["trial"])

    def _follow(self, trajectory: list[dict[str, Any]]) -> str:
        pairs = iter(exchanges(trajectory))
        last = ""
        calls: list[dict[str, Any]] = []
        for message in trajectory:
            if message["role"] == "assistant":
                request, response = next(pairs)
                self._answers.append(response)
                reply = self._client.post(
                    URL, content=request, headers={"content-type": "application/json", "authorization": "Bearer none"}
                )
                reply.json()
                calls = list(message.get("tool_calls") or ())
                last = message.get("content") or last
            elif message["role"] == "tool" and calls:
                call = calls.pop(0)["function"]
                if call["name"] not in self._tools:
                    self._tools[call["name"]] = tool_named(call["name"])
                tool, answers = self._tools[call["name"]]
                answers.append(message["content"])
                tool(**json.loads(call["arguments"]))
        return last
