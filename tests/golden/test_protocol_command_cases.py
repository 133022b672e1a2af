"""The frozen cases again, as a person asks for them: `agent-replay protocol FILE --json`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from otel_agent_replay.cli.main import main

CASES = Path(__file__).parent / "cases"


def _case(name: str) -> dict:
    return json.loads((CASES / name / "expected.json").read_bytes())


def _answers(case: dict) -> list[str]:
    """The files of a case that hold an answer: of a pair, the response."""
    return [case.get("response") or case.get("input") or "input.yaml"]


NAMES = sorted(path.name for path in CASES.iterdir() if path.is_dir())
READ = ("protocol", "exchange")
ASKED = [(name, file) for name in NAMES for file in _answers(_case(name)) if _case(name)["kind"] in READ]


def protocol(*arguments: object) -> tuple[int, list[dict]]:
    result = CliRunner().invoke(main, ["protocol", *map(str, arguments), "--json"], env={"AGENT_REPLAY_LAKE": ""})
    assert not isinstance(result.exception, Exception), result.exception
    return result.exit_code, [json.loads(line) for line in result.stdout.splitlines()]


def check(message: dict, wanted: dict) -> None:
    for key, value in wanted.items():
        if key == "tool_calls":
            assert len(message[key]) == len(value)
            for call, given in zip(message[key], value, strict=True):
                assert {name: call[name] for name in given} == given
        elif isinstance(value, dict):
            assert {name: message[key][name] for name in value} == value
        else:
            assert message[key] == value, key


@pytest.mark.parametrize("named", [True, False], ids=["api named", "api found"])
@pytest.mark.parametrize(("name", "file"), ASKED)
def test_a_case_prints_its_expected_message(name, file, named):
    """The folded message of each case is printed as expected, whether its API is named or found in the bytes."""
    case = _case(name)
    code, documents = protocol(CASES / name / file, *(("--api", case["api"]) if named else ()))
    assert (code, len(documents)) == (0, 1)
    check(documents[0], case["result"])


@pytest.mark.parametrize(("name", "file"), ASKED)
def test_a_case_is_the_same_in_any_chunking(name, file):
    """Two hundred random cuttings of each case change nothing."""
    code, documents = protocol(CASES / name / file, "--rechunk", "200", "--seed", "3")
    assert code == 0
    assert [(item["chunkings"], item["same"]) for item in documents[0]["rechunked"]] == [(200, True)]


def test_a_cassette_prints_each_of_its_answers():
    """Of a cassette every exchange is printed, unpacked where it was packed and as it is where it was not."""
    case = _case("S19-vcr-gzip-body")
    code, documents = protocol(CASES / "S19-vcr-gzip-body" / "input.yaml")
    assert code == 0
    assert len(documents[0]["exchanges"]) == case["interactions"]
    wanted = {key: value for key, value in case["result_each"].items() if key != "api"}
    for exchange in documents[0]["exchanges"]:
        check(exchange, wanted)
        assert exchange["api"] == "openai.chat_completions"
