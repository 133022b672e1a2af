"""Model SDKs whose calls pass where we have no hook: said loudly, once, instead of lost in silence.

Looks at the modules the host has imported; imports nothing.
"""

from __future__ import annotations

import logging
import sys

from otel_agent_replay.model import CoverageEntry

_log = logging.getLogger("otel_agent_replay")
_said: set[str] = set()

_GRPC = "it speaks gRPC; only its REST transport is captured"
_IN_PROCESS = "the model runs inside this process; declare the call with `@replay.tool` or serve the model over HTTP"
SDKS = {
    "google.generativeai": _GRPC,
    "google.ai.generativelanguage": _GRPC,
    "vertexai": _GRPC,
    "google.cloud.aiplatform": _GRPC,
    "tritonclient.grpc": _GRPC,
    "xai_sdk": _GRPC,
    "yandex_cloud_ml_sdk": _GRPC,
    "awscrt.http": "it uses the AWS common runtime, not urllib3",
    "aws_sdk_bedrock_runtime": "it uses the AWS common runtime, not urllib3",
    "niquests": "it uses urllib3.future",
    "pycurl": "it uses libcurl",
    "curl_cffi": "it uses libcurl",
    "llama_cpp": _IN_PROCESS,
    "vllm": _IN_PROCESS,
    "ctransformers": _IN_PROCESS,
    "mlx_lm": _IN_PROCESS,
}
"""Module name to why its calls are not captured."""


def uncovered_sdks() -> list[CoverageEntry]:
    """Return the imported model SDKs and HTTP clients that we do not see, each with the reason."""
    return [CoverageEntry(name, "not_captured", why) for name, why in SDKS.items() if name in sys.modules]


def warn_of_uncovered_sdks() -> list[CoverageEntry]:
    """Log each uncovered SDK once in the life of the process, and return all of them."""
    found = uncovered_sdks()
    for entry in found:
        if entry.what not in _said:
            _said.add(entry.what)
            _log.warning("calls of %s are not recorded: %s", entry.what, entry.detail)
    return found
