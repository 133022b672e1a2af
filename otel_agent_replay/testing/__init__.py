"""Public test tools: a provider that plays recorded or scripted bytes on 127.0.0.1, and component cases."""

from otel_agent_replay.testing.component import component_hooks, run_component
from otel_agent_replay.testing.provider import Reply, ScriptedProvider, SeenRequest, refused_url

__all__ = ["Reply", "ScriptedProvider", "SeenRequest", "component_hooks", "refused_url", "run_component"]
