"""Public test tools: a provider that plays recorded or scripted bytes on 127.0.0.1."""

from otel_agent_replay.testing.provider import Reply, ScriptedProvider, SeenRequest, refused_url

__all__ = ["Reply", "ScriptedProvider", "SeenRequest", "refused_url"]
