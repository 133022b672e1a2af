"""Runs whose comparison has every kind of row, as HTML reports; and what data an HTML report holds."""

import json
import re
import zlib
from base64 import b64decode

from otel_agent_replay.compare import compare, explain
from otel_agent_replay.report.html import comparison_html
from otel_agent_replay.report.json_report import comparison_json
from otel_agent_replay.testing.builders import run

HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"


def read_data(report):
    """The data of an HTML report, as its own script reads them."""
    ((form, packed),) = re.findall(r'id="report-data" data-format="(\d+)">([A-Za-z0-9+/=]+)</script>', report)
    data = json.loads(zlib.decompress(b64decode(packed)))
    assert data["format"] == int(form)
    return data


def pair_runs(hostile="", late=""):
    """Two runs: a departure, a consequence, an independent difference, a step of B alone, two long equal stretches."""
    built = []
    for seed, b in ((1, False), (2, True)):
        agent = run("desk" + hostile, seed=seed)
        agent.tool(
            "search",
            {"q": "late order"},
            {"hits": 3, "text": f"order {'shipped on Monday' if b else 'lost at sea'}" + hostile},
        )
        agent.step("work", lambda inside: [inside.tool("read", {"n": number}, number) for number in range(20)])
        agent.tool("weigh", {"kg": 1}, f"{2 if b else 1}{late}" if late else 2 if b else 1)
        for number in range(20):
            agent.tool("look", {"n": number}, number)
        if b:
            agent.tool("refund", {"amount": 5}, "done")
        built.append(agent.model("q", "a").build({"said": "yes"}))
    return built


def pair_document(hostile="", late=""):
    return comparison_json(compare(*pair_runs(hostile, late)))


def way_html():
    """A report in which a final answer is led back over a model's answer to a search that answered differently."""
    built = []
    for seed, order in ((1, "alpha-77"), (2, "bravo-88")):
        agent = run("desk", seed=seed).tool("search", {"q": "late"}, {"order": order})
        agent.step("work", lambda inside: [inside.tool("read", {"n": number}, number) for number in range(20)])
        agent.tool("refund", {"order": order}, {"number": f"RF-{order}"})
        built.append(agent.build(output={"text": f"RF-{order}"}))
    comparison = compare(*built)
    return comparison_html(comparison_json(comparison, explain(*built, comparison)))


def pair_html(hostile="", late="", **more):
    return comparison_html(pair_document(hostile, late), **more)
