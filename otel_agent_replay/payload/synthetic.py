"""Made-up values in the place of real ones: the same value gives the same made-up one under one key.

A made-up value has the form of the real one, so that code which looks at it goes the same way: as many characters and
bytes, letters for letters in the same case, digits for digits, all else as it is; a card keeps its valid check digit, a
mail address ends in `.test`. Owns the making of values. Pure.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import unicodedata
from collections.abc import Callable, Iterator

EMAIL, PHONE, CARD, NUMBER, TEXT = "email", "phone", "card", "number", "text"
_MOST_TRIES = 64
_BLOCK = 64  # code points that differ in the last byte of UTF-8 alone
_TEST = ".test"


class SyntheticValues:
    """Makes values under a key. Two values never become the same one."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._made: dict[tuple[str, str], str] = {}
        self._taken: dict[str, str] = {}

    def of(self, value: str, sort: str = TEXT) -> str:
        """Return the made-up value. `sort` is email, phone, card, number or text.

        Spelling in capitals and the marks between the digits of a number make no other value of it.

        >>> len(SyntheticValues(b"k").of("ann@example.org", "email"))
        15
        """
        plain = plain_of(value, sort)
        made = self._made.get((sort, plain))
        if made is None:
            made = self._made[sort, plain] = self._new(plain, sort)
        return _dressed(made, value, sort)

    def _new(self, plain: str, sort: str) -> str:
        """Return a form that no other value has; where so many are taken that none is found, any."""
        made = plain
        for number in range(_MOST_TRIES):
            made = _MAKERS[sort](plain, _Draws(self._key, f"{sort} {number} {plain}"), self)
            if made != plain and self._taken.setdefault(made, plain) == plain:
                break
        return made

    def domain(self, domain: str) -> str:
        """Return a domain that cannot exist, the same for the same one."""
        made = self._made.get(("domain", domain))
        if made is None:
            made = self._made["domain", domain] = _domain(domain, _Draws(self._key, f"domain {domain}"))
        return made


class _Draws:
    """Numbers drawn from a key and a seed, the same ones each time."""

    def __init__(self, key: bytes, seed: str) -> None:
        self._key = key
        self._seed = seed.encode("utf-8", "surrogatepass")
        self._bytes = self._drawn()

    def below(self, limit: int) -> int:
        return (next(self._bytes) << 16 | next(self._bytes) << 8 | next(self._bytes)) % limit

    def _drawn(self) -> Iterator[int]:
        number = 0
        while True:
            yield from hmac.new(self._key, number.to_bytes(4, "big") + self._seed, hashlib.sha256).digest()
            number += 1


def plain_of(value: str, sort: str) -> str:
    """Return what makes the value in all its spellings: small letters, and of a number its letters and digits alone."""
    small = "".join(_small(character) for character in value)
    return "".join(filter(str.isalnum, small)) if sort in (PHONE, CARD, NUMBER) else small


def _dressed(made: str, value: str, sort: str) -> str:
    """Return the made-up letters and digits in the value's own spelling: capitals, and marks in between."""
    if sort not in (PHONE, CARD, NUMBER):
        shouted = value.isupper()  # what has no capitals of its own, like a mark in a domain, gets them too
        return "".join(
            _as_big(character, "A" if shouted else like) for character, like in zip(made, value, strict=True)
        )
    characters = iter(made)
    return "".join(_as_big(next(characters), like) if like.isalnum() else like for like in value)


def _small(character: str) -> str:
    """Return the small letter, if it is as long in bytes and characters."""
    small = character.lower()
    return small if len(small) == 1 and len(small.encode("utf-8", "surrogatepass")) == _size(character) else character


def _as_big(character: str, like: str) -> str:
    big = character.upper()
    return big if like.isupper() and len(big) == 1 and _size(big) == _size(character) else character


def _size(character: str) -> int:
    return len(character.encode("utf-8", "surrogatepass"))


# --- what is made -----------------------------------------------------------------------------------------------


_WORD = re.compile(r"\w+")


def _text(plain: str, draws: _Draws, values: SyntheticValues) -> str:
    """Make each word by itself, so that a name in part is a part of the made-up name."""
    words = _WORD.findall(plain)
    if words == [plain]:
        return _word(plain, draws)
    return _WORD.sub(lambda match: values.of(match[0], TEXT), plain)


def _word(plain: str, draws: _Draws) -> str:
    made = "".join(_character(character, draws) for character in plain)
    # A number may stand without quotes, where a leading zero is none.
    return "1" + made[1:] if plain.isdigit() and plain[0] != "0" and made[0] == "0" else made


def _character(character: str, draws: _Draws) -> str:
    if "a" <= character <= "z":
        return chr(ord("a") + draws.below(26))
    if "A" <= character <= "Z":
        return chr(ord("A") + draws.below(26))
    if "0" <= character <= "9":
        return chr(ord("0") + draws.below(10))
    return character if character < "\x80" or not character.isalpha() else _foreign(character, draws)


def _foreign(character: str, draws: _Draws) -> str:
    """Return another letter of the same category, as long in UTF-8 and as a JSON escape."""
    first = ord(character) // _BLOCK * _BLOCK
    category = unicodedata.category(character)
    like = [chr(code) for code in range(first, first + _BLOCK) if unicodedata.category(chr(code)) == category]
    # A letter without a capital of its own, like a sharp s, would not come back from capitals as the same one.
    like = [letter for letter in like if category != "Ll" or len(letter.upper()) == 1] or like
    fit = [one for one in like if _size(one) == _size(character)]
    return fit[draws.below(len(fit))] if fit else character


def _email(plain: str, draws: _Draws, values: SyntheticValues) -> str:
    local, _, domain = plain.rpartition("@")
    return f"{_word(local, draws)}@{values.domain(domain)}"


def _domain(domain: str, draws: _Draws) -> str:
    room = len(domain) - len(_TEST)
    if room < 1 or not domain.isascii():
        return _word(domain, draws)
    return "".join(chr(ord("a") + draws.below(26)) for _ in range(room)) + _TEST


def _number(plain: str, draws: _Draws, _values: SyntheticValues) -> str:
    """Keep the first two characters: a country, a kind of card."""
    return plain[:2] + _word(plain[2:], draws)


def _card(plain: str, draws: _Draws, values: SyntheticValues) -> str:
    made = _number(plain, draws, values)
    if not plain.isdigit() or not is_luhn(plain):
        return made
    return next(made[:-1] + digit for digit in "0123456789" if is_luhn(made[:-1] + digit))


def is_luhn(digits: str) -> bool:
    """Whether the last digit is the check digit that cards have (ISO/IEC 7812-1)."""
    doubled = [int(digit) * 2 for digit in digits[-2::-2]]
    return (sum(map(int, digits[-1::-2])) + sum(one - 9 if one > 9 else one for one in doubled)) % 10 == 0


_MAKERS: dict[str, Callable[[str, _Draws, SyntheticValues], str]] = {
    EMAIL: _email,
    PHONE: _number,
    NUMBER: _number,
    CARD: _card,
    TEXT: _text,
}
