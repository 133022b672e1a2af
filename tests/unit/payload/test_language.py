"""The language of a text, well enough to keep strata apart."""

from __future__ import annotations

import pytest

from otel_agent_replay.payload.language import language_of


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Please cancel my order, it is not what I wanted", "en"),
        ("Bitte stornieren Sie die Bestellung, ich habe sie nicht gewollt", "de"),
        ("Bonjour, je voudrais annuler ma commande et est-ce que vous pouvez le faire", "fr"),
        ("Hola, quiero cancelar mi pedido porque no es lo que quería", "es"),
        ("Prosim o zwrot, to nie jest moje i nie wiem czy się da", "pl"),
        ("注文をキャンセルしてください", "ja"),
        ("请取消我的订单", "zh"),
        ("주문을 취소해 주세요", "ko"),
        ("Пожалуйста, отмените мой заказ", "cyrillic"),
        ("order 4711", "unknown"),
        ("", "unknown"),
    ],
)
def test_a_language_is_told_by_its_letters_and_small_words(text, language):
    """Known languages are named; what tells too little is unknown rather than guessed."""
    assert language_of(text) == language
