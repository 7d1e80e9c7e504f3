"""An identity provider on loopback: oidc-provider-mock, and a layer before it that can sign and answer otherwise.

The layer signs every ID token anew, by a key of its own: so a test may change what a token says, and the key.
"""

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from io import BytesIO
from typing import Any
from unittest import mock
from urllib.parse import parse_qs, urlsplit

import httpx
import jwt
import oidc_provider_mock
from authlib.jose import RSAKey
from cryptography.hazmat.primitives.asymmetric import rsa
from django.test import Client
from jwt.algorithms import RSAAlgorithm
from werkzeug.serving import make_server
from werkzeug.test import run_wsgi_app

from chamber.oidc.providers import Provider
from rig.deployment import TRUST

CLIENT = "chamber"
Claims = dict[str, Any]


@cache
def _usual_key() -> "Key":
    """Return the key of every provider, as long as a test gives it no other: making one takes longer than a test."""
    return Key("one")


@cache
def _key_of_the_mock() -> Any:
    """Return the mock's own key, which nobody sees: the layer signs anew what the mock has signed."""
    return RSAKey.generate_key(is_private=True)


class Key:
    """A key by which tokens are signed."""

    def __init__(self, kid: str) -> None:
        self.kid = kid
        self.private = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def public(self) -> dict[str, Any]:
        """Return what the provider publishes of it."""
        found: dict[str, Any] = json.loads(RSAAlgorithm.to_jwk(self.private.public_key()))
        return {**found, "kid": self.kid, "use": "sig", "alg": "RS256"}

    def sign(self, claims: Claims, **headers: Any) -> str:
        """Return a token."""
        return jwt.encode(claims, self.private, algorithm="RS256", headers={"kid": self.kid, **headers})


class Idp:
    """The provider. What a test sets: `claims` changes those of each ID token, `discovery` what it says of itself."""

    def __init__(self) -> None:
        key = _key_of_the_mock()
        with mock.patch.object(RSAKey, "generate_key", return_value=key):
            self._app = oidc_provider_mock.app()
        self.key = self.published = _usual_key()
        self.claims: Callable[[Claims], Claims] = lambda claims: claims
        self.discovery: dict[str, Any] = {}
        self.asked: list[tuple[str, dict[str, list[str]]]] = []
        self.away = False
        self.url = ""

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Answer as the provider does, but for what a test wants otherwise."""
        path = environ["PATH_INFO"]
        if self.away:
            start_response("503 Service Unavailable", [("Content-Type", "text/plain")])
            return [b"away"]
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        self.asked.append((path, parse_qs(body.decode())))
        environ["wsgi.input"] = BytesIO(body)
        parts, status, headers = run_wsgi_app(self._app, environ)
        content = b"".join(parts)
        if path == "/.well-known/openid-configuration":
            content = json.dumps({**json.loads(content), **self.discovery}).encode()
        elif path == "/jwks":
            content = json.dumps({"keys": [self.published.public()]}).encode()
        elif path == "/oauth2/token" and status.startswith("200"):
            content = json.dumps(self._signed(json.loads(content))).encode()
        headers["Content-Length"] = str(len(content))
        start_response(status, list(headers))
        return [content]

    def _signed(self, answer: dict[str, Any]) -> dict[str, Any]:
        if "id_token" in answer:
            said = jwt.decode(answer["id_token"], options={"verify_signature": False})
            answer["id_token"] = self.key.sign(self.claims(said))
        return answer

    def person(self, sub: str, **claims: Any) -> None:
        """Have somebody be known there, with these claims."""
        httpx.put(f"{self.url}/users/{sub}", json=claims, verify=TRUST).raise_for_status()

    def revoke(self, sub: str) -> None:
        """Have all tokens of somebody be of no use."""
        httpx.post(f"{self.url}/users/{sub}/revoke-tokens", verify=TRUST).raise_for_status()

    def provider(self, **more: Any) -> Provider:
        """Return it as an operator configures it."""
        given = {"id": "acme", "name": "Acme SSO", "issuer": self.url, "client_id": CLIENT}
        return Provider.model_validate({**given, "client_secret": "secret of the client", **more})

    def sent_back(self, url: str, sub: str) -> str:
        """Sign in there as somebody; return where the browser is sent back to, below this server's root."""
        answer = httpx.post(url, data={"sub": sub}, verify=TRUST)
        assert answer.status_code == 302, answer.text
        back = urlsplit(answer.headers["Location"])
        return f"{back.path}?{back.query}"


def left_for(answer: Any) -> str:
    """Return where a page of ours leads on to."""
    assert answer.status_code == 200, answer.content.decode()
    header: str = answer.headers["Refresh"]
    assert header.startswith("0; url=")
    return header.removeprefix("0; url=")


def sign_in(idp: Idp, sub: str, client: Client | None = None, **sent: str) -> tuple[Client, Any]:
    """Sign in by the provider as somebody; return the browser, and the answer to whom is sent back."""
    client = client or Client()
    url = left_for(client.post("/sign-in/with/acme/", sent))
    return client, client.get(idp.sent_back(url, sub))


@contextmanager
def running() -> Iterator[Idp]:
    """Run a provider on a free port of this machine."""
    idp = Idp()
    server = make_server("localhost", 0, idp, threaded=True)
    idp.url = f"http://localhost:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield idp
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
