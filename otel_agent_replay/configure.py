"""The composition root: settings -> redaction -> journal -> runs -> hooks, wired once a process.

`configure()` is what an application calls in code; `bootstrap()` is what the zero-code entries call and never
raises. Nothing else in the package builds these parts together.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from opentelemetry import trace

from otel_agent_replay.boundary.effects import Effects
from otel_agent_replay.boundary.policy import MODES
from otel_agent_replay.boundary.runs import RunFactory, set_run_factory
from otel_agent_replay.boundary.session import set_call_context
from otel_agent_replay.capture.drills import killer
from otel_agent_replay.capture.implicit import ImplicitRuns
from otel_agent_replay.capture.kept_states import StatesKept
from otel_agent_replay.capture.runs import RecordingRuns
from otel_agent_replay.capture.tracing import Tracing, exporter_traffic
from otel_agent_replay.errors import AgentReplayError, ConfigurationError
from otel_agent_replay.export.journal import Journal
from otel_agent_replay.export.on_demand import on_demand_sealer
from otel_agent_replay.export.outgoing import journal_root
from otel_agent_replay.model import CaptureLevel, CoverageEntry
from otel_agent_replay.payload.redaction import Redaction
from otel_agent_replay.redaction import redaction_of
from otel_agent_replay.settings import Settings
from otel_agent_replay.version import VERSION

if TYPE_CHECKING:
    from otel_agent_replay.export.processor import ReplaySpanProcessor
    from otel_agent_replay.ledger import Ledger
    from otel_agent_replay.replay.continued_runs import ContinuedRuns

_log = logging.getLogger("otel_agent_replay")
_lock = threading.Lock()
_runtime: Runtime | None = None


class Runtime:
    """The parts of one configured process. `runs` is the factory that agents open their runs with."""

    def __init__(self, settings: Settings, tracer_provider: trace.TracerProvider | None) -> None:
        self.settings = settings
        self._sealer = on_demand_sealer(settings)
        self.journal = Journal(
            journal_root(settings),
            header_fields={"recorder_version": VERSION, "service": _service_name()},
            segment_bytes=settings.segment_mb << 20,
            lock_timeout_s=settings.lock_timeout_ms / 1000,
            fsync=settings.fsync,
            on_segment_end=None if self._sealer is None else self._sealer.segment_ended,
        )
        self._redaction = redaction_of(settings)
        for name in settings.identity:
            self._redaction.learn(os.environ.get(name, ""))
        self._ledger: Ledger | None = None
        self._joining = threading.Lock()
        self.tracing = Tracing(tracer_provider)
        self.recording = RecordingRuns(
            journal=self.journal,
            tracing=self.tracing,
            redaction=self.redaction,
            coverage=self.coverage,
            level=settings.capture,
            inline=settings.inline,
            before_open=self._join_global,
            effects=self._effects if settings.ledger else None,
            max_steps=settings.max_steps,
            drill=killer(settings.kill_at) if settings.kill_at else None,
            states=StatesKept(settings.keep_state == "failed", settings.state_sample),
        )
        self.runs: RunFactory = self.recording if settings.mode == "record" else _replaying_runs(self)
        self.implicit = ImplicitRuns(self.runs, process_run=settings.process_run)
        self._ambient: list[CoverageEntry] = []
        self._processor: ReplaySpanProcessor | None = None
        self._joined: list[trace.TracerProvider] = []

    @lru_cache(maxsize=8)  # noqa: B019 - a process has one runtime
    def redaction(self, level: CaptureLevel) -> Redaction:
        """Return the rules for a capture level; what one of them learns, all of them know."""
        return self._redaction.at(level)

    def ledger(self) -> Ledger:
        """Return the ledger that the settings name, opened when first asked for. Raises ConfigurationError."""
        with self._joining:
            if self._ledger is None:
                from otel_agent_replay.ledger import ledger_url, open_ledger

                self._ledger = open_ledger(ledger_url(self.settings.ledger or "file", self.settings.lake))
            return self._ledger

    def _effects(self, run_id: bytes, agent: str, known: bool) -> Effects:
        from otel_agent_replay.capture.effects import LedgerEffects
        from otel_agent_replay.ledger import worker_name

        ledger = self.ledger()
        take = ledger.take_over if known else ledger.begin_run
        lease = take(run_id, agent, worker=worker_name(), lease_s=self.settings.lease_s)
        lease.start_renewing()
        rows = ledger.effects(run_id) if known else ()
        begun = [(effect.tool, effect.key) for effect in rows if effect.status in {"intended", "in_doubt"}]
        return LedgerEffects(lease, begun)

    def resuming(self, run_id: str, *, changed: bool) -> ContinuedRuns:
        """Return a factory that goes on with a run in this process. Raises RunNotFound, CannotJudge."""
        from otel_agent_replay.export.unsealed import load_run, load_with_inner
        from otel_agent_replay.replay.continued_runs import ContinuedRuns
        from otel_agent_replay.replay.fitness import must_be_resumable

        recorded, *inner = load_with_inner(self.settings.lake, run_id)
        must_be_resumable(recorded)
        recording = self.recording if self.settings.ledger else self.recording.with_effects(self._effects)
        return ContinuedRuns(
            [recorded, *inner],
            target=recorded.run.run_id,
            recording=recording,
            redaction=self.redaction,
            changed=changed,
            reload=lambda run: load_run(self.settings.lake, run.hex(), facts=False),
        )

    def coverage(self) -> Sequence[CoverageEntry]:
        """Return what is and is not captured in this process, now."""
        from otel_agent_replay.boundary import frameworks, transports

        hooked = [*transports.coverage(), *frameworks.coverage()]
        return [*hooked, *self._ambient, *transports.warn_of_uncovered_sdks()]

    def install(self) -> None:
        """Put the hooks in place."""
        from otel_agent_replay.boundary import ambient, frameworks, transports

        transports.install()
        frameworks.install()
        self._ambient = ambient.install(packages=self.settings.packages)
        set_run_factory(self.runs)
        set_call_context(implicit=self.implicit.current, suppressed=exporter_traffic, may_open=self.implicit.may_open)
        self.implicit.start()

    def join(self, provider: trace.TracerProvider) -> None:
        """Join the spans of a provider to the runs they belong to; one that takes no processors has none."""
        add = getattr(provider, "add_span_processor", None)
        with self._joining:
            if add is None or any(provider is known for known in self._joined):
                return
            if self._processor is None:
                from otel_agent_replay.export.processor import ReplaySpanProcessor

                self._processor = ReplaySpanProcessor(
                    self.journal,
                    redaction=self._redaction,
                    on_root_end=self.implicit.root_ended,
                    run_of=self.recording.run_of,
                    replay_mode=self.settings.mode if MODES[self.settings.mode].is_replay else "",
                )
            self._joined.append(provider)
            add(self._processor)

    def _join_global(self) -> None:
        """Join the service's provider when a run opens: it may have been set after we came."""
        provider = trace.get_tracer_provider()
        if not any(provider is known for known in self._joined):
            self.join(provider)

    def shutdown(self) -> None:
        """Close the process's run and the journal. What was written is safe without it."""
        self.implicit.close_all()
        self.journal.close()
        if self._sealer is not None:
            self._sealer.finish()

    def remove(self) -> None:
        """Take the hooks out again, for tests and notebooks."""
        from otel_agent_replay.boundary import ambient, frameworks, transports

        if self._processor is not None:
            self._processor.retire()
        set_run_factory(None)
        set_call_context(implicit=None, suppressed=None)
        ambient.uninstall()
        frameworks.uninstall()
        transports.uninstall()


def configure(*, tracer_provider: trace.TracerProvider | None = None, **options: Any) -> Runtime:
    """Start recording (or, in a child that a replay started, replaying) in this process; idempotent.

    `options` are fields of `Settings`. Our spans go to `tracer_provider`, else to the global one, also when that is set
    later. Raises ConfigurationError for a wrong option. A second call returns the first's runtime, and raises
    ConfigurationError when it asks for other options or for a second provider.
    """
    global _runtime
    with _lock:
        if _runtime is not None:
            if any(getattr(_runtime.settings, name) != value for name, value in options.items()):
                raise ConfigurationError("already configured with other options; call shutdown() first")
        else:
            settings = Settings.load(options)
            runtime = Runtime(settings, tracer_provider)
            if settings.enabled:
                runtime.install()
            atexit.register(runtime.shutdown)
            _runtime = runtime
        if tracer_provider is not None and not _runtime.tracing.use(tracer_provider):
            raise ConfigurationError("already configured with another tracer provider; call shutdown() first")
        if _runtime.settings.enabled:
            for provider in (tracer_provider, trace.get_tracer_provider()):
                if provider is not None:
                    _runtime.join(provider)
        return _runtime


def configured() -> Runtime:
    """Return this process's runtime. Raises ConfigurationError when `configure` was not called."""
    if _runtime is None:
        raise ConfigurationError("call otel_agent_replay.configure() first")
    return _runtime


def shutdown() -> None:
    """Stop recording in this process: hooks out, journal closed."""
    global _runtime
    with _lock:
        runtime, _runtime = _runtime, None
    if runtime is not None:
        atexit.unregister(runtime.shutdown)
        runtime.remove()
        runtime.shutdown()


def bootstrap() -> None:
    """Configure from the environment alone; a failure is said once and the host goes on.

    In a replay a failure ends the process: running the agent unrecorded and live would be worse.
    """
    try:
        configure()
    except Exception as error:
        if os.environ.get("AGENT_REPLAY_MODE", "record") != "record":
            sys.stderr.write(f"agent-replay: the replay cannot start: {error}\n")
            sys.stderr.flush()
            os._exit(125)
        _log.error("not recording: %s", error)


def _replaying_runs(runtime: Runtime) -> RunFactory:
    settings = runtime.settings
    if settings.mode == "exact":
        from otel_agent_replay.replay.child import activate

        return activate(settings, runtime.recording)
    from otel_agent_replay.export.unsealed import load_process, load_run, load_with_inner

    if settings.mode == "regression":
        from otel_agent_replay.replay.rerun import child

        try:
            return child.activate(
                settings, runtime.recording, runtime.redaction, load_process=load_process, load_alone=load_with_inner
            )
        except AgentReplayError as error:
            child.refusal(settings, error)
            raise
    from otel_agent_replay.replay.going_on import go_on, refusal

    try:
        return go_on(
            settings,
            runtime.recording,
            runtime.redaction,
            load_process=load_process,
            load_alone=load_with_inner,
            reload=lambda run: load_run(settings.lake, run.hex(), facts=False),
        )
    except AgentReplayError as error:
        refusal(settings, error)
        raise


def _service_name() -> str:
    return os.environ.get("OTEL_SERVICE_NAME", "")
