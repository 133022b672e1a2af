"""The determinism line: where the world enters an agent.

Interceptors here ask the active session; they know neither recording nor playback. This package never
imports capture, replay, lake or opentelemetry.
"""
