"""OTLP/HTTP JSON -> the protobuf message that it stands for, leaving out what cannot be read. Pure.

OTLP JSON differs from protobuf's own in that ids are hexadecimal. Texts with half a surrogate pair, which JavaScript
writes where it cuts a text, get it as an escape: UTF-8 cannot hold it.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from typing import Any

from google.protobuf import json_format

from otel_agent_replay.otlp.values import text_to_otlp

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2})+\Z")
_IDS = ("traceId", "spanId", "parentSpanId", "trace_id", "span_id", "parent_span_id")
_GROUPS = ("resourceSpans", "resource_spans", "resourceLogs", "resource_logs")
_SCOPES = ("scopeSpans", "scope_spans", "scopeLogs", "scope_logs")
_ITEMS = ("spans", "logRecords", "log_records")


def request_from_json(data: bytes, message_class: Any) -> tuple[Any, int, str]:
    """Return the message of a JSON request, how many of its items were left out, and why the first of them was.

    Raises ValueError for what is no such request at all.
    """
    document = _document(data)
    lists = list(_item_lists(document))
    for items in lists:
        for item in items:
            _with_ids_in_base64(item)
    try:
        return _parsed(document, message_class), 0, ""
    except json_format.ParseError as error:
        whole = error
    left_out, why = 0, ""
    for items in lists:
        good = []
        for item in items:
            reason = _unreadable(item, message_class)
            if reason:
                left_out, why = left_out + 1, why or reason
            else:
                good.append(item)
        items[:] = good
    if not left_out:
        raise ValueError(str(whole)) from whole
    try:
        return _parsed(document, message_class), left_out, why
    except json_format.ParseError as error:
        raise ValueError(str(error)) from error


def _document(data: bytes) -> dict[str, Any]:
    try:
        document = json.loads(data)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(document, dict):
        raise ValueError("it is no JSON object")  # noqa: TRY004 - what the caller refuses is a value
    return _without_lone_surrogates(document) if _SURROGATE.search(data) else document


def _item_lists(document: dict[str, Any]) -> Iterator[list[Any]]:
    for group in _members(document, _GROUPS):
        for scoped in _members(group, _SCOPES):
            for name in _ITEMS:
                items = scoped.get(name)
                if isinstance(items, list):
                    yield items


def _members(document: dict[str, Any], names: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    for name in names:
        found = document.get(name)
        for one in found if isinstance(found, list) else ():
            if isinstance(one, dict):
                yield one


def _with_ids_in_base64(item: Any) -> None:
    if not isinstance(item, dict):
        return
    for name in _IDS:
        found = item.get(name)
        if isinstance(found, str) and _HEX.match(found):
            item[name] = base64.b64encode(bytes.fromhex(found)).decode()
    links = item.get("links")
    for link in links if isinstance(links, list) else ():
        _with_ids_in_base64(link)


def _parsed(document: Any, message_class: Any) -> Any:
    try:
        return json_format.ParseDict(document, message_class(), ignore_unknown_fields=True)
    except (json_format.ParseError, RecursionError) as error:
        raise json_format.ParseError(str(error)) from error
    except Exception as error:  # a value of a wrong type, in a way that the parser did not foresee
        raise json_format.ParseError(f"{type(error).__name__}: {error}") from error


def _unreadable(item: Any, message_class: Any) -> str:
    """Return why an item cannot be read, "" when it can."""
    is_log = "Logs" in message_class.DESCRIPTOR.name
    group = {"scopeLogs": [{"logRecords": [item]}]} if is_log else {"scopeSpans": [{"spans": [item]}]}
    try:
        _parsed({"resourceLogs" if is_log else "resourceSpans": [group]}, message_class)
    except json_format.ParseError as error:
        return str(error)
    return ""


def _without_lone_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return text_to_otlp(value)
    if isinstance(value, dict):
        return {text_to_otlp(key): _without_lone_surrogates(item) for key, item in value.items()}
    return [_without_lone_surrogates(item) for item in value] if isinstance(value, list) else value
