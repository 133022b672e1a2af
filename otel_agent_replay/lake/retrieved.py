"""What a search for context found, read out of a recorded result: documents with id, source and text. Pure.

Retrievers return what their library has: texts, dictionaries, objects, pairs with a score. Owns which names mean what;
it builds no object of any class.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

_LISTS = ("documents", "results", "matches", "items", "chunks", "nodes", "hits", "data")
_IDS = ("id", "doc_id", "document_id", "chunk_id", "node_id", "_id", "key")
_SOURCES = ("source", "uri", "url", "path", "file", "filename", "title")
_TEXTS = ("text", "page_content", "content", "body", "snippet", "chunk", "passage")
_INSIDE = ("metadata", "meta", "document", "node", "_source")


class Document(NamedTuple):
    """One thing that was found. `text` None: it has none that is known as such."""

    id: str | None
    source: str | None
    text: str | None
    whole: str
    """The document as it was recorded, JSON."""


def documents(result: str) -> list[Document]:
    """Return the documents of a retriever's result, typed JSON. What is no list is one document; nothing is none."""
    try:
        value = _plain(json.loads(result))
    except (ValueError, RecursionError):
        return [Document(None, None, result, result)]
    return [_document(item) for item in _items(value)]


def _items(value: Any) -> Iterator[Any]:
    if value is None:
        return
    if isinstance(value, Mapping):
        for name in _LISTS:
            if isinstance(value.get(name), list):
                yield from value[name]
                return
    if isinstance(value, list):
        yield from value
    else:
        yield value


def _document(item: Any) -> Document:
    whole = json.dumps(item, ensure_ascii=False)
    if isinstance(item, list):  # a document with its score
        item = next((part for part in item if isinstance(part, (str, Mapping))), None)
    if isinstance(item, str):
        return Document(None, None, item, whole)
    if not isinstance(item, Mapping):
        return Document(None, None, None, whole)
    places = [item, *(item[name] for name in _INSIDE if isinstance(item.get(name), Mapping))]
    return Document(_first(places, _IDS), _first(places, _SOURCES), _first(places, _TEXTS), whole)


def _first(places: list[Mapping[str, Any]], names: tuple[str, ...]) -> str | None:
    for place in places:
        for name in names:
            value = place.get(name)
            if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
                return str(value)
    return None


def _plain(value: Any) -> Any:
    """Return typed JSON as plain JSON: of a tagged value what it holds."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "$type" not in value:
        return {name: _plain(item) for name, item in value.items()}
    fields, items = value.get("fields"), value.get("items")
    if isinstance(fields, dict):
        return {name: _plain(item) for name, item in fields.items()}
    if not isinstance(items, list):
        return value.get("text", value.get("value"))
    if value["$type"] in {"dict", "ordered_dict", "defaultdict"}:
        return {str(pair[0]): _plain(pair[1]) for pair in items if isinstance(pair, list) and len(pair) == 2}
    return [_plain(item) for item in items]
