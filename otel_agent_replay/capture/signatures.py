"""Parameters of a decorated function, read once when it is decorated."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def parameters_of(function: Callable[..., Any]) -> tuple[tuple[str, ...], bool]:
    """Return the positional parameter names without self or cls, and whether the first one is such an instance."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a builtin without a signature: arguments are recorded as `*args`
        return (), False
    names = [parameter.name for parameter in parameters if parameter.kind in _POSITIONAL]
    is_method = bool(names) and names[0] in {"self", "cls"} and "." in getattr(function, "__qualname__", "")
    return tuple(names[1:] if is_method else names), is_method


def takes(function: Callable[..., Any], name: str) -> bool:
    """Return whether the function has a parameter of that name, as far as its signature tells."""
    try:
        return name in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def defaults_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the defaults of the function's parameters by name."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return {}
    return {parameter.name: parameter.default for parameter in parameters if parameter.default is not parameter.empty}
