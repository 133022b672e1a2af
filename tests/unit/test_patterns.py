"""Patterns that wait for their first use are the compiled ones."""

import re
import subprocess
import sys

from otel_agent_replay.patterns import late


def test_a_late_pattern_finds_what_the_compiled_one_finds():
    """Every method and fact of a compiled pattern is there, flags included."""
    pattern = late(r"(?P<word>[a-z]+)-(\d)", re.IGNORECASE)
    compiled = re.compile(r"(?P<word>[a-z]+)-(\d)", re.IGNORECASE)
    text = "x AB-1 cd-2"
    assert pattern.findall(text) == compiled.findall(text) == [("AB", "1"), ("cd", "2")]
    assert [one.span() for one in pattern.finditer(text)] == [one.span() for one in compiled.finditer(text)]
    assert pattern.match(text) is None
    assert pattern.search(text, 4).span() == compiled.search(text, 4).span()
    assert pattern.fullmatch("ab-1")["word"] == "ab"
    assert pattern.sub(r"\2", text) == compiled.sub(r"\2", text)
    assert pattern.split(text) == compiled.split(text)
    assert (pattern.pattern, pattern.flags, pattern.groups) == (compiled.pattern, compiled.flags, compiled.groups)
    assert pattern.groupindex == compiled.groupindex


def test_a_late_pattern_has_nothing_that_a_pattern_has_not():
    """An unknown attribute is missing before the first use as after it."""
    pattern = late(b"a")
    assert not hasattr(pattern, "no_such")
    assert pattern.search(b"ba").start() == 1
    assert not hasattr(pattern, "no_such")


def test_nothing_is_compiled_before_it_is_used():
    """Importing the rules about credentials compiles none of their patterns."""
    code = (
        "import re; import otel_agent_replay.payload, urllib.parse\n"
        "import sys; [sys.modules.pop(name) for name in list(sys.modules) if name.startswith('otel_agent_replay')]\n"
        "seen = []; real = re.compile\n"
        "re.compile = lambda *given: seen.append(given) or real(*given)\n"
        "from otel_agent_replay.payload import credentials\n"
        "before = [text for text, *_ in seen if b'BEGIN' in (text if isinstance(text, bytes) else b'')]\n"
        "credentials.find(b'-----BEGIN PRIVATE KEY-----abc', [])\n"
        "after = [text for text, *_ in seen if b'BEGIN' in (text if isinstance(text, bytes) else b'')]\n"
        "print(len(before), len(after))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "1"]
