"""Writes what pytest makes of the test modules beside them, once, so that its workers need not each make it again.

    python .ci/rewrite_asserts.py tests

pytest rewrites the asserts of every module that it collects and keeps the result, unless the environment keeps Python
from writing bytecode: then every worker rewrites all of them, which takes each a dozen seconds. What is there it reads
all the same. Only what is out of date is written. The functions are pytest's own and private: where it has others,
nothing is written, and only the time is lost.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import SimpleNamespace

try:
    from _pytest.assertion.rewrite import PYC_TAIL, _read_pyc, _rewrite_test, _write_pyc, get_cache_dir
except ImportError:
    sys.exit(f"{__file__}: this pytest rewrites asserts by other functions; its workers will do it themselves")


def modules_in(folder: Path) -> Iterator[Path]:
    """Yield the modules whose asserts pytest rewrites, by their full paths, as it names them."""
    for pattern in ("test_*.py", "conftest.py"):
        yield from folder.resolve().rglob(pattern)


def rewrite(module: Path) -> None:
    """Write the module's rewritten code where pytest looks for it, unless it is there already."""
    kept = get_cache_dir(module) / f"{module.stem}{PYC_TAIL}"
    if _read_pyc(module, kept) is None:
        kept.parent.mkdir(exist_ok=True)
        source_facts, code = _rewrite_test(module, None)
        _write_pyc(SimpleNamespace(trace=print), code, source_facts, kept)


if __name__ == "__main__":
    with ProcessPoolExecutor() as pool:
        list(pool.map(rewrite, modules_in(Path(sys.argv[1])), chunksize=8))
