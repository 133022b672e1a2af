"""An OpenAI-compatible server on 127.0.0.1 for the demo: a support model that decides by what it has been told."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_ANSWER = "Your kettle was lost on the way, and I have paid back 49.00 for order 17. I am sorry for the trouble."


def reply_to(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the assistant message that follows: first look up, then refund, then say so."""
    done = {call["function"]["name"] for message in messages for call in message.get("tool_calls") or ()}
    if not done:
        return {"role": "assistant", "content": None, "tool_calls": [
            _tool_call("call_order", "find_order", {"order_id": "17"}),
            _tool_call("call_carrier", "shipping_state", {"order_id": "17"}),
        ]}  # fmt: skip
    if "refund" not in done:
        refund = _tool_call("call_refund", "refund", {"order_id": "17", "cents": 4900})
        return {"role": "assistant", "content": None, "tool_calls": [refund]}
    return {"role": "assistant", "content": _ANSWER}


def _tool_call(call_id: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


class _Completions(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        message = reply_to(request["messages"])
        if request.get("stream"):
            self._stream(message["content"] or "")
        else:
            self._whole(message, len(json.dumps(request["messages"])) // 4)

    def _whole(self, message: dict[str, Any], prompt_tokens: int) -> None:
        finish = "tool_calls" if message.get("tool_calls") else "stop"
        body = json.dumps(
            {
                "id": "chatcmpl-demo",
                "object": "chat.completion",
                "created": 1700000000,
                "model": "demo-model",
                "choices": [{"index": 0, "message": message, "finish_reason": finish}],
                "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": 24, "total_tokens": prompt_tokens + 24},
            }
        ).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, text: str) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        words = text.split(" ")
        for number, word in enumerate(words):
            self._event({"content": word if number == 0 else f" {word}"}, None)
        self._event({}, "stop")
        self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _event(self, delta: dict[str, Any], finish: str | None) -> None:
        event = {
            "id": "chatcmpl-demo",
            "object": "chat.completion.chunk",
            "created": 1700000000,
            "model": "demo-model",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        }
        self._chunk(b"data: " + json.dumps(event).encode() + b"\n\n")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        """Say nothing: the demo prints its own story."""


@contextmanager
def serving() -> Iterator[str]:
    """Serve on a free port while the enclosed code runs; gives the base URL for a client."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Completions)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
