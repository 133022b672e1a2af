"""How a connection fails, whatever client it is: a neutral error that each transport raises as its own class.

A recorded failure has a class already. A prepared one (a fixture's) is to be met by code that uses one client or
another, so it is kept as one of these and translated where it is served.
"""

from __future__ import annotations

from otel_agent_replay.model import Word


class Fault(Word):
    """The ways in which an exchange fails below HTTP."""

    CONNECT_TIMEOUT = "connect_timeout"  # nobody answered the connection
    READ_TIMEOUT = "read_timeout"  # the request was sent, and no answer came in time
    REFUSED = "refused"  # nobody listens there
    RESET = "reset"  # the connection was closed from over there
    CUT = "cut"  # the body ended before its end


class TransportFault(Exception):
    """An exchange failed in one of these ways; `fault` is the name of it."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault.value
        super().__init__(fault.value)

    def __reduce__(self) -> tuple[type[TransportFault], tuple[Fault]]:
        return (type(self), (Fault(self.fault),))
