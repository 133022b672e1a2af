"""One protocol's request as another's, through the messages both share; what has no counterpart is named.

    translate(body, "anthropic.messages", "openai.chat_completions", model="gpt-5-mini")

A request of another provider cannot be the same request. It asks the same as far as both sides have words for it, and
`Translated.lost` says where they have not: whoever compares the answers must show that beside them. Pure.
"""

from otel_agent_replay.protocols.translation.translate import SPOKEN, Translated, translate

__all__ = ["SPOKEN", "Translated", "translate"]
