"""The model of a call whose request names it in the URL and not in the body: Google, Vertex AI, Bedrock, Azure OpenAI.

https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:streamGenerateContent
https://bedrock-runtime.us-east-1.amazonaws.com/model/amazon.nova-micro-v1%3A0/converse-stream
https://example.openai.azure.com/openai/deployments/gpt-4o/chat/completions

On Azure the name is that of a deployment, and the body may name a model beside it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

from otel_agent_replay.patterns import late

GOOGLE_ACTIONS: Final = ("generateContent", "streamGenerateContent", "rawPredict", "streamRawPredict")
BEDROCK_ACTIONS: Final = ("converse", "converse-stream", "invoke", "invoke-with-response-stream")

# A Bedrock model may be an ARN, whose slashes some clients leave as they are.
_MODEL: Final = late(
    rf"/(?P<google>[^/:?#]+):(?P<verb>{'|'.join(GOOGLE_ACTIONS)})/*$"
    rf"|/model/(?P<bedrock>[^?#]+)/(?P<action>{'|'.join(BEDROCK_ACTIONS)})/*$"
)

_DEPLOYMENTS: Final = "/openai/deployments/"
_DEPLOYMENT: Final = late(rf"(?<={_DEPLOYMENTS})[^/?#]+(?=/)")


class Address(NamedTuple):
    """What a path says: the model, unquoted; what is asked of it; where in the URL the model stands."""

    model: str
    action: str
    start: int
    end: int

    @property
    def streams(self) -> bool:
        """Whether the answer is asked for as a stream."""
        return "stream" in self.action


@lru_cache(maxsize=256)
def address_of(url: str) -> Address | None:
    """The model that the path of `url` names, or None for a path of another kind.

    >>> address_of("http://127.0.0.1/model/us.amazon.nova-lite-v1%3A0/converse").model
    'us.amazon.nova-lite-v1:0'
    """
    found = _MODEL.search(url.partition("?")[0].partition("#")[0])
    if found is None:
        return None
    name = "google" if found["google"] is not None else "bedrock"
    return Address(unquote(found[name]), found["verb"] or found["action"], *found.span(name))


def deployment_of(url: str) -> str | None:
    """The deployment that a path of Azure OpenAI names, or None.

    >>> deployment_of("https://x.openai.azure.com/openai/deployments/my%20gpt/chat/completions?api-version=1")
    'my gpt'
    """
    found = _DEPLOYMENT.search(url.partition("?")[0]) if _DEPLOYMENTS in url else None
    return None if found is None else unquote(found.group())


def with_model(url: str, model: str) -> str:
    """`url` with another model in its path; the same text where its path names none, or this one.

    >>> with_model("https://h/v1/models/gemini-2.5-pro:generateContent?alt=sse", "gemini-3-flash")
    'https://h/v1/models/gemini-3-flash:generateContent?alt=sse'
    """
    if deployment_of(url) not in (None, model):
        return _DEPLOYMENT.sub(quote(model, safe=""), url, count=1)
    address = address_of(url)
    if address is None or address.model == model:
        return url
    safe = "@" if address.action in GOOGLE_ACTIONS else ""
    return url[: address.start] + quote(model, safe=safe) + url[address.end :]
