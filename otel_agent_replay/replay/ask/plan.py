"""What asking a cohort again will take: questions, tokens and money, told before anything is spent.

One query over the lake's columns: no payload is read, and what only payloads tell (a masked request, an unknown
protocol) is not known here. Prices are today's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from otel_agent_replay.errors import CannotJudge
from otel_agent_replay.protocols import PROTOCOLS
from otel_agent_replay.replay.ask.answer import price_of
from otel_agent_replay.replay.ask.candidate import Candidate
from otel_agent_replay.replay.ask.destination import shown_endpoint
from otel_agent_replay.replay.ask.estimate import most_tokens, tokens_given

_RECORDED = "the recorded endpoint"
_QUERY = """
WITH calls AS (
    SELECT span.run_id, coalesce(provider, '') AS provider, coalesce(protocol, '') AS protocol,
        coalesce(request_model, '') AS model, coalesce(map_extract(attributes, 'url.full')[1].text, '') AS url,
        input_tokens, output_tokens, request_size,
        TRY_CAST(map_extract(attributes, 'gen_ai.request.max_tokens')[1].integer AS BIGINT) AS output_limit,
        CASE
            WHEN fidelity NOT IN ('wire', 'exchange') THEN 'recorded with fidelity `' || fidelity || '`'
            WHEN source <> 'live' THEN 'not answered by a model, but from `' || source || '`'
            WHEN request_payload IS NULL OR result_payload IS NULL THEN 'kept by digest only'
            WHEN outcome <> 'ok' THEN 'its recorded call ended as `' || outcome || '`'
            WHEN http_status >= 400 THEN 'its recorded answer is an error'
        END AS skipped
    FROM lake_spans AS span JOIN wanted ON span.run_id = wanted.run_id
    WHERE kind = 'model' AND step IS NOT NULL
)
SELECT provider, protocol, model, url, skipped, output_limit, count(*)::BIGINT,
    sum(coalesce(input_tokens, 0))::BIGINT, sum(coalesce(output_tokens, 0))::BIGINT,
    sum(CASE WHEN input_tokens IS NULL THEN request_size ELSE 0 END)::BIGINT,
    count(*) FILTER (input_tokens IS NULL)::BIGINT
FROM calls GROUP BY ALL ORDER BY 1, 2, 3, 4
"""


@dataclass(slots=True)
class LanePlan:
    """What one lane takes. `unpriced` are the models whose price nobody knows: they are in no sum of money.

    `refused` questions cannot be sent to this candidate, by reason; they are in no other figure. `about_usd` is what
    the recorded answers' tokens cost, `most_usd` what the questions may cost at most.
    """

    questions: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    most_output_tokens: int = 0
    about_usd: float = 0.0
    most_usd: float = 0.0
    unpriced: dict[str, int] = field(default_factory=dict)
    endpoints: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """`steps` model steps of `runs` runs can be asked again; `skipped` cannot, by reason.

    `guessed` steps have no recorded token count: their size stands for it.
    """

    runs: int
    steps: int
    skipped: Mapping[str, int]
    guessed: int
    lanes: Mapping[str, LanePlan]

    @property
    def questions(self) -> int:
        """Of all lanes."""
        return sum(lane.questions for lane in self.lanes.values())


def plan(lake: Path, run_ids: Sequence[bytes], lanes: Mapping[str, Candidate], repeats: int) -> Plan:
    """Return what it takes to ask every model step of the runs. Loads DuckDB."""
    from otel_agent_replay.lake.views import connect

    with connect(lake) as connection:
        connection.execute("CREATE TEMP TABLE wanted AS SELECT unnest(?::BLOB[]) AS run_id", [list(run_ids)])
        rows = connection.execute(_QUERY).fetchall()
    found = {name: LanePlan() for name in lanes}
    skipped: dict[str, int] = {}
    steps = guessed = 0
    for provider, protocol, model, url, why, limit, count, given, made, bare_bytes, bare in rows:
        if why is not None:
            skipped[why] = skipped.get(why, 0) + count
            continue
        steps += count
        guessed += bare
        for name, candidate in lanes.items():
            asked = _Group(
                provider, protocol, model, url, limit, count * repeats,
                (given + tokens_given(None, bare_bytes)) * repeats, made * repeats,
            )  # fmt: skip
            _add(found[name], candidate, asked)
    return Plan(len(run_ids), steps, skipped, guessed, found)


@dataclass(frozen=True, slots=True)
class _Group:
    """Questions that are priced alike."""

    provider: str
    protocol: str
    model: str
    url: str
    output_limit: int | None
    questions: int
    input_tokens: int
    output_tokens: int


def _add(lane: LanePlan, candidate: Candidate, asked: _Group) -> None:
    # Not every recording has its URL in a column; where it lies in the exchange alone, it is read when it is asked.
    try:
        url = candidate.address(asked.url, asked.protocol, asked.model) if asked.url or candidate.base_url else ""
    except CannotJudge as error:
        lane.refused[str(error)] = lane.refused.get(str(error), 0) + asked.questions
        return
    model = candidate.model_for(asked.model)
    protocol = PROTOCOLS.get(candidate.spoken(asked.protocol))
    provider = asked.provider if protocol is None else protocol.provider(url)
    endpoint = shown_endpoint(url) if url else _RECORDED
    lane.endpoints[endpoint] = lane.endpoints.get(endpoint, 0) + asked.questions
    lane.questions += asked.questions
    lane.input_tokens += asked.input_tokens
    lane.output_tokens += asked.output_tokens
    most_given, most_made = most_tokens(asked.input_tokens, asked.output_tokens, asked.output_limit, asked.questions)
    lane.most_output_tokens += most_made
    about = price_of(provider, model, asked.input_tokens, asked.output_tokens, candidate.price)
    most = price_of(provider, model, most_given, most_made, candidate.price)
    if about is None or most is None:
        lane.unpriced[model] = lane.unpriced.get(model, 0) + asked.questions
    else:
        lane.about_usd += about
        lane.most_usd += most
