"""A person's answer to "may the agent do this?"."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Approval:
    """What a person answered; true when granted, so that it can be used where a yes or no is wanted.

    `by` names who answered, `policy` the policy in force afterwards, `allowed` what else they allowed.
    """

    granted: bool
    by: str = ""
    policy: str = ""
    allowed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.granted
