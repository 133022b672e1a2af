"""Other people's files -> our data: what was recorded elsewhere, read as it stands, never executed.

    files       a file -> the model exchanges in it        cassettes   VCR, nock and test-agent recordings
    bodies      a bare response body                           packed      gzip and hexadecimal text around it

Nothing here writes a lake, and nothing is loaded that could run code: YAML by a safe loader only.
"""

from otel_agent_replay.imports.files import is_bare, read_exchanges

__all__ = ["is_bare", "read_exchanges"]
