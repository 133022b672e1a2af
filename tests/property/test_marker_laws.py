"""The scanner of whole requests overlooks nothing that redaction would mask."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from otel_agent_replay_collector.cleaning import clean_traces
from otel_agent_replay_collector.scanner import HyperscanScanner, Re2Scanner

from otel_agent_replay.payload import credentials
from otel_agent_replay.payload.redaction import Redaction
from tests.property import strategies as own

SCANNERS = [HyperscanScanner(), Re2Scanner()]

words = st.text(st.characters(codec="utf-8"), max_size=12)
secrets = st.one_of(
    own.tokens(),
    *(
        st.from_regex(re.compile(head + rest, re.ASCII), fullmatch=True).map(lambda found: found.decode("ascii"))
        for head, rest in credentials._SHAPES
    ),
)
values = st.text(st.sampled_from("abcXYZ0189-_."), min_size=8, max_size=40)
names = st.sampled_from(
    "password passwd passphrase secret client_secret credentials authorization api_key apiKey API-KEY access_token "
    "refreshToken id_token signature sig key token auth session cookie set-cookie x-api-key private_key SECRET_TOKEN "
    "shared_access_signature X-Amz-Signature pwd jwt code_verifier assertion http.request.header.authorization "
    "db.password rpc.metadata.x-session safe.name gen_ai.usage.input_tokens".split()
)
forms = st.one_of(
    st.builds("{}{} {}".format, words, secrets, words),
    st.builds('{{"{}": "{}"}}'.format, names, values),
    st.builds('{{"x": "{{\\"{}\\": \\"{}\\"}}"}}'.format, names, values),
    st.builds("{}={}".format, names, values),
    st.builds("https://h.example.org/p?{}={}&q=1".format, names, values),
    st.builds("postgres://ann:{}@db/x".format, values),
    st.builds("Authorization: Bearer {}".format, values),
    st.builds("-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END".format, values),
    st.builds("https://hooks.slack.com/services/{}".format, values),
    words,
)


@st.composite
def requests(draw):
    """A request with texts of every form in every place of it."""
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    scoped = group.scope_spans.add()
    span = scoped.spans.add(name=draw(forms), trace_state=draw(words))
    span.status.message = draw(forms)
    event, link = span.events.add(name=draw(words)), span.links.add()
    holders = (group.resource, scoped.scope, span, event, link)
    for holder in draw(st.lists(st.sampled_from(range(len(holders))), max_size=4)):
        pair = holders[holder].attributes.add(key=draw(st.one_of(names, words)))
        kind = draw(st.sampled_from(["string", "bytes", "array", "map", "int"]))
        text = draw(st.one_of(forms, values))
        if kind == "string":
            pair.value.string_value = text
        elif kind == "bytes":
            pair.value.bytes_value = text.encode()
        elif kind == "array":
            pair.value.array_value.values.add().string_value = text
        elif kind == "map":
            pair.value.kvlist_value.values.add(key=draw(names)).value.string_value = text
        else:
            pair.value.int_value = 7
    return request


@pytest.mark.parametrize("scanner", SCANNERS, ids=lambda scanner: scanner.name)
@given(request=requests())
def test_what_redaction_changes_has_a_marker(scanner, request):
    """If cleaning a request changes anything, the scanner finds a marker in it; innocent requests may have one, too."""
    cleaned = ExportTraceServiceRequest()
    cleaned.CopyFrom(request)
    clean_traces(cleaned, Redaction.default(), None)
    if cleaned != request:
        assert scanner.may_hold(request.SerializeToString())


@given(request=requests())
def test_cleaning_twice_changes_nothing_more(request):
    """What was masked once is left as it is."""
    clean_traces(request, Redaction.default(), None)
    once = request.SerializeToString(deterministic=True)
    clean_traces(request, Redaction.default(), None)
    assert request.SerializeToString(deterministic=True) == once
