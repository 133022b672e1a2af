"""The table of scenarios in `tests/README.md` names tests that exist."""

import re
from pathlib import Path

TESTS = Path(__file__).parent.parent


def named_tests() -> list[tuple[str, str]]:
    """Return (file, test) as the table's rows name them; `::test` alone means the file named before it in its row."""
    found = []
    for line in (TESTS / "README.md").read_text(encoding="utf-8").splitlines():
        file = ""
        for name, test in re.findall(r"`([\w/]*\.py|)(?:::(\w+))?`", line) if re.match(r"\| \d+ \|", line) else ():
            file = name or file
            found.append((file, test))
    return found


def test_every_test_that_the_table_names_is_there() -> None:
    """A renamed or removed test is a row to change; files without a folder lie in `integration`."""
    named = named_tests()
    assert len(named) > 40
    for file, test in named:
        places = [TESTS / file, TESTS / "integration" / file]
        (path,) = [place for place in places if place.is_file()] or [None]
        assert path is not None, file
        text = path.read_text(encoding="utf-8")
        assert not test or re.search(rf"^(async )?def {test}\(", text, re.MULTILINE), (file, test)
