"""The re-runs that a command line asks for: which, behind which walls, with what of them made already.

Owns how lake, plan, walls and results come together, because only the edge may know all of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from otel_agent_replay.cli.output import remark
from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.export.sealer import seal
from otel_agent_replay.export.unsealed import load_run
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.model import RecordedRun
from otel_agent_replay.protocols.request_edits import RequestEdits
from otel_agent_replay.redaction import redaction_at
from otel_agent_replay.replay.cohort import read_cohort, runs_where
from otel_agent_replay.replay.enclosed import Enclosure, variables_of
from otel_agent_replay.replay.fork import model_endpoints
from otel_agent_replay.replay.launch import entry_command
from otel_agent_replay.replay.limits import Limits
from otel_agent_replay.replay.rerun import plan as plans
from otel_agent_replay.replay.rerun.crowd import Job, Purse, ResultsFile, is_done, jobs_of, plan_name, run_jobs
from otel_agent_replay.replay.rerun.launch import endpoint_of, lake_for_reruns, rerun_command
from otel_agent_replay.replay.rerun.outcome import RerunResult, observed, result_of
from otel_agent_replay.replay.rerun.route import mode_of
from otel_agent_replay.replay.scrub import read_env_file
from otel_agent_replay.replay.spending import Spending
from otel_agent_replay.report.amounts import counted
from otel_agent_replay.report.rerun_lines import rerun_sentence

MOST_POOLED = 500
_SEALED_EVERY = 32  # re-runs: one file each would be many, one for all late
_GATEWAYS = ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "AZURE_OPENAI_ENDPOINT")


class Reruns:
    """What one command line asks for. `given` are its options by name; `read(path)` gives a file's text.

    With `quiet` nothing that the agents print reaches standard output. Raises ConfigurationError for what cannot be.
    """

    def __init__(
        self,
        lake: Path,
        run: str | None,
        command: Sequence[str],
        given: Mapping[str, Any],
        *,
        read: Callable[[str], str],
        quiet: bool,
    ) -> None:
        seal(lake)
        self.lake = lake
        self._given = given
        self._argv = entry_command(given["entry"]) if given["entry"] is not None else list(command)
        self._plan = _plan_of(given, read)
        self.into = lake_for_reruns(lake, given["into"])
        self._one = run is not None
        self._runs = [load_run(lake, run).run.run_id.hex()] if run is not None else _cohort(lake, given)
        lanes = [plans.BASELINE] if given["baseline"] else []
        lanes += [plans.CANDIDATE] if self._plan.told() else []
        self._jobs = jobs_of(self._runs, lanes, given["repeats"])
        self._folder = self.into / "reruns"
        self._folder.mkdir(exist_ok=True)
        self.results = ResultsFile(given["results"] or self._folder / f"{self._name()}.jsonl")
        self._enclosure = self._walls(quiet=quiet)
        self._sealing = threading.Lock()
        self._unsealed = 0
        if run is not None:
            mode_of(self._plan, load_run(lake, run))  # what cannot be is said before anything runs

    def made(self, *, told: Callable[[str], None]) -> list[RerunResult]:
        """Make what is not made yet; return all results, in order. `told` hears one line for each."""
        given = self._given
        resumes = not given["again"] and (not self._one or given["results"] is not None)
        earlier = self.results.read() if resumes else []
        done = {Job(one.report.origin_run_id, one.lane, one.repeat): one for one in earlier if is_done(one)}
        open_jobs = [job for job in self._jobs if job not in done]
        if len(open_jobs) < len(self._jobs):
            told(
                f"{len(self._jobs) - len(open_jobs)} of {counted(len(self._jobs), 're-run')} "
                f"are in {self.results.path} already"
            )
        spent = sum(one.use.cost_usd or 0.0 for one in earlier)
        count = 0

        def progress(result: RerunResult) -> None:
            nonlocal count
            count += 1
            told(f"[{count}/{len(open_jobs)}] {rerun_sentence(result)}")

        purse = Purse(given["budget"], side_by_side=given["parallel"], spent=spent)
        try:
            made = run_jobs(
                open_jobs,
                self._make,
                results=self.results,
                parallel=given["parallel"],
                purse=purse,
                told=progress,
            )
        finally:
            seal(self.into)
        done.update({Job(one.report.origin_run_id, one.lane, one.repeat): one for one in made})
        return [done[job] for job in self._jobs if job in done]

    def lanes(self, results: Sequence[RerunResult]) -> list[RerunResult]:
        """Return the results with those of the observed lane before them."""
        found = {one.report.origin_run_id for one in results if one.report.run_id}
        return [*(observed(load_run(self.lake, run)) for run in self._runs if run in found), *results]

    def _make(self, job: Job, usd: float | None) -> RerunResult:
        recorded = load_run(self.lake, job.run_id)
        plan = replace(
            self._plan,
            lane=job.lane,
            repeat=job.repeat,
            pool=tuple(self._pool_of(recorded)),
            spending=replace(self._plan.spending, usd=usd),
        )
        if job.lane == plans.BASELINE:
            plan = replace(plan, candidate=plans.Candidate(), edits=RequestEdits())
        mode_of(plan, recorded)
        enclosure = replace(self._enclosure, allow=[*self._enclosure.allow, *model_endpoints(recorded)])
        if not self._one or enclosure.output is not None:
            enclosure = replace(enclosure, output=self._folder / f"{job.run_id}-{job.lane}-{job.repeat}.log")
        report = rerun_command(
            recorded.run, self._argv, plan, enclosure=enclosure, max_steps=self._given["max_steps"] or 0
        )
        again = load_run(self.into, report.run_id) if report.run_id else None
        self._seal_now_and_then()
        return result_of(report, job.lane, job.repeat, recorded, again)

    def _seal_now_and_then(self) -> None:
        with self._sealing:
            self._unsealed += 1
            if self._unsealed >= _SEALED_EVERY:
                self._unsealed = 0
                seal(self.into)

    def _pool_of(self, recorded: RecordedRun) -> list[str]:
        """Return the runs that may answer for this one, at most MOST_POOLED of each kind, newest first."""
        own = recorded.run.run_id.hex()
        found: dict[str, None] = {}
        for name in self._given["pool"]:
            if name == "cohort":
                stored = Lake(self.lake)
                found.update({run: None for run in self._runs[:MOST_POOLED] if stored.has(bytes.fromhex(run))})
            elif name == "lake":
                until = None if self._plan.own_worlds else recorded.run.ended_ns or None
                since = None
                if self._plan.pool_age_ns is not None and not self._plan.own_worlds:
                    since = recorded.run.started_ns - self._plan.pool_age_ns
                listed = Lake(self.lake).runs(since_ns=since, until_ns=until, limit=MOST_POOLED)
                found.update(dict.fromkeys(one.run.run_id.hex() for one in listed if not one.run.replay))
            else:
                found[Lake(self.lake).find(name).hex()] = None
        found.pop(own, None)
        return list(found)

    def _walls(self, *, quiet: bool) -> Enclosure:
        given, candidate = self._given, self._plan.candidate
        identity = {} if given["env_file"] is None else read_env_file(given["env_file"])
        if candidate.key and candidate.key not in identity:
            raise ConfigurationError(
                f"--candidate key_env={candidate.key}: there is no {candidate.key} in the --env-file"
            )
        wanted = [endpoint_of(url) for url in (candidate.base_url, *variables_of(_GATEWAYS, identity)) if url]
        return Enclosure(
            lake=self.lake,
            into=self.into,
            isolate=_isolates(given["isolate"]),
            allow=list(dict.fromkeys([*given["allow"], *wanted])),
            allow_write=given["allow_write"],
            timeout_s=given["timeout"],
            limits=Limits.parse(given["limits"]),
            identity=identity,
            redaction=redaction_at(self.lake),
            output=self._folder / "quiet" if quiet else None,
        )

    def _name(self) -> str:
        """Return what this crowd's results are called: by what is run, and how."""
        unlike = ("cohort", "where", "repeats", "parallel", "into", "results", "again", "budget", "baseline", "timeout")
        asked = {name: value for name, value in self._given.items() if name not in unlike}
        return plan_name([self._argv, self._plan.to_json(), asked])


def _plan_of(given: Mapping[str, Any], read: Callable[[str], str]) -> plans.RerunPlan:
    candidate = plans.Candidate.parse(given["candidate"]) if given["candidate"] else plans.Candidate()
    if given["pool_age"] and not given["pool"]:
        raise ConfigurationError("--pool-age says how old a pool's answers may be: give a --pool too")
    script = given["user_script"]
    return plans.RerunPlan(
        candidate=candidate,
        edits=plans.edits_of(candidate, given["settings"], given["prompt"], read=read),
        live=given["live"],
        stub=given["stub"],
        pool=given["pool"],
        pool_age_ns=plans.age_ns(given["pool_age"]) if given["pool_age"] else None,
        own_worlds=given["own_worlds"],
        script=plans.script_of(read(script)) if script else None,
        simulator=given["simulator"] or "",
        seed=given["seed"],
        live_clock=given["live_clock"],
        spending=Spending(tokens=given["max_tokens"]),
    )


def _cohort(lake: Path, given: Mapping[str, Any]) -> list[str]:
    runs = read_cohort(given["cohort"]) if given["cohort"] is not None else runs_where(lake, given["where"])
    if not runs:
        raise ConfigurationError("there is no run in this cohort: nothing to run again")
    return [one.run_id.hex() for one in runs]


def _isolates(asked: bool | None) -> bool:
    """Whether the kernel's fence is put up: as asked, else where there is one, and it is said where there is none."""
    if asked is not None:
        return asked
    from otel_agent_replay.replay import isolation

    reason = isolation.why_not()
    if not reason:
        from otel_agent_replay.replay import supervisor  # Linux only

        reason = supervisor.why_not()
    if reason:
        remark(f"note: no kernel fence here ({reason}); the in-process fence stands alone around the re-runs")
    return not reason
