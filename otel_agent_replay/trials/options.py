"""How cases are tried: what is started, behind which walls, how often, and whether it may go live. Pure data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from otel_agent_replay.compare.judged import NamedJudge
from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.model import Word
from otel_agent_replay.protocols.request_edits import RequestEdits
from otel_agent_replay.replay.limits import Limits
from otel_agent_replay.replay.rerun.plan import Candidate
from otel_agent_replay.trials.recorded import RecordedRuns


class Mode(Word):
    """How a gate decides its cases."""

    AUTO = "auto"  # exact; what departs goes on live from there, where that is allowed
    EXACT = "exact"
    RERUN = "rerun"
    COMPONENT = "component"
    RECORDED = "recorded"  # runs that are there already are held against the cases


@dataclass(frozen=True, slots=True)
class TrialOptions:
    """How cases are tried.

    `entry` (pkg.mod:func) or `command` is what is started; without either each case names its own entry. With `live`
    models may be asked; `candidate` and `edits` change those requests, `live_clock` makes clocks show today. `repeats`
    counts live trials of a case, of which the share `min_pass` (0 to 1) must pass. `budget_usd` is for all live trials
    together (None: no limit), held while they spend. `parallel` trials run side by side, each in a process of its own.
    `judge` is asked what it makes of final answers that differ. `runs` are what mode `recorded` holds against the
    cases. The rest is as replays take it: `timeout_s` a trial, `limits`, endpoints and folders that are open, variables
    of its own (`identity`), and the `environment` beneath them (None: ours).
    """

    mode: Mode = Mode.AUTO
    entry: str = ""
    command: Sequence[str] = ()
    live: bool = False
    candidate: Candidate = field(default_factory=Candidate)
    edits: RequestEdits = field(default_factory=RequestEdits)
    live_clock: bool = False
    repeats: int = 1
    min_pass: float = 0.95
    budget_usd: float | None = None
    parallel: int = 1
    judge: NamedJudge | None = None
    runs: RecordedRuns | None = None
    max_steps: int = 0
    timeout_s: float | None = None
    isolate: bool = False
    allow: Sequence[str] = ()
    allow_write: Sequence[str] = ()
    volatile: Sequence[str] = ()
    limits: Limits = field(default_factory=Limits)
    identity: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        if self.entry and self.command:
            raise ConfigurationError("say what to run once: an entry, or a command")
        if self.mode is Mode.COMPONENT and self.command:
            raise ConfigurationError("a component run calls the entry that its case names: no command can be given")
        if self.mode is not Mode.RERUN and (self.candidate.base_url or self.candidate.key):
            raise ConfigurationError(
                "base_url= and key_env= of a candidate need --mode rerun: a run that goes on live from its departure "
                "asks where its recording asked"
            )
        if (self.mode is Mode.RECORDED) != (self.runs is not None):
            raise ConfigurationError("--where goes with --mode recorded, which needs it: it says which runs are judged")
        if self.mode is Mode.RECORDED and (self.entry or self.command or self.live):
            raise ConfigurationError(
                "--mode recorded runs nothing: it goes with no entry, command, --live or candidate"
            )
        if not 0 < self.min_pass <= 1:
            raise ConfigurationError(f"--min-pass is a share above 0 and up to 1, not {self.min_pass}")
        if self.parallel < 1:
            raise ConfigurationError(f"--parallel is 1 or more, not {self.parallel}")
        if self.repeats < 1:
            raise ConfigurationError(f"--repeats is 1 or more, not {self.repeats}")
