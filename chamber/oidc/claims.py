"""What a provider says of a person: tokens judged, and what of them counts here."""

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import jwt
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.utils.crypto import constant_time_compare

from chamber.oidc.asking import ProviderFailed, keys_of, signing_key
from chamber.oidc.providers import Provider
from chamber.people.values import LONGEST_NAME
from chamber.words import UNSEEN, as_name, unfit_for_name

SIGNED_BY = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Never by none, nor by a secret that both sides have."""
CLOCKS_APART_SECONDS = 60
MOST_GROUPS = 1000
LONGEST_GROUP = 255
LONGEST_SUBJECT = 191
LOGGED_OUT = "http://schemas.openid.net/event/backchannel-logout"


class WrongToken(Exception):  # noqa: N818 - named after what was sent
    """A token is not of the provider, not for this server, or not of this sign-in; a sentence for the log."""


@dataclass(frozen=True, slots=True)
class Claims:
    """Who somebody is by a provider. `email` is one that it has verified, in small letters; "" without."""

    subject: str
    email: str = ""
    username: str = ""
    first_name: str = ""
    last_name: str = ""
    groups: frozenset[str] = frozenset()
    sid: str = ""
    authenticated_at: int | None = None
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def key(self) -> str:
        """The subject as it is stored: hashed where it is too long."""
        if len(self.subject) <= LONGEST_SUBJECT:
            return self.subject
        return "sha256:" + sha256(self.subject.encode()).hexdigest()

    @classmethod
    def of(cls, provider: Provider, values: Mapping[str, Any]) -> "Claims":
        """Return what counts of the claims of an ID token, or of userinfo."""
        first, last = names_of(values)
        at = values.get("auth_time")
        return cls(
            subject=str(values["sub"]),
            email=_verified_email(values),
            username=_text(_at(values, provider.username_claim)),
            first_name=first,
            last_name=last,
            groups=_groups(_at(values, provider.groups_claim)),
            sid=_text(values.get("sid")),
            authenticated_at=int(at) if isinstance(at, int | float) and not isinstance(at, bool) else None,
            raw=values,
        )


def judged(provider: Provider, token: str, *, nonce: str | None) -> dict[str, Any]:
    """Return the claims of an ID token of this provider, for this server, of this sign-in, and of now.

    `nonce` is None for a token that no sign-in of a browser asked for. Raises `WrongToken` and `ProviderFailed`.
    """
    claims = _decoded(provider, token)
    audiences = claims["aud"] if isinstance(claims["aud"], list) else [claims["aud"]]
    party = claims.get("azp", provider.client_id if len(audiences) == 1 else None)
    if party != provider.client_id:
        raise WrongToken(f"it was made for {str(party)[:60]!r} among several")
    if nonce is not None and not constant_time_compare(str(claims.get("nonce", "")), nonce):
        raise WrongToken("its nonce is not that of this sign-in")
    return claims


def judged_logout(provider: Provider, token: str) -> dict[str, Any]:
    """Return the claims of a logout token of this provider, for this server; raise `WrongToken`, `ProviderFailed`."""
    claims = _decoded(provider, token, needs=("iat", "jti"))
    events = claims.get("events")
    if not isinstance(events, dict) or LOGGED_OUT not in events:
        raise WrongToken("it tells of no sign-out")
    if "nonce" in claims:
        raise WrongToken("it has a nonce: it is an ID token")
    if not isinstance(claims.get("sid"), str) and not isinstance(claims.get("sub"), str):
        raise WrongToken("it names neither a session nor a person")
    return claims


def _decoded(
    provider: Provider, token: str, *, needs: tuple[str, ...] = ("sub", "exp", "iat")
) -> dict[str, Any]:
    """Return the claims of a token that the provider signed for this server; keys are asked for anew if none fits."""
    try:
        kid = jwt.get_unverified_header(token).get("kid")
        try:
            return _verified(provider, token, signing_key(provider, kid), needs)
        except jwt.InvalidSignatureError:
            keys_of(provider, fresh=True)  # another key under the name of the one before
            return _verified(provider, token, signing_key(provider, kid), needs)
    except (jwt.PyJWTError, LookupError, ValueError, RecursionError) as error:
        raise WrongToken(f"{error}") from error


def _verified(provider: Provider, token: str, key: Any, needs: tuple[str, ...]) -> dict[str, Any]:
    claims: dict[str, Any] = jwt.decode(
        token,
        key,
        algorithms=SIGNED_BY,
        audience=provider.client_id,
        issuer=provider.issuer,
        leeway=CLOCKS_APART_SECONDS,
        options={"require": ["iss", "aud", *needs]},
    )
    return claims


def merged(token: Mapping[str, Any], userinfo: Mapping[str, Any]) -> dict[str, Any]:
    """Return both: userinfo may add to what was signed; raise `WrongToken` where it is of somebody else."""
    if userinfo and userinfo.get("sub") != token.get("sub"):
        raise WrongToken("userinfo is of another subject than the ID token")
    return {**userinfo, **token}


def _at(values: Mapping[str, Any], name: str) -> Any:
    """Return a claim by its name, or by the way to it: `realm_access.roles`."""
    if name in values:
        return values[name]
    found: Any = values
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _groups(value: Any) -> frozenset[str]:
    listed = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    texts = [each for each in listed if isinstance(each, str) and 0 < len(each) <= LONGEST_GROUP]
    return frozenset(each for each in texts[:MOST_GROUPS] if "\x00" not in each)


def _verified_email(values: Mapping[str, Any]) -> str:
    """Return the address that the provider says it has verified; "" where it does not, or that is none."""
    return plain_email(values.get("email")) if values.get("email_verified") in (True, "true") else ""


def plain_email(value: Any) -> str:
    """Return an e-mail address in small letters; "" for what is none, or has signs that stand for others."""
    email = _text(value).lower()
    try:
        validate_email(email)
    except ValidationError:
        return ""
    is_plain = email.isprintable() and unicodedata.normalize("NFKC", email) == email and len(email) <= 254
    return email if is_plain else ""


def names_of(values: Mapping[str, Any]) -> tuple[str, str]:
    """Return first names and last name, of what can be seen of them; none where they could be taken for another's."""
    first, last = _seen(values.get("given_name")), _seen(values.get("family_name"))
    if not first and not last:
        first, _, last = _seen(values.get("name")).rpartition(" ")
        first, last = (first, last) if first else (last, "")
    if unfit_for_name(f"{first} {last}".strip()):
        return "", ""
    first = first[:LONGEST_NAME]
    return first, last[: LONGEST_NAME - len(first) - bool(first)] if len(first) < LONGEST_NAME else ""


def _seen(value: Any) -> str:
    """Return of a name what can be seen."""
    return as_name("".join(each for each in _text(value) if each.isprintable() and not UNSEEN.match(each)))


def _text(value: Any) -> str:
    return value.strip()[:500] if isinstance(value, str) else ""


__all__ = ["Claims", "ProviderFailed", "WrongToken", "judged", "judged_logout", "merged"]
