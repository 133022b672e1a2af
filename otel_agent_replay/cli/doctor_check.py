"""What `agent-replay doctor` says of one thing that it looked at."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at. `ok` is None for a plain fact; `advice` says what to do where it is False."""

    what: str
    found: str
    ok: bool | None = None
    advice: str = ""
