"""Protocol replay (L1): recorded provider bytes through a parser again, ours or the user's, in any chunking.

    recorded    the model exchanges of a run, as bytes     parsers     what reads an answer: ours, or a user's function
    spoken      which protocol an exchange speaks          judge       one exchange through its parsers: same or not,
    chunkings   ways to cut a body, and the least that                 and where
                still makes a parser fail

No agent, no tool, no network: nothing but bytes and the parsers. Of the user's code only the named function is called.
"""

from otel_agent_replay.replay.protocol.chunkings import Chunking, around, chunking, pieces, smallest
from otel_agent_replay.replay.protocol.judge import AS_RECORDED, Compared, Judged, Rechunked, judge
from otel_agent_replay.replay.protocol.parsers import OURS, Parser, load_parser, our_parser
from otel_agent_replay.replay.protocol.recorded import model_exchanges
from otel_agent_replay.replay.protocol.spoken import protocol_of

__all__ = [
    "AS_RECORDED",
    "OURS",
    "Chunking",
    "Compared",
    "Judged",
    "Parser",
    "Rechunked",
    "around",
    "chunking",
    "judge",
    "load_parser",
    "model_exchanges",
    "our_parser",
    "pieces",
    "protocol_of",
    "smallest",
]
