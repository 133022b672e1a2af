"""Other people's files -> our data: what was recorded elsewhere, read as it stands, never executed.

    files       which format a file has, and its reader    landing     spans -> runs in the lake (arrivals,
                                                                       trace_structure, foreign_trace)
    exchanges   a file -> the model exchanges in it        cassettes   VCR, nock and test-agent recordings
    bodies      a bare response body                           packed      gzip and hexadecimal text around it

Nothing is loaded that could run code: YAML by a safe loader only.
"""

from otel_agent_replay.imports.exchanges import is_bare, read_exchanges

__all__ = ["is_bare", "read_exchanges"]
