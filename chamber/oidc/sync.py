"""Asking providers again, now and then, what groups somebody is in: by the refresh token that they gave at the sign-in.

Tokens lie in allauth's table, encrypted; its `expires_at` says when the next look is due.
"""

import logging
import time
from datetime import datetime, timedelta

from allauth.socialaccount.models import SocialAccount, SocialToken
from django.utils import timezone

from chamber import encryption
from chamber.logs import Seldom
from chamber.oidc.admission import NotLetIn, admit, put_out
from chamber.oidc.asking import ProviderFailed, discovery_of, refreshed
from chamber.oidc.claims import Claims, WrongToken, judged, merged
from chamber.oidc.protocol import ProviderAnswer, userinfo
from chamber.oidc.providers import Provider, by_id, providers

logger = logging.getLogger(__name__)

AT_ONCE = 200
LONGEST_SECONDS = 20.0
"""Of one run of the duty: a look takes a round trip or three, and seconds where a provider is away."""
TRIES_AGAIN = timedelta(minutes=5)
_told = Seldom(every_seconds=300)


def keep(answer: ProviderAnswer) -> None:
    """Keep the refresh token of a sign-in, where its provider is asked again; forget the one before in any case."""
    account = SocialAccount.objects.filter(provider=answer.provider.id, uid=answer.claims.key).first()
    if account is None:
        return
    SocialToken.objects.filter(account=account).delete()
    if answer.refresh_token and answer.provider.syncs_every:
        secret = encryption.encrypt(answer.refresh_token)
        due = _due(answer.provider)
        SocialToken.objects.create(account=account, token="", token_secret=secret, expires_at=due)


def sync(now: datetime) -> int:
    """Look at those that are due, as many as one run takes; return at how many. Outside of any transaction."""
    found = by_id(each.id for each in providers() if each.syncs_every)
    due = SocialToken.objects.select_related("account__user").filter(
        expires_at__lte=now, account__provider__in=found
    )
    looked, until = 0, time.monotonic() + LONGEST_SECONDS
    for token in due.order_by("expires_at")[:AT_ONCE]:
        if time.monotonic() > until:
            break
        # Whoever moves the row's time looks at it; another process leaves it alone.
        mine = SocialToken.objects.filter(pk=token.pk, expires_at=token.expires_at)
        if mine.update(expires_at=now + TRIES_AGAIN):
            looked += 1
            _look(found[token.account.provider], token)
    return looked


def _look(provider: Provider, token: SocialToken) -> None:
    user = token.account.user
    if not user.is_active:
        token.delete()
        return
    try:
        tokens = refreshed(provider, encryption.decrypt(token.token_secret))
        if tokens is None:
            put_out(provider, user, "ended there")
            token.delete()
            return
        if isinstance(again := tokens.get("refresh_token"), str) and again:
            # At once: whatever fails from here on, the one before may be of no use any more.
            SocialToken.objects.filter(pk=token.pk).update(token_secret=encryption.encrypt(again))
        admit(provider, _claims(provider, token.account, tokens))
    except NotLetIn:
        token.delete()
    except (ProviderFailed, WrongToken, encryption.UnreadableSecret) as error:
        if _told.due():
            logger.warning("Groups of %s at %s are not known anew: %s", user.username, provider.id, error)
    else:
        SocialToken.objects.filter(pk=token.pk).update(expires_at=_due(provider))


def _claims(provider: Provider, account: SocialAccount, tokens: dict[str, object]) -> Claims:
    """Return what the provider says now; raise `WrongToken` where that is of somebody else."""
    endpoint = discovery_of(provider).userinfo_endpoint
    told = userinfo(endpoint, str(tokens["access_token"])) if endpoint else {}
    id_token = tokens.get("id_token")
    signed = judged(provider, str(id_token), nonce=None) if id_token else {}
    values = merged(signed, told) if signed else told
    if "sub" not in values or Claims(subject=str(values["sub"])).key != account.uid:
        raise WrongToken("what it tells is of another person, or of nobody")
    return Claims.of(provider, values)


def _due(provider: Provider) -> datetime:
    return timezone.now() + timedelta(minutes=provider.syncs_every)
