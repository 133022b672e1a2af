"""Which conversation a run belongs to and whose data it holds is read from the agent's call."""

import pytest

from otel_agent_replay.capture.agents import AgentDeclaration


def thread_of(thread_id, *args, **kwargs):
    def support(question, conversation="talk-1", customer=None):
        return question

    declaration = AgentDeclaration(
        support, name=None, versions={}, thread_id=thread_id, subject="customer", capture=None
    )
    request = declaration.request(args, kwargs)
    return request.thread_id, request.subject


@pytest.mark.parametrize(
    ("thread_id", "args", "kwargs", "expected"),
    [
        ("conversation", ("hi", "talk-2"), {}, "talk-2"),
        ("conversation", ("hi",), {"conversation": 3}, "3"),
        ("conversation", ("hi",), {}, "talk-1"),
        ("conversation", ("hi", None), {}, ""),
        ("the support line", ("hi",), {}, "the support line"),
        (lambda question, **_: question.upper(), ("hi",), {}, "HI"),
        (None, ("hi",), {}, ""),
    ],
)
def test_the_thread_is_the_parameter_the_text_or_what_a_function_says(thread_id, args, kwargs, expected):
    """A parameter's name gives what it holds, its default too; another text is itself; a function is asked."""
    assert thread_of(thread_id, *args, **kwargs)[0] == expected


def test_a_subject_that_is_not_given_is_none():
    """A default of None names nobody, not somebody called "None"."""
    assert thread_of(None, "hi") == ("", "")
    assert thread_of(None, "hi", customer="c-9") == ("", "c-9")
