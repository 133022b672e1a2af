"""Looking whether other threads rest, which a replay does at every answer."""

import subprocess
import sys
from textwrap import dedent

_CODE = """
    import gc, sys, threading
    from otel_agent_replay.replay.quiet import Rest

    sys.setswitchinterval(0.0001)
    gc.set_threshold(5, 1, 1)
    gc.callbacks.append(lambda *_: sum(range(3000)))
    ended = threading.Event()

    def look():
        while not ended.is_set():
            Rest()

    lookers = [threading.Thread(target=look, daemon=True) for _ in range(2)]
    for looker in lookers:
        looker.start()
    for _ in range(60):
        threads = [threading.Thread(target=len, args=("",)) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    ended.set()
    for looker in lookers:
        looker.join()
    print(gc.isenabled())
"""


def test_looking_while_threads_start_and_garbage_is_collected_never_hangs():
    """Threads can start while somebody looks and the collector calls Python code, and the collector stays on."""
    done = subprocess.run([sys.executable, "-c", dedent(_CODE)], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "True\n"
