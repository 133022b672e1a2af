"""Reads of time by the application: the `time` module, and `datetime` at its type.

Functions of `time` are replaced in the module; `now`, `utcnow` and `today` in the types' own dicts, so that
names bound earlier and subclasses meet them too. What the event loop and other libraries read is never
touched, and waits are `sleep`'s business.

Stored values: numbers as they are; a naive datetime or a date as ISO text (with ` fold=1` after it in the
repeated hour), an aware one as integer microseconds since 1970 UTC, given back in the caller's zone.
"""

from __future__ import annotations

import datetime as dt
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, cast

from otel_agent_replay.boundary import session as _session
from otel_agent_replay.boundary.hooks import Hooks, looks_like
from otel_agent_replay.boundary.reads import Stored, session_for, taken
from otel_agent_replay.model import CoverageEntry, Kind

_getframe = sys._getframe
_CLOCK = Kind.CLOCK

NUMBERS = (
    "time",
    "time_ns",
    "monotonic",
    "monotonic_ns",
    "perf_counter",
    "perf_counter_ns",
    "process_time",
    "process_time_ns",
    "thread_time",
    "thread_time_ns",
)
"""Functions of `time` that take nothing and return a number."""

hooks = Hooks()

_UTC = dt.timezone.utc
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=_UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
_FOLD = " fold=1"
_now = vars(dt.datetime)["now"]
_today = vars(dt.date)["today"]
_time = time.time


def install() -> list[CoverageEntry]:
    """Replace the clocks; return what is covered. Does nothing when they are replaced already."""
    if not hooks:
        for name in NUMBERS:
            if hasattr(time, name):
                hooks.replace(time, name, _number(name, getattr(time, name)))
        for name, position in (("localtime", 0), ("gmtime", 0), ("ctime", 0), ("strftime", 1), ("asctime", 0)):
            hooks.replace(time, name, _formatted(name, getattr(time, name), position))
    entries = [CoverageEntry("time", "captured", "module functions, also those bound to other names in your modules")]
    return [*entries, _install_datetime(), *_NOT_COVERED]


def uninstall() -> None:
    """Put the clocks back."""
    hooks.undo()


_NOT_COVERED = (
    CoverageEntry("clock.event_loop", "not_captured", "loop.time() is the real clock; a replay's skips what timed out"),
    CoverageEntry(
        "clock.c_libraries", "not_captured", "SQL now(), file times and other clocks read inside C: record the tool"
    ),
)


def _install_datetime() -> CoverageEntry:
    datetime_type, date_type = dt.datetime, dt.date
    if vars(datetime_type)["now"] is _now:
        try:
            hooks.replace_in_type(datetime_type, "now", classmethod(_hook_now))
            hooks.replace_in_type(datetime_type, "utcnow", classmethod(_hook_utcnow))
            hooks.replace_in_type(date_type, "today", classmethod(_hook_today))
        except RuntimeError as error:
            return CoverageEntry("datetime", "not_captured", str(error))
    return CoverageEntry("datetime", "captured", "now, utcnow and today, also through subclasses")


def _number(name: str, real: Callable[[], Any]) -> Callable[[], Any]:
    full = f"time.{name}"

    @looks_like(real)
    def hook() -> Any:
        if not _session.live_sessions:
            return real()
        session = session_for(_getframe(1))
        if session is None:
            return real()
        read = None if session.reads_live else session.answer_read(_CLOCK, full)
        if read is not None:
            return read.value
        value = real()
        session.observe_read(_CLOCK, full, value)
        return value

    return hook


def _formatted(name: str, real: Callable[..., Any], position: int) -> Callable[..., Any]:
    """Return a hook for a function that takes the present when its time is left out: the present is what is read."""
    full = f"time.{name}"
    as_seconds = name in {"localtime", "gmtime", "ctime"}
    real_localtime = time.localtime

    @looks_like(real)
    def hook(*args: Any) -> Any:
        if _session.live_sessions and (len(args) == position or (as_seconds and args == (None,))):
            session = session_for(_getframe(1))
            if session is not None:
                seconds = taken(session, _CLOCK, full, _time, float, _as_float)
                return real(*args[:position], seconds if as_seconds else real_localtime(seconds))
        return real(*args)

    return hook


def _as_float(stored: Stored) -> float:
    return float(cast("float", stored))


def _hook_now(cls: type[dt.datetime], tz: dt.tzinfo | None = None) -> Any:
    """Return new datetime object with the present time, in `tz` when given."""
    if _session.live_sessions:
        session = session_for(_getframe(1))
        if session is not None:
            if tz is None:
                return taken(session, _CLOCK, "datetime.now", _now.__get__(None, cls), _text, _naive(cls))
            return taken(
                session,
                _CLOCK,
                "datetime.now(tz)",
                lambda: _now.__get__(None, cls)(tz),
                _microseconds,
                lambda stored: _aware(cls, stored, tz),
            )
    return _now.__get__(None, cls)(tz)


def _hook_utcnow(cls: type[dt.datetime]) -> Any:
    """Return a new naive datetime with the present UTC day and time."""
    if sys.version_info >= (3, 12):
        # The original would blame the line in this file.
        warnings.warn(
            "datetime.datetime.utcnow() is deprecated and scheduled for removal in a future version. Use "
            "timezone-aware objects to represent datetimes in UTC: datetime.datetime.now(datetime.UTC).",
            DeprecationWarning,
            stacklevel=2,
        )
    if _session.live_sessions:
        session = session_for(_getframe(1))
        if session is not None:
            return taken(session, _CLOCK, "datetime.utcnow", lambda: _utcnow(cls), _text, _naive(cls))
    return _utcnow(cls)


def _hook_today(cls: type[dt.date]) -> Any:
    """Return the present day, or for a datetime the present time, local and naive."""
    if _session.live_sessions:
        session = session_for(_getframe(1))
        if session is not None:
            name = "datetime.today" if issubclass(cls, dt.datetime) else "date.today"
            return taken(session, _CLOCK, name, _today.__get__(None, cls), _text, _naive(cls))
    return _today.__get__(None, cls)()


def _utcnow(cls: type[dt.datetime]) -> dt.datetime:
    now: dt.datetime = _now.__get__(None, cls)(_UTC)
    return now.replace(tzinfo=None)


def _text(value: Any) -> str:
    return value.isoformat() + _FOLD if getattr(value, "fold", 0) else str(value.isoformat())


def _naive(cls: Any) -> Callable[[Stored], Any]:
    def decode(stored: Stored) -> Any:
        text = str(stored)
        if text.endswith(_FOLD):
            return cls.fromisoformat(text[: -len(_FOLD)]).replace(fold=1)
        return cls.fromisoformat(text)

    return decode


def _microseconds(value: dt.datetime) -> int:
    return (value - _EPOCH) // _MICROSECOND


def _aware(cls: type[dt.datetime], stored: Stored, tz: dt.tzinfo) -> dt.datetime:
    moment = (_EPOCH + int(cast("int", stored)) * _MICROSECOND).astimezone(tz)
    return cls.combine(moment.date(), moment.timetz())


for _hook, _original in (
    (_hook_now, _now),
    (_hook_utcnow, vars(dt.datetime)["utcnow"]),
    (_hook_today, _today),
):
    _hook.__name__ = _original.__name__
    _hook.__qualname__ = _original.__qualname__
