"""Trees of JSON back to values: the other half of `encoding`.

Never imports, evaluates or unpickles: classes are looked up among the loaded modules only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from otel_agent_replay.errors import CodecError
from otel_agent_replay.payload import arrays, containers, exceptions, http_objects, moments, objects, scalars
from otel_agent_replay.payload.kept import KeptAsText
from otel_agent_replay.payload.where import Where, show


class Decoder:
    """One decoding. Raises CodecError with the path to the bad value."""

    def value(self, tree: Any, where: Where) -> Any:
        """Return the value of `tree`, which lies at `where`."""
        kind = type(tree)
        if kind is list:
            return self.items(tree, where)
        if kind is not dict:
            return tree
        if "$type" not in tree:
            return {key: self.value(item, (where, key)) for key, item in tree.items()}
        return self._tagged(tree, where)

    def _tagged(self, tag: dict[str, Any], where: Where) -> Any:
        name = tag["$type"]
        reader = _READERS.get(name) if isinstance(name, str) else None
        if reader is None:
            raise self.error(where, f"unknown tag {name!r}: written by a newer version, or not by this codec")
        try:
            return reader(tag, self, where)
        except CodecError:
            raise
        except (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError) as error:
            masked = _masked_text(tag)
            if masked is not None:
                return KeptAsText(name, masked)
            raise self.error(where, f"bad {name}: {error}") from error

    def items(self, trees: list[Any], where: Where) -> list[Any]:
        """Return the values of a sequence."""
        return [self.value(tree, (where, index)) for index, tree in enumerate(trees)]

    def pairs(self, trees: list[Any], where: Where) -> Iterable[tuple[Any, Any]]:
        """Return the keys and values of `[key, value]` pairs."""
        return [(self.value(key, where), self.value(item, (where, str(key)))) for key, item in trees]

    @staticmethod
    def error(where: Where, text: str) -> CodecError:
        """Return the error to raise for what lies at `where`."""
        return CodecError(f"{show(where) or 'value'}: {text}")


def _masked_text(tag: dict[str, Any]) -> str | None:
    """Return the text of a scalar that redaction masked, or None: it is shown, not an error."""
    for key in ("value", "text", "base64"):
        text = tag.get(key)
        if isinstance(text, str) and ("*" in text or "[masked]" in text or "[hash:" in text):
            return text
    return None


def _read_kept(tag: dict[str, Any], decoder: Decoder, where: Where) -> KeptAsText:
    return KeptAsText(tag["class"], decoder.value(tag["text"], where), decoder.value(tag.get("fields"), where))


def _scalar_reader(read: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any], Decoder, Where], Any]:
    return lambda tag, _decoder, _where: read(tag)


_READERS: dict[str, Callable[[dict[str, Any], Decoder, Where], Any]] = {
    **{scalar.tag: _scalar_reader(scalar.read) for scalar in scalars.SCALARS},
    **moments.READERS,
    **containers.READERS,
    **arrays.READERS,
    **objects.READERS,
    **exceptions.READERS,
    **http_objects.READERS,
    "text_only": _read_kept,
}
