"""A comparison's JSON document of many rows, made directly: recording and comparing so many steps is not at issue."""

import random

CHANGED_EVERY = 997


def large_document(rows):
    """Return the document of two runs of `rows` nodes, 99 steps below each of the groups; some differ."""
    chance = random.Random(7)
    number = {"before": None, "after": None, "absolute": None, "relative": None}
    document = {
        "schema": "agent-replay/comparison",
        "schema_version": 1,
        "verdict": "different",
        "sentence": "B departs from A.",
        "relation": None,
        "notices": [],
        "a": run_facts("a"),
        "b": run_facts("b"),
        "questions": [],
        "changes": [],
        "totals": dict.fromkeys(("latency_ns", "input_tokens", "output_tokens", "cost_usd"), number),
        "rows": [{**row(0, "=", 0), "rule": "the runs themselves", "strength": 1.0}],
        "nodes": [],
        "trust": {"similarity": 1.0},
    }
    for index in range(1, rows):
        group = index % 100 == 1
        end = node(index, "scope" if group else "tool", f"group {index // 100 % 50}" if group else f"tool {index % 60}")
        before = chance.randrange(10**6, 10**8)
        after = before + chance.randrange(10**6)
        latency = {"before": before, "after": after, "absolute": after - before, "relative": 0.1}
        document["nodes"].append({"a": end, "b": end, **document["totals"], "latency_ns": latency})
        changed = index % CHANGED_EVERY == 0
        document["rows"].append(row(1 if group else 2, "~" if changed else "=", index))
        if changed:
            document["rows"][-1]["change"] = len(document["changes"])
            document["changes"].append(change(end, index))
    document["departure"] = {
        "at": document["changes"][0]["a"],
        "change": document["changes"][0],
        "change_number": 0,
        "instead": None,
        "cause": "tool result differed for equal arguments",
        "comparable": True,
        "evidence": [],
        "consequences": [],
    }
    return document


def run_facts(side):
    return {"run_id": side * 32, "agent": "desk", "mode": "record", "status": "ok", "versions": {}}


def node(index, kind, name):
    return {"index": index, "step": index, "kind": kind, "name": name, "path": [], "span_id": "", "source": "live"}


def row(depth, mark, index):
    rule = {"rule": "identical subtree", "strength": 1.0}
    return {"depth": depth, "mark": mark, "a": index, "b": index, **rule, "change": None}


def change(end, index):
    places = [{"path": "text", "before": f"it was {index}", "after": f"it is {index}"}]
    field = {"field": "result", "differences": places, "complete": True, "by_digest": False}
    return {"kind": "changed", "a": end, "b": end, "rule": "same call, in order", "fields": [field]}
