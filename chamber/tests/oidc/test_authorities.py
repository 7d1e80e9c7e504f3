"""Which authorities are trusted is read once for all that is asked, and again where they changed."""

import os
import ssl
from pathlib import Path
from typing import Any

import certifi
import pytest

from chamber.oidc.asking import BoundedSession


def test_they_are_read_once_and_again_where_they_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "authorities.pem"
    file.write_text(Path(certifi.where()).read_text())
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    read: list[str] = []
    create = ssl.create_default_context

    def counted(**options: Any) -> ssl.SSLContext:
        read.append(os.environ["SSL_CERT_FILE"])
        return create(**options)

    monkeypatch.setattr(ssl, "create_default_context", counted)
    for _ in range(3):
        with BoundedSession():
            pass
    assert len(read) == 1
    os.utime(file, ns=(1, 1))
    for _ in range(2):
        with BoundedSession():
            pass
    assert len(read) == 2
