"""What is said of a trial beside its reason: first lines of errors, last words of a process."""

from __future__ import annotations

from pathlib import Path

_LAST = 2000  # bytes of a log that are looked at
_LONGEST = 300


def first_line(text: str) -> str:
    """Return the first line that says something."""
    return next((line for line in text.splitlines() if line.strip()), "")


def with_last_words(told: str, log: Path) -> str:
    """Return `told` with the last line that a process printed: why an import failed, what was not found."""
    try:
        text = log.read_bytes()[-_LAST:].decode("utf-8", "replace")
    except OSError:
        return told
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f"{told}; it said: {lines[-1][:_LONGEST]}" if lines else told
