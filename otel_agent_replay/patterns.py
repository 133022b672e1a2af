"""Regular expressions that are compiled when they are first used.

Compiling all of ours takes a fifth of the time in which a process of ours starts, and most processes use few of them.
"""

from __future__ import annotations

import re
from typing import AnyStr, cast


class _Compiled:
    """What a compiled pattern has, as attributes of an instance: they are found as quickly as those of the pattern."""


class _Late(_Compiled):
    """Is asked for an attribute once, then is a `_Compiled`."""

    def __init__(self, text: str | bytes, flags: int) -> None:
        self._text = text
        self._flags = flags

    def __getattr__(self, name: str) -> object:
        compiled = re.compile(self._text, self._flags)
        public = {each: getattr(compiled, each) for each in dir(compiled) if not each.startswith("_")}
        self.__dict__.update(public)
        self.__class__ = _Compiled  # type: ignore[assignment]
        return getattr(self, name)


def late(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return what acts as `re.compile(text, flags)`, called at the first use. For texts known to compile.

    It is no `re.Pattern` for `isinstance`, nor for the functions of `re`: its methods are what counts.
    """
    return cast("re.Pattern[AnyStr]", _Late(text, flags))
