"""botocore's Signature Version 4, so that a model request that a re-run changes is signed as what is sent.

Hook: `SigV4Auth.add_auth` is wrapped at the class. botocore's own event `before-sign` comes before the retries and
tells nothing of the transport; the signer itself knows account, region and service, and can sign again.
"""

from __future__ import annotations

import functools
import hashlib
from types import ModuleType
from typing import Any

from otel_agent_replay.boundary.crossing import current
from otel_agent_replay.boundary.http_call import SentRequest
from otel_agent_replay.boundary.signing import Headers, signed

_DIGEST = "x-amz-content-sha256"
_SIGNATURE = frozenset({"authorization", "x-amz-date", "date", "x-amz-security-token"})
_originals: dict[Any, Any] = {}


def patch(module: ModuleType) -> None:
    """Stand beside `module` (botocore.auth); the same again changes nothing."""
    signer: Any = module.SigV4Auth
    if signer not in _originals:
        original = _originals[signer] = signer.__dict__["add_auth"]

        @functools.wraps(original)
        def add_auth(self: Any, request: Any) -> Any:
            result = original(self, request)
            here = current.get()
            if here is None or (here[0].edits is None and here[0].route is None):
                return result  # nothing is changed on its way: while recording, nobody is to sign again
            signature = request.headers.get("Authorization")
            if signature:
                signed(str(signature), functools.partial(_sign, self, original, type(request)))
            return result

        signer.add_auth = add_auth


def unpatch(module: ModuleType) -> None:
    """Put the original back."""
    signer: Any = module.SigV4Auth
    original = _originals.pop(signer, None)
    if original is not None:
        signer.add_auth = original


def _sign(auth: Any, add_auth: Any, request_type: Any, request: SentRequest) -> Headers:
    body = request.body or b""
    headers = {name: value for name, value in request.headers if name.lower() not in _SIGNATURE}
    for name in headers:
        if name.lower() == _DIGEST:
            headers[name] = hashlib.sha256(body).hexdigest()
    made = request_type(method=request.method, url=request.url, headers=headers, data=body)
    add_auth(auth, made)
    return tuple((str(name), str(value)) for name, value in made.headers.items())
