"""What holds for the whole run: no certificates, and how many examples the property tests try.

Where they do not say it themselves, few are tried here, many by `make fuzz`.

Laws that write and read whole lakes say a part of that number (`settings.default.max_examples // 3`).
"""

import os
from pathlib import Path

from hypothesis import settings

# Nobody here speaks TLS to the world, and reading every authority's certificate takes each new HTTP client 30 ms, in
# hundreds of children. A folder without any takes none.
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = str(Path(__file__).parent)

settings.register_profile("quick", max_examples=30, deadline=None)
settings.register_profile("thorough", max_examples=2000, deadline=None)
settings.load_profile("quick")
