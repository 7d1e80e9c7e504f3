"""Sessions that began by an identity provider: which one, and ending them when somebody signs out there."""

from dataclasses import dataclass
from typing import Any

from allauth.socialaccount.models import SocialAccount, SocialLogin
from allauth.usersessions.models import UserSession
from django.core.cache import cache, caches
from django.http import HttpRequest

from chamber import encryption, sessions
from chamber.models import User
from chamber.oidc.claims import CLOCKS_APART_SECONDS, Claims, WrongToken, judged_logout
from chamber.oidc.protocol import ProviderAnswer
from chamber.oidc.providers import Provider, by_id
from chamber.remembered import safely
from teams import audit
from teams.actors import Actor

KEPT = "provider-sign-in"
"""Of a session: by which provider it began, and its ID token, encrypted."""
TOLD_ONCE_SECONDS = 3600 + CLOCKS_APART_SECONDS


@dataclass(frozen=True, slots=True)
class Begun:
    """By which provider a session began, and the ID token by which it is ended there."""

    provider: Provider
    id_token: str


def keep(request: HttpRequest, login: SocialLogin | None) -> None:
    """Note in the session by which provider somebody signs in; that it is by none, where it is."""
    request.session.pop(KEPT, None)
    answer: ProviderAnswer | None = getattr(login, "answer", None)
    if answer is not None:
        request.session[KEPT] = {
            "provider": answer.provider.id,
            "sid": answer.claims.sid,
            "subject": answer.claims.key,
            "id_token": encryption.encrypt(answer.id_token),
        }


def begun(request: HttpRequest) -> None:
    """Note with the session that has begun how it is found when its provider tells of a sign-out."""
    kept = request.session.get(KEPT)
    if kept:
        data = {key: kept[key] for key in ("provider", "sid", "subject")}
        UserSession.objects.filter(session_key=request.session.session_key).update(data=data)


def provider_id(request: HttpRequest) -> str:
    """Return by which provider the session's person signs in; "" for none."""
    return str((request.session.get(KEPT) or {}).get("provider", ""))


def of(request: HttpRequest) -> Begun | None:
    """Return by which provider the session began; None where by none that is configured, or it cannot be read."""
    kept = request.session.get(KEPT) or {}
    found = by_id([str(kept.get("provider", ""))])
    try:
        return Begun(next(iter(found.values())), encryption.decrypt(kept["id_token"])) if found else None
    except encryption.UnreadableSecret:
        return None


def signed_out_there(provider: Provider, token: str) -> int:
    """End the sessions of which a provider's logout token tells; return how many. Raises `WrongToken`."""
    claims = judged_logout(provider, token)
    key = f"oidc:logout:{provider.id}:{claims['jti']}"
    if not _first_time(key):
        raise WrongToken("it was used already")
    wanted: dict[str, Any] = {"data__provider": provider.id}
    if isinstance(claims.get("sid"), str):
        wanted["data__sid"] = claims["sid"]
    if isinstance(claims.get("sub"), str):
        wanted["data__subject"] = Claims(subject=claims["sub"]).key
    rows = list(UserSession.objects.select_related("user").filter(**wanted))
    people: dict[User, int] = {}
    for row in rows:
        people[row.user] = people.get(row.user, 0) + 1
    ended = sessions.end(rows)
    for user, number in people.items():
        audit.record(
            by=Actor.system(f"provider {provider.id}"),
            action="person.signed-out",
            target=user,
            after={"provider": provider.id, "sessions": number},
        )
    return ended


def subject_of(provider: Provider, user: User) -> str:
    """Return who somebody is at a provider; "" where nobody."""
    found = SocialAccount.objects.filter(provider=provider.id, user=user).values_list("uid", flat=True)
    return str(found.first() or "")


def _first_time(key: str) -> bool:
    """Return whether a token was not seen before, by all processes; by this one, where the cache of all is away."""
    own = bool(caches["process"].add(key, 1, TOLD_ONCE_SECONDS))
    return own and bool(safely(lambda: cache.add(key, 1, TOLD_ONCE_SECONDS), otherwise=True))
