"""What payloads say, for SQL: the messages of a request, the documents of a search. Knows nothing of DuckDB.

Like `payload_text` each is a function of a pack and a number, read only where a query uses it.
"""

from __future__ import annotations

import hashlib
from typing import Any

from otel_agent_replay.lake.payload_text import PayloadTexts
from otel_agent_replay.lake.retrieved import documents

_NO_MESSAGES = frozenset({"envelope", "tools", "state"})
_BETWEEN = b", \t\r\n"


class PayloadContents:
    """The contents of the payloads of a lake. Safe to share between threads."""

    def __init__(self, texts: PayloadTexts) -> None:
        self._texts = texts

    def messages(self, pack: int | None, number: int | None) -> list[dict[str, Any]] | None:
        """Return role, SHA-256 (hex) and JSON text of each message of a request, in order.

        Large base64 contents count for the digest and are left out of the text. None for a payload that is not kept,
        or whose protocol is not known.
        """
        reader = None if pack is None else self._texts.reader(pack)
        if reader is None or number is None:
            return None
        pieces = reader.pieces(number)
        if not pieces:
            return None
        found: list[list[Any]] = []  # role, whole, shown
        inside = False  # a message was cut at its blob and goes on
        for role, data in pieces:
            if role == "blob" and found:
                found[-1][1] += data
                found[-1][2] += b"<%d bytes>" % len(data)
                inside = True
            elif inside and role == found[-1][0] and data[:1] == b'"':
                found[-1][1] += data
                found[-1][2] += data
                inside = False
            elif role not in _NO_MESSAGES and role != "blob":
                message = data.lstrip(_BETWEEN)
                found.append([role, message, message])
                inside = False
        return [
            {"role": role, "digest": hashlib.sha256(whole).hexdigest(), "text": shown.decode("utf-8", "replace")}
            for role, whole, shown in found
        ]

    def documents(self, pack: int | None, number: int | None) -> list[dict[str, Any]] | None:
        """Return id, source, SHA-256 (hex) of the text, and text of each document of a retriever's result.

        A document without a text that is known as such has the digest of its JSON. None for a payload that is not kept.
        """
        text = self._texts.text(pack, number)
        if text is None:
            return None
        return [
            {"id": one.id, "source": one.source, "digest": _digest(one.text or one.whole), "text": one.text}
            for one in documents(text)
        ]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
