"""Real provider recordings as HTTP exchanges: reads every format of the shared data folder, independent of the product.

The folder is `$OTEL_AGENT_REPLAY_DATA`, else `../shared/data` beside the checkout; its `INDEX.tsv` names the files.
Bodies are given unpacked; `stored_body` is what the file holds (some cassettes keep gzip bytes, some plain text under
the same header). Files without a request (bare streams) get a small request of the right protocol, and say so.

    for exchange in load_exchanges(providers={"openai", "anthropic"}): ...
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

FAMILIES = {
    "openai": frozenset(
        "openai openai-chat openai-responses openai-completions openai-compatible azure azure-openai "
        "bedrock-mantle-openai alibaba cerebras crusoe deepseek groq huggingface mistral moonshotai open-responses "
        "openrouter perplexity snowflake together vllm writer xai zai ollama local-llamacpp".split()
    ),
    "anthropic": frozenset({"anthropic"}),
}
"""Which `provider_api` values of the index a family holds; any other value is a family of its own."""

_HOSTS = {
    "alibaba": "dashscope-intl.aliyuncs.com/compatible-mode",
    "azure": "example.openai.azure.com/openai",
    "cohere": "api.cohere.com",
    "deepseek": "api.deepseek.com",
    "groq": "api.groq.com/openai",
    "mistral": "api.mistral.ai",
    "moonshotai": "api.moonshot.ai",
    "perplexity": "api.perplexity.ai",
    "xai": "api.x.ai",
    "open-responses": "127.0.0.1:1234",
    "anthropic": "api.anthropic.com",
    "google": "generativelanguage.googleapis.com",
    "amazon-bedrock": "bedrock-runtime.us-east-1.amazonaws.com",
}
_STREAMS = {"amazon-bedrock": "application/vnd.amazon.eventstream"}


@dataclass(frozen=True)
class RecordedHttpExchange:
    """One request and its answer. Headers are pairs in recorded order; `source` is `file#number` in the data folder."""

    method: str
    url: str
    request_headers: list[tuple[str, str]]
    request_body: bytes
    status: int
    response_headers: list[tuple[str, str]]
    response_body: bytes
    source: str
    provider_api: str = ""
    stored_body: bytes = b""
    request_recorded: bool = True

    @property
    def media_type(self) -> str:
        return header(self.response_headers, "content-type").partition(";")[0].strip().lower()

    @property
    def path(self) -> str:
        return self.url.partition("?")[0].partition("#")[0]


def data_folder() -> Path | None:
    """The folder of recordings, or None where there is none on this machine."""
    named = os.environ.get("OTEL_AGENT_REPLAY_DATA")
    folder = Path(named) if named else Path(__file__).parents[3] / "shared" / "data"
    return folder if (folder / "INDEX.tsv").is_file() else None


def load_exchanges(
    providers: Iterable[str] | None = None, *, folder: Path | None = None
) -> Iterator[RecordedHttpExchange]:
    """Every exchange of the given families (all when None). FileNotFoundError where there is no data folder."""
    root = folder or data_folder()
    if root is None:
        raise FileNotFoundError("no recordings: set OTEL_AGENT_REPLAY_DATA to the data folder")
    wanted = None if providers is None else set(providers)
    for path, api, kind in _index(root):
        if wanted is not None and _family(api) not in wanted:
            continue
        for exchange in _READERS[kind](root / path, api):
            yield _placed(exchange, path)
    if wanted is None or "openai" in wanted:
        yield from _paired_files(root)
        yield from _local_server(root)


def header(headers: Iterable[tuple[str, str]], name: str) -> str:
    """The first value of a header, "" where it is absent."""
    return next((value for key, value in headers if key.lower() == name), "")


def unpacked(body: bytes, encoding: str) -> bytes:
    """The body without its content coding; as it is when it was stored unpacked already or the coding is not ours."""
    try:
        if "gzip" in encoding and body[:2] == b"\x1f\x8b":
            return gzip.decompress(body)
        if "deflate" in encoding:
            return zlib.decompress(body)
    except (OSError, zlib.error):
        return body
    return body


def load_yaml(text: bytes) -> Any:
    """A YAML document by a safe loader; `!!python/object` strings (header names of old recorders) become plain text."""
    return yaml.load(text, Loader=_SafeLoader)


class _SafeLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    pass


def _python_text(loader: yaml.SafeLoader, _suffix: str, node: yaml.Node) -> Any:
    if isinstance(node, yaml.SequenceNode):
        values = loader.construct_sequence(node)
        return str(values[0]) if values else ""
    return str(loader.construct_scalar(node))


_SafeLoader.add_multi_constructor("tag:yaml.org,2002:python/", _python_text)


def _index(root: Path) -> list[tuple[str, str, str]]:
    with (root / "INDEX.tsv").open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        found = [(row["path"], row["provider_api"], row["format"].partition(" ")[0]) for row in rows]
    return [row for row in found if row[2] in _READERS]


def _family(api: str) -> str:
    return next((family for family, members in FAMILIES.items() if api in members), api)


def _placed(exchange: RecordedHttpExchange, path: str) -> RecordedHttpExchange:
    number = exchange.source.partition("#")[2]
    return replace(exchange, source=f"{path}#{number}" if number else path)


def _vcr(path: Path, api: str) -> Iterator[RecordedHttpExchange]:
    for number, interaction in enumerate(load_yaml(path.read_bytes())["interactions"]):
        if "request" not in interaction:
            continue
        request, response = interaction["request"], interaction["response"]
        headers = _pairs(response.get("headers"))
        stored = _vcr_response_body(response)
        status = response["status"]["code"] if "status" in response else response["status_code"]
        yield RecordedHttpExchange(
            method=request["method"],
            url=request["uri"],
            request_headers=_pairs(request.get("headers")),
            request_body=_bytes(request["parsed_body"] if "parsed_body" in request else request.get("body")),
            status=int(status),
            response_headers=headers,
            response_body=unpacked(stored, header(headers, "content-encoding")),
            source=f"{path.name}#{number}",
            provider_api=api,
            stored_body=stored,
        )


def _vcr_response_body(response: dict[str, Any]) -> bytes:
    if "parsed_body" in response:
        return _bytes(response["parsed_body"])
    body = response.get("body", response.get("content"))
    return _bytes(body.get("string") if isinstance(body, dict) else body)


def _dd_json(path: Path, api: str) -> Iterator[RecordedHttpExchange]:
    document = json.loads(path.read_bytes())
    request, response = document["request"], document["response"]
    headers = _pairs(response["headers"])
    stored = _bytes(response["body"])
    yield RecordedHttpExchange(
        method=request["method"],
        url=request["url"],
        request_headers=_pairs(request["headers"]),
        request_body=_bytes(request["body"]),
        status=int(response["status"]["code"]),
        response_headers=headers,
        response_body=unpacked(stored, header(headers, "content-encoding")),
        source=path.name,
        provider_api=api,
        stored_body=stored,
    )


def _nock(path: Path, api: str) -> Iterator[RecordedHttpExchange]:
    for number, entry in enumerate(json.loads(path.read_bytes())):
        response = entry["response"]
        raw = _hex(response) if isinstance(response, str) else _bytes(response)
        yield RecordedHttpExchange(
            method=entry["method"],
            url=entry["scope"] + entry["path"],
            request_headers=_pairs(entry.get("reqheaders")),
            request_body=_bytes(entry.get("body")),
            status=int(entry["status"]),
            response_headers=_raw_pairs(entry.get("rawHeaders") or entry.get("responseHeaders")),
            response_body=raw,
            source=f"{path.name}#{number}",
            provider_api=api,
            stored_body=raw,
        )


def _hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return text.encode()


def _sse_raw(path: Path, api: str) -> Iterator[RecordedHttpExchange]:
    beside = path.with_name(path.name.replace("response.txt", "request.json"))
    request = beside.read_bytes() if beside != path and beside.is_file() else None
    yield _bare_stream(path, api, path.read_bytes(), request)


def _chunks(path: Path, api: str) -> Iterator[RecordedHttpExchange]:
    """Event payloads, one a line. Some files hold several answers in a row: cut after each answer's last event."""
    answers: list[list[bytes]] = [[]]
    for line in path.read_bytes().split(b"\n"):
        if line.strip():
            answers[-1].append(line)
            if b'"type":"message_stop"' in line or b'"type":"response.completed"' in line:
                answers.append([])
    for number, lines in enumerate(filter(None, answers)):
        if api == "anthropic":
            framed = [b"event: %s\ndata: %s\n\n" % (_event_name(line), line) for line in lines]
        elif api == "amazon-bedrock":
            framed = [_aws_frame(line) for line in lines]
        else:
            framed = [b"data: %s\n\n" % line for line in lines]
        exchange = _bare_stream(path, api, b"".join(framed), None)
        yield replace(exchange, source=f"{path.name}#{number}") if len(answers) > 2 else exchange


def _event_name(line: bytes) -> bytes:
    return str(json.loads(line).get("type", "message")).encode()


def _aws_frame(line: bytes) -> bytes:
    """The event of a line, `{"name": {...}}`, as a binary frame: what Bedrock's servers send."""
    ((name, value),) = json.loads(line).items()
    headers = b""
    for key, text in ((":event-type", name), (":content-type", "application/json"), (":message-type", "event")):
        headers += bytes([len(key)]) + key.encode() + b"\x07" + struct.pack(">H", len(text)) + text.encode()
    payload = json.dumps(value, ensure_ascii=False).encode()
    start = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    data = start + struct.pack(">I", zlib.crc32(start)) + headers + payload
    return data + struct.pack(">I", zlib.crc32(data))


def _bare_stream(path: Path, api: str, body: bytes, request: bytes | None) -> RecordedHttpExchange:
    if api == "anthropic":
        ending, made_up = "/v1/messages", {"max_tokens": 1024, "messages": [{"role": "user", "content": "recorded"}]}
    elif api == "amazon-bedrock":
        ending, made_up = "/model/recorded/converse-stream", {"messages": [{"role": "user", "content": []}]}
    elif api == "google" and b'"event_type"' in body:
        ending, made_up = "/v1beta/interactions", {"input": "recorded"}
    elif api == "google":
        ending = "/v1beta/models/recorded:streamGenerateContent?alt=sse"
        made_up = {"contents": [{"role": "user", "parts": [{"text": "recorded"}]}]}
    elif api == "cohere":
        ending, made_up = "/v2/chat", {"messages": [{"role": "user", "content": "recorded"}]}
    elif b'"type":"response.' in body or b'"type": "response.' in body:
        ending, made_up = "/v1/responses", {"input": "recorded"}
    elif b'"object":"text_completion"' in body:
        ending, made_up = "/v1/completions", {"prompt": "recorded"}
    else:
        ending, made_up = "/v1/chat/completions", {"messages": [{"role": "user", "content": "recorded"}]}
        if b"[DONE]" not in body[-64:]:
            body += b"data: [DONE]\n\n"
    return RecordedHttpExchange(
        method="POST",
        url=f"https://{_HOSTS.get(api, 'api.openai.com')}{ending}",
        request_headers=[("content-type", "application/json")],
        request_body=request or _bytes({**made_up, "model": "recorded", "stream": True}),
        status=200,
        response_headers=[("content-type", _STREAMS.get(api, "text/event-stream"))],
        response_body=body,
        source=path.name,
        provider_api=api,
        stored_body=body,
        request_recorded=request is not None,
    )


def _paired_files(root: Path) -> Iterator[RecordedHttpExchange]:
    """Plain request and response files side by side, which the index leaves out."""
    for path in sorted((root / "ms-agent-framework").glob("*/*/response.json")):
        request = path.with_name("request.json")
        endings = {"ChatCompletions": "/v1/chat/completions", "Responses": "/v1/responses"}
        ending = endings.get(path.parts[-3])
        if ending is None or not request.is_file():
            continue
        body = path.read_bytes()
        yield RecordedHttpExchange(
            method="POST",
            url=f"https://api.openai.com{ending}",
            request_headers=[("content-type", "application/json")],
            request_body=request.read_bytes(),
            status=400 if b'"error": {' in body[:40] or b'"error":{' in body[:40] else 200,
            response_headers=[("content-type", "application/json")],
            response_body=body,
            source=str(path.relative_to(root)),
            provider_api="openai-chat" if ending.endswith("completions") else "openai-responses",
            stored_body=body,
        )


def _local_server(root: Path) -> Iterator[RecordedHttpExchange]:
    """A local llama.cpp server's exchanges."""
    for path in sorted((root / "local-llamacpp").glob("*.wire.json")):
        name = path.name.removesuffix(".wire.json")
        wire = json.loads(path.read_bytes())
        headers = [tuple(line.split(": ", 1)) for line in wire["headers"]]
        body = path.with_name(f"{name}.response.body").read_bytes()
        ending = "/v1/completions" if name.startswith("completion") else "/v1/chat/completions"
        yield RecordedHttpExchange(
            method="POST",
            url=f"http://127.0.0.1:8080{ending}",
            request_headers=[("content-type", "application/json")],
            request_body=path.with_name(f"{name}.request.json").read_bytes(),
            status=int(wire["status_line"].split()[1]),
            response_headers=[(key, value) for key, value in headers],
            response_body=body,
            source=str(path.relative_to(root)),
            provider_api="local-llamacpp",
            stored_body=body,
        )


def _pairs(headers: Any) -> list[tuple[str, str]]:
    pairs = []
    for key, value in (headers or {}).items():
        for item in value if isinstance(value, list) else [value]:
            pairs.append((str(key), str(item)))
    return pairs


def _raw_pairs(headers: Any) -> list[tuple[str, str]]:
    if isinstance(headers, list):
        return [(str(headers[at]), str(headers[at + 1])) for at in range(0, len(headers) - 1, 2)]
    return _pairs(headers)


def _bytes(value: Any) -> bytes:
    if value is None:
        return b""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


_READERS = {
    "vcr-yaml": _vcr,
    "vcr-yaml-parsed": _vcr,
    "dd-json": _dd_json,
    "nock-json": _nock,
    "sse-raw": _sse_raw,
    "chunks-jsonl": _chunks,
}
