"""Started as `python -I -S limited.py cpu=60,memory=2048,files=256 COMMAND ...`: set limits, become the command.

Loads nothing of ours: it runs before the replaying interpreter does.
"""

import os
import resource
import sys

_GRACE_S = 5  # after the signal that names the limit comes the one that cannot be ignored


def _limit(kind: int, soft: int, hard: int) -> None:
    _, highest = resource.getrlimit(kind)
    if highest != resource.RLIM_INFINITY:
        soft, hard = min(soft, highest), min(hard, highest)
    resource.setrlimit(kind, (soft, hard))


def main(arguments: list[str]) -> int:
    """Set the limits and become the command; 127 when it cannot be started."""
    limits = dict(entry.split("=") for entry in arguments[0].split(","))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if "cpu" in limits:
        _limit(resource.RLIMIT_CPU, int(limits["cpu"]), int(limits["cpu"]) + _GRACE_S)
    if "memory" in limits:
        _limit(resource.RLIMIT_AS, int(limits["memory"]) << 20, int(limits["memory"]) << 20)
    if "files" in limits:
        _limit(resource.RLIMIT_NOFILE, int(limits["files"]), int(limits["files"]))
    try:
        os.execvp(arguments[1], arguments[1:])  # noqa: S606 - no shell is wanted
    except OSError as error:
        sys.stderr.write(f"agent-replay: the command {arguments[1]!r} cannot be started: {error}\n")
        return 127


sys.exit(main(sys.argv[1:]))
