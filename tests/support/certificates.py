"""An authority, a server's and a client's certificate, made by openssl; where it is absent, tests skip."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Certificates:
    """PEM files."""

    authority: Path
    server: Path
    server_key: Path
    client: Path
    client_key: Path


def certificates(folder: Path) -> Certificates:
    """Make them in a folder."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make certificates with")
    folder.mkdir()

    def run(*words: object) -> None:
        subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, cwd=folder)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    usage = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")  # since 3.13 Python insists on it
    run("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=authority", *usage)
    for name in ("server", "client"):
        run(
            *("req", "-x509", *key, "-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}"),
            *("-CA", "ca.pem", "-CAkey", "ca.key", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
            *("-addext", "basicConstraints=critical,CA:FALSE"),
        )
    return Certificates(*(folder / name for name in ("ca.pem", "server.pem", "server.key", "client.pem", "client.key")))
