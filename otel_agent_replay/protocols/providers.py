"""Which provider answers at a host: the values of `gen_ai.provider.name`.

Names are those of the OpenTelemetry GenAI conventions where they have one, else the provider's own, in lower case.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

_BY_HOST_ENDING: Final = (
    ("api.openai.com", "openai"),
    ("api.anthropic.com", "anthropic"),
    (".openai.azure.com", "azure.ai.openai"),
    (".cognitiveservices.azure.com", "azure.ai.openai"),
    (".services.ai.azure.com", "azure.ai.inference"),
    (".models.ai.azure.com", "azure.ai.inference"),
    ("models.inference.ai.azure.com", "azure.ai.inference"),
    (".amazonaws.com", "aws.bedrock"),
    (".api.aws", "aws.bedrock"),
    ("aiplatform.googleapis.com", "gcp.vertex_ai"),
    ("-aiplatform.googleapis.com", "gcp.vertex_ai"),
    ("generativelanguage.googleapis.com", "gcp.gemini"),
    ("api.groq.com", "groq"),
    ("api.deepseek.com", "deepseek"),
    ("api.mistral.ai", "mistral_ai"),
    ("api.perplexity.ai", "perplexity"),
    ("api.x.ai", "x_ai"),
    (".moonshot.ai", "moonshot_ai"),
    (".moonshot.cn", "moonshot_ai"),
    (".cohere.com", "cohere"),
    (".cohere.ai", "cohere"),
    (".ml.cloud.ibm.com", "ibm.watsonx.ai"),
    ("openrouter.ai", "openrouter"),
    ("api.together.xyz", "together"),
    ("api.together.ai", "together"),
    ("api.fireworks.ai", "fireworks"),
    ("api.cerebras.ai", "cerebras"),
    ("huggingface.co", "huggingface"),
    ("huggingface.cloud", "huggingface"),
    ("dashscope.aliyuncs.com", "alibaba_cloud"),
    ("dashscope-intl.aliyuncs.com", "alibaba_cloud"),
    ("api.writer.com", "writer"),
    ("ollama.com", "ollama"),
    (".snowflakecomputing.com", "snowflake"),
    ("api.z.ai", "z_ai"),
    ("crusoecloud.com", "crusoe"),
    ("api.sambanova.ai", "sambanova"),
    ("integrate.api.nvidia.com", "nvidia"),
    ("models.github.ai", "github"),
)


@lru_cache(maxsize=256)
def provider_at(url: str) -> str | None:
    """The provider that `url` belongs to, or None for a host nobody knows (a proxy, a local server).

    >>> provider_at("https://api.groq.com/openai/v1/chat/completions")
    'groq'
    """
    try:
        host = (urlsplit(url).hostname or "").lower()
    except ValueError:
        return None
    for ending, provider in _BY_HOST_ENDING:
        # An ending that begins with a mark stands for many hosts; another is a host, or a domain with hosts below it.
        if host == ending or host.endswith(ending if ending[0] in ".-" else "." + ending):
            return provider
    return None
