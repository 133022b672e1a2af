"""A value held against a JSON Schema, with errors for people: where, what is wrong, what was meant.

Knows what `case.schema.json` uses: type, properties, required, additionalProperties, items, minItems, enum, minimum,
pattern, $ref into $defs, oneOf as "exactly one of these keys" of a mapping, and anyOf as forms of different types. Any
other validator takes the same file.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
_NAMED = {"object": "a mapping", "array": "a list", "string": "a text", "boolean": "true or false", "null": "empty"}
_LONGEST = 60


def problems(value: Any, schema: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with `value`, one line each: `fixtures[0].attempts[1]: unknown key ...`."""
    return list(_problems(value, schema, schema.get("$defs", {}), ""))


def _problems(value: Any, schema: Mapping[str, Any], defs: Mapping[str, Any], where: str) -> Iterator[str]:
    reference = schema.get("$ref")
    if reference is not None:
        schema = {**defs[reference.rpartition("/")[2]], **{k: v for k, v in schema.items() if k != "$ref"}}
    if "anyOf" in schema:
        schema = _form(value, schema["anyOf"], defs)
    wanted = schema.get("type")
    if wanted is not None and not _is_any(value, [wanted] if isinstance(wanted, str) else wanted):
        names = [wanted] if isinstance(wanted, str) else wanted
        told = " or ".join(_NAMED.get(name, f"a {name}") for name in names)
        yield f"{where or 'the case'}: {_shown(value)} is not {told}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where}: {_shown(value)} is not one of {', '.join(_shown(one) for one in schema['enum'])}"
    if "minimum" in schema and isinstance(value, (int, float)) and value < schema["minimum"]:
        yield f"{where}: {value} is below {schema['minimum']}"
    if "pattern" in schema and isinstance(value, str) and re.search(schema["pattern"], value) is None:
        yield f"{where}: {_shown(value)} is not of the form {schema['pattern']}"
    if isinstance(value, dict):
        yield from _of_mapping(value, schema, defs, where)
    elif isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            yield f"{where}: needs at least {schema['minItems']}"
        for number, item in enumerate(value):
            yield from _problems(item, schema.get("items", {}), defs, f"{where}[{number}]")


def _form(value: Any, forms: list[Mapping[str, Any]], defs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the form that a value of this type must fit; where none has its type, one that names all types."""
    resolved = [defs[form["$ref"].rpartition("/")[2]] if "$ref" in form else form for form in forms]
    fitting = next((form for form in resolved if _is_any(value, [form["type"]])), None)
    return {"type": [form["type"] for form in resolved]} if fitting is None else fitting


def _of_mapping(value: dict[Any, Any], schema: Mapping[str, Any], defs: Mapping[str, Any], where: str) -> Iterator[str]:
    known = schema.get("properties", {})
    rest = schema.get("additionalProperties", True)
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{where or 'the case'}: {name!r} is missing"
    for key, item in value.items():
        path = f"{where}.{key}" if where else str(key)
        if key in known:
            yield from _problems(item, known[key], defs, path)
        elif rest is False:
            near = difflib.get_close_matches(str(key), known, n=1)
            meant = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
            yield f"{where or 'the case'}: unknown key {key!r}; {meant}"
        elif isinstance(rest, dict):
            yield from _problems(item, rest, defs, path)
    choices = [choice["required"][0] for choice in schema.get("oneOf", ())]
    given = [name for name in choices if name in value]
    if choices and len(given) != 1:
        told = "none of them" if not given else " and ".join(given)
        yield f"{where}: exactly one of {', '.join(choices)} belongs here; there is {told}"


def _is_any(value: Any, names: list[str]) -> bool:
    for name in names:
        if isinstance(value, bool) and name != "boolean":
            continue
        if isinstance(value, _TYPES[name]):
            return True
    return False


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
