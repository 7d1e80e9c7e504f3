"""Asking an identity provider, bounded in time and size: what it says of itself, its keys, tokens and claims."""

import json
import ssl
import time
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import jwt
import requests
from django.core.cache import caches
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from requests.adapters import HTTPAdapter

from chamber.oidc.providers import Provider

CONNECT_SECONDS, READ_SECONDS = 3.0, 5.0
WHOLE_SECONDS = 10.0
MOST_BYTES = 1024 * 1024
KEPT_SECONDS = 3600.0
ASK_AGAIN_SECONDS = 30.0
"""Keys are asked for anew where none fits, but no more often: whoever sends tokens with made-up keys causes it."""
WELL_KNOWN = "/.well-known/openid-configuration"


class ProviderFailed(Exception):  # noqa: N818 - what the provider did
    """The provider was not reached, or did not answer as one does; a sentence for the log and for operators."""


class Discovery(BaseModel):
    """What a provider says of itself, as far as it matters here."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    issuer: str
    authorization_endpoint: str = Field(pattern=r"^https?://\S+$")
    token_endpoint: str = Field(pattern=r"^https?://\S+$")
    jwks_uri: str = Field(pattern=r"^https?://\S+$")
    userinfo_endpoint: str | None = Field(default=None, pattern=r"^https?://\S+$")
    end_session_endpoint: str | None = Field(default=None, pattern=r"^https?://\S+$")
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)


class BoundedSession(requests.Session):
    """Follows nowhere, waits seconds and reads a MiB at most; trusts the system's authorities and SSL_CERT_FILE's."""

    def __init__(self) -> None:
        super().__init__()
        self.mount("https://", _Trusting())

    def request(self, method: str | bytes, url: str | bytes, *args: Any, **kwargs: Any) -> requests.Response:
        """Return the whole answer; raise a `RequestException` for one that takes too long or is too large."""
        bounds = {
            "timeout": (CONNECT_SECONDS, READ_SECONDS),
            "allow_redirects": False,
            "stream": True,
        }
        response = super().request(method, url, *args, **{**kwargs, **bounds})
        body, until = bytearray(), time.monotonic() + WHOLE_SECONDS
        for part in response.iter_content(16 * 1024):
            body += part
            if len(body) > MOST_BYTES or time.monotonic() > until:
                response.close()
                raise requests.exceptions.ContentDecodingError(
                    f"{url!r} answers more than {MOST_BYTES:,} bytes, or for more than {WHOLE_SECONDS:.0f} s"
                )
        response._content = bytes(body)
        return response


class _Trusting(HTTPAdapter):
    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs, ssl_context=_trust(_authorities()))


def _authorities() -> tuple[tuple[str, int], ...]:
    """Return where the authorities are that are trusted, and when each place was changed last, in ns."""
    found = ssl.get_default_verify_paths()
    places = [place for place in (found.cafile, found.capath) if place]
    return tuple((place, Path(place).stat().st_mtime_ns) for place in places)


@lru_cache(maxsize=1)
def _trust(_: tuple[tuple[str, int], ...]) -> ssl.SSLContext:
    """Return what trusts them; they are read again only where they were changed, which takes longer than asking."""
    return ssl.create_default_context()


def discovery_of(provider: Provider, *, fresh: bool = False) -> Discovery:
    """Return what the provider says of itself, asked at most once an hour; raise `ProviderFailed`.

    It has to be the issuer that the setting names: who could answer in its place would name another.
    """
    key = f"oidc:discovery:{provider.id}:{provider.issuer}"
    kept: Discovery | None = None if fresh else caches["process"].get(key)
    if kept is not None:
        return kept
    url = provider.issuer.rstrip("/") + WELL_KNOWN
    try:
        found = Discovery.model_validate(get_json(url))
    except ValidationError as error:
        first = error.errors()[0]
        raise ProviderFailed(
            f"{url} does not describe a provider: {'.'.join(map(str, first['loc']))}: {first['msg']}."
        ) from error
    if found.issuer != provider.issuer:
        raise ProviderFailed(
            f"{url} says that it is the issuer {found.issuer[:200]!r}, not {provider.issuer!r}: write it just so."
        )
    caches["process"].set(key, found, KEPT_SECONDS)
    return found


def get_json(url: str, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the JSON object at a URL; raise `ProviderFailed`."""
    try:
        with BoundedSession() as session:
            response = session.get(url, headers={"Accept": "application/json", **(headers or {})})
            found = response.json() if response.status_code == 200 else None
    except (requests.RequestException, OSError, ValueError, RecursionError) as error:
        raise ProviderFailed(f"{url} cannot be asked: {_first_line(error)}") from error
    if response.status_code != 200:
        raise ProviderFailed(f"{url} answers {response.status_code}.")
    if not isinstance(found, dict):
        raise ProviderFailed(f"{url} answers no JSON object.")
    return found


def signing_key(provider: Provider, kid: str | None) -> Any:
    """Return the provider's key with this id, or its only one; asked for anew where there is none such.

    Raises `ProviderFailed`, and `LookupError` where the provider has no such key.
    """
    found = _key_among(keys_of(provider), kid)
    if found is None and caches["process"].add(f"oidc:asked-again:{provider.id}", 1, ASK_AGAIN_SECONDS):
        found = _key_among(keys_of(provider, fresh=True), kid)
    if found is None:
        raise LookupError(f"it is signed with the key {str(kid)[:60]!r}, which the provider does not have")
    return found.key


def keys_of(provider: Provider, *, fresh: bool = False) -> list[jwt.PyJWK]:
    """Return the keys by which the provider signs, asked at most once an hour; those of unknown kinds left out."""
    url = discovery_of(provider).jwks_uri
    key = f"oidc:keys:{provider.id}:{url}"
    kept: list[Any] | None = None if fresh else caches["process"].get(key)
    if kept is None:
        answer = get_json(url)
        kept = [each for each in answer.get("keys", []) if isinstance(each, dict)]
        caches["process"].set(key, kept, KEPT_SECONDS)
    return [made for each in kept if (made := _jwk(each)) is not None]


def _jwk(values: dict[str, Any]) -> jwt.PyJWK | None:
    if values.get("use", "sig") != "sig" or values.get("kty") == "oct":
        return None
    try:
        return jwt.PyJWK(values)
    except jwt.PyJWTError:
        return None


def _key_among(keys: list[jwt.PyJWK], kid: str | None) -> jwt.PyJWK | None:
    if kid is None:
        return keys[0] if len(keys) == 1 else None
    return next((each for each in keys if each.key_id == kid), None)


def refreshed(provider: Provider, refresh_token: str) -> dict[str, Any] | None:
    """Return new tokens for a refresh token; None where the provider says that it is of no use any more.

    Raises `ProviderFailed` where it cannot be known.
    """
    found = discovery_of(provider)
    body = {"grant_type": "refresh_token", "refresh_token": refresh_token}
    basic = authenticates_by(provider, found) == "client_secret_basic"
    credentials = {} if basic else {"client_id": provider.client_id, "client_secret": provider.secret}
    auth = (provider.client_id, provider.secret) if basic else None
    try:
        with BoundedSession() as session:
            response = session.post(found.token_endpoint, data={**body, **credentials}, auth=auth)
            answer = json.loads(response.content or b"{}")
    except (requests.RequestException, OSError, ValueError, RecursionError) as error:
        raise ProviderFailed(f"{found.token_endpoint} cannot be asked: {_first_line(error)}") from error
    if (
        isinstance(answer, dict)
        and response.status_code == 200
        and isinstance(answer.get("access_token"), str)
    ):
        return answer
    if isinstance(answer, dict) and answer.get("error") == "invalid_grant":
        return None
    raise ProviderFailed(f"{found.token_endpoint} answers {response.status_code} to a refresh token.")


def authenticates_by(provider: Provider, found: Discovery) -> str:
    """Return how the client shows its secret: as the setting says, else by the body where the provider takes that."""
    supported = found.token_endpoint_auth_methods_supported
    chosen = "client_secret_post" if "client_secret_post" in supported else "client_secret_basic"
    return provider.client_authentication or chosen


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
