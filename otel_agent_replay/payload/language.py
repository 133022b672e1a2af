"""The language of a text, guessed from its letters and small words: enough to keep strata apart. Pure.

Not a classifier: of languages in Latin letters it knows the eight below, and says "unknown" rather than guess from
fewer than two small words.
"""

from __future__ import annotations

import re
from collections import Counter

UNKNOWN = "unknown"
_SCRIPTS = (
    ("ja", re.compile("[\u3040-\u30ff]")),
    ("ko", re.compile("[\u1100-\u11ff\uac00-\ud7af]")),
    ("zh", re.compile("[\u4e00-\u9fff]")),
    ("cyrillic", re.compile("[\u0400-\u04ff]")),
    ("ar", re.compile("[\u0600-\u06ff]")),
    ("he", re.compile("[\u0590-\u05ff]")),
    ("hi", re.compile("[\u0900-\u097f]")),
    ("th", re.compile("[\u0e00-\u0e7f]")),
    ("el", re.compile("[\u0370-\u03ff]")),
)
_SMALL_WORDS = {
    "en": "the and is of to in you my for it with what please can i have not are this",
    "de": "der die das und ist nicht ich sie mit ein eine zu für auf bitte wie mein den wir",
    "fr": "le la les et est je vous pas une un des pour avec mon ma dans que sur bonjour",
    "es": "el la los las y es no una un por para con mi que en del hola quiero se",
    "it": "il lo gli e è non una un per con mio che di del ciao sono vorrei le si",
    "pt": "o os e é não uma um por para com meu que em do da olá quero as se",
    "nl": "de het een en is niet ik u van met voor mijn dat op wat zijn te graag naar",
    "pl": "i w nie to na jest się z do jak mój moje proszę czy że dla po od tak",
}
_WORDS = {language: frozenset(words.split()) for language, words in _SMALL_WORDS.items()}
_LONGEST = 4000


def language_of(text: str) -> str:
    """Return a language code (a script's name where several share it), or "unknown".

    >>> language_of("Please cancel my order, it is not what I wanted")
    'en'
    """
    text = text[:_LONGEST]
    letters = sum(character.isalpha() for character in text)
    for name, pattern in _SCRIPTS:
        if len(pattern.findall(text)) * 3 > letters > 0:
            return name
    words = Counter(re.findall(r"[^\W\d_]+", text.lower()))
    counts = sorted(
        ((sum(words[word] for word in known), language) for language, known in _WORDS.items()), reverse=True
    )
    (best, language), (second, _) = counts[:2]
    return language if best >= 2 and best > second else UNKNOWN
