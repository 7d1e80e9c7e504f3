"""Deleting what let somebody in once and does no more: ended sessions, expired and revoked tokens."""

import time
from datetime import datetime, timedelta

from allauth.usersessions.models import UserSession
from django.conf import settings
from django.contrib.sessions.models import Session
from django.db.models import Model, Q, QuerySet

from agentlink.models import AgentToken
from chamber.models import AccountLink, ApiToken, ServiceToken

TOKENS_KEPT = timedelta(days=30)
"""How long a token is still listed once it is of no use: who finds it refused sees why."""
FORGETS_FOR_SECONDS = 30.0
BATCH = 1000


def forget(now: datetime) -> int:
    """Delete in small batches, for half a minute at most; return how many. What is left comes with the next time."""
    until = time.monotonic() + FORGETS_FOR_SECONDS
    useless = Q(expires_at__lt=now - TOKENS_KEPT) | Q(revoked_at__lt=now - TOKENS_KEPT)
    gone: list[QuerySet[Model]] = [
        Session.objects.filter(expire_date__lt=now),
        UserSession.objects.filter(last_seen_at__lt=now - timedelta(seconds=settings.SESSION_COOKIE_AGE)),
        AccountLink.objects.filter(Q(expires_at__lt=now - TOKENS_KEPT) | Q(used_at__lt=now - TOKENS_KEPT)),
        ApiToken.objects.filter(useless),
        ServiceToken.objects.filter(useless),
        AgentToken.objects.filter(useless),
    ]
    return sum(_delete(rows, until) for rows in gone)


def _delete(rows: QuerySet[Model], until: float) -> int:
    total = 0
    while time.monotonic() < until:
        some = list(rows.order_by("pk").values_list("pk", flat=True)[:BATCH])
        deleted, _ = rows.filter(pk__in=some).delete()
        total += deleted
        if len(some) < BATCH:
            break
    return total
