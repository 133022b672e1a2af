"""What every closed list of texts derives from."""

from __future__ import annotations

import enum


class Word(str, enum.Enum):
    """A word of a vocabulary: compares, hashes, prints and serialises as its text."""

    __hash__ = str.__hash__  # the one of Enum is a Python function, called at every lookup by a word
    __str__ = str.__str__
