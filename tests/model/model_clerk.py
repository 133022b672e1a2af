"""A clerk that a real model drives: it looks an order up, pays it back, and says so.

Which tool is called is forced by what is offered, how by the JSON schema of its arguments; what stands in them is the
model's. An example before each question shows the small model that a tool is called at once.
"""

from __future__ import annotations

import json
import os
import sys

import httpx
import openai

import otel_agent_replay as replay

SYSTEM = "You are the clerk of a lamp shop. Lamps are refunded because they came broken."
ORDER = {"type": "string", "pattern": "^[0-9]{2}$"}
REASON = {"type": "string", "minLength": 12, "maxLength": 40}


def offered(name: str, **arguments: dict) -> dict:
    schema = {"type": "object", "properties": arguments, "required": [*arguments], "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": "", "parameters": schema}}


FIND = offered("find", order=ORDER)
REFUND = offered("refund", order=ORDER, reason=REASON)
EXAMPLE = [
    {"role": "user", "content": "Find order 12."},
    {
        "role": "assistant",
        "tool_calls": [
            {"id": "e", "type": "function", "function": {"name": "find", "arguments": json.dumps({"order": "12"})}}
        ],
    },
    {"role": "tool", "tool_call_id": "e", "content": "sent"},
]


@replay.tool(side_effect="read")
def find(order: str) -> dict:
    return httpx.get(f"{os.environ['SHOP_URL']}/orders/{order}", timeout=20).json()


@replay.tool(side_effect="write")
def refund(order: str, reason: str) -> dict:
    return httpx.post(f"{os.environ['PAY_URL']}/refunds", json={"order": order, "reason": reason}, timeout=20).json()


TOOLS = {"find": find, "refund": refund}


class Model:
    """The model as an openai client has it, streaming or not."""

    def __init__(self, client: openai.OpenAI, *, stream: bool) -> None:
        self.client, self.stream = client, stream

    def ask(self, messages: list[dict], **more) -> dict:
        """Return the message that it answers."""
        asked = {
            "model": "smollm2", "messages": [{"role": "system", "content": SYSTEM}, *messages],
            "temperature": 0, "seed": 7, "max_tokens": 80, **more,
        }  # fmt: skip
        if not self.stream:
            return self.client.chat.completions.create(**asked).choices[0].message.model_dump(exclude_none=True)
        with self.client.chat.completions.stream(**asked) as events:
            for _ in events:
                pass
            return events.current_completion_snapshot.choices[0].message.model_dump(exclude_none=True)

    def call(self, messages: list[dict], tool: dict) -> list[dict]:
        """Let it call one tool, call that, and return what was said and done."""
        answer = self.ask([*EXAMPLE, *messages], tools=[tool], tool_choice="required")
        (called,) = answer["tool_calls"]
        function = {"name": called["function"]["name"], "arguments": called["function"]["arguments"]}
        result = TOOLS[function["name"]](**json.loads(function["arguments"]))
        return [
            {"role": "assistant", "tool_calls": [{"id": called["id"], "type": "function", "function": function}]},
            {"role": "tool", "tool_call_id": called["id"], "content": json.dumps(result)},
        ]


@replay.agent(name="clerk")
def clerk(order: str, stream: bool) -> str:
    with openai.OpenAI(base_url=f"{os.environ['MODEL_URL']}/v1", api_key="none", max_retries=0) as client:
        model = Model(client, stream=stream)
        said = [{"role": "user", "content": f"Find order {order}."}]
        said += model.call(said, FIND)
        said += [{"role": "user", "content": f"Refund order {order}."}]
        said += model.call(said[-1:], REFUND)
        return model.ask([{"role": "user", "content": "Say that it is paid back."}], max_tokens=24)["content"]


if __name__ == "__main__":
    replay.configure()
    clerk(sys.argv[1], sys.argv[2] == "stream")
