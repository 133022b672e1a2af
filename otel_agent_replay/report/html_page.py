"""One self-contained HTML file: styles, script and data inlined, locked by a content security policy.

Owns the file's form. The modules of `web/` are written into it as one classic script, because module scripts, fetches
and workers do not work from a file; each keeps a scope of its own. The data are JSON, deflated, in base64, in a script
element that no browser runs. Nothing is loaded: the policy allows this script and this style, by their hashes, alone.
"""

from __future__ import annotations

import html
import json
import re
import zlib
from base64 import b64encode
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from importlib import resources
from typing import Any

DATA_FORMAT = 1
"""Version of the data in the file; `web/app.js` reads this one."""
_MODULES = ("dom", "state", "model", "grid", "strip", "diff", "pair", "cohort", "app")
"""In the order in which they need each other."""
_IMPORT = re.compile(r'^import \{ ([\w, ]+) \} from "\./(\w+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (class|function|const) (\w+)", re.MULTILINE)


def page(title: str, head: str, plain: str, data: str) -> str:
    """Return the file. `head` and `plain` are HTML, escaped already: the part for everyone, and that without script.

    `data` is what `packed` gave.
    """
    style, script = stylesheet(), classic_script()
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{html.escape(title)}</title>
<style>{style}</style>
<script>{script}</script>
</head>
<body>
<header>
{head}
</header>
<main>
<div id="plain">
{plain}
</div>
</main>
<script type="application/vnd.agent-replay.report" id="report-data" data-format="{DATA_FORMAT}">{data}</script>
</body>
</html>
"""


def packed(data: Mapping[str, Any]) -> str:
    """Return data as an HTML report keeps them: JSON with its format, deflated, in base64."""
    text = json.dumps({"format": DATA_FORMAT, **data}, ensure_ascii=True, separators=(",", ":"))
    return b64encode(zlib.compress(text.encode("ascii"), 6)).decode("ascii")


@lru_cache(maxsize=1)
def stylesheet() -> str:
    """Return the styles."""
    return _text("app.css")


@lru_cache(maxsize=1)
def classic_script() -> str:
    """Return the modules as one script. Raises AssertionError for a module that cannot be inlined."""
    script = "\n".join(['"use strict";', *(_as_function(name) for name in _MODULES)])
    if re.search(r"</script|<!--|^\s*(import|export)\b", script, re.MULTILINE | re.IGNORECASE):
        raise AssertionError("a module of web/ holds what cannot stand inside a script element")
    return script


def _as_function(name: str) -> str:
    """Return a module as a constant that holds what it exports: no name of one meets a name of another."""
    text = _text(f"{name}.js")
    exported = [match[2] for match in _EXPORT.finditer(text)]
    text = _IMPORT.sub(r"const { \1 } = \2_js;", text)
    text = _EXPORT.sub(r"\1 \2", text)
    return f"const {name}_js = (() => {{\n{text}return {{ {', '.join(exported)} }};\n}})();"


def _text(name: str) -> str:
    return resources.files(__package__).joinpath("web").joinpath(name).read_text("utf-8")


def _hash(text: str) -> str:
    return "sha256-" + b64encode(sha256(text.encode()).digest()).decode("ascii")
