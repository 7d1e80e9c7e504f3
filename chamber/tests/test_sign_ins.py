"""Sessions that have ended and tokens of no use go; what still lets somebody in stays."""

from datetime import timedelta
from typing import Any

import pytest
from allauth.usersessions.models import UserSession
from django.contrib.sessions.models import Session
from django.utils import timezone
from pytest_django.fixtures import Settings

from agentlink.models import AgentToken
from agentlink.tests.agents import make_token
from agentlink.tests.factories import make_cluster
from chamber import sign_ins
from chamber.models import AccountLink, ApiToken, LinkPurpose, Scope
from chamber.tasks import forget_sign_ins
from teams.tests.factories import make_user

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)


def session(key: str, ends: timedelta) -> None:
    Session.objects.create(session_key=key, session_data="", expire_date=timezone.now() + ends)


def token(name: str, **times: Any) -> None:
    user = make_user(f"user-of-{name}")
    ApiToken.objects.create(user=user, name=name, token_hash=name, prefix="chb_", scope=Scope.READ, **times)


def test_ended_sessions_go_and_others_stay() -> None:
    session("ended", -timedelta(seconds=1))
    session("lasts", DAY)
    assert forget_sign_ins() == 1
    assert list(Session.objects.values_list("session_key", flat=True)) == ["lasts"]


def test_tokens_go_thirty_days_after_they_were_of_use() -> None:
    now = timezone.now()
    token("expired-long-ago", expires_at=now - 31 * DAY)
    token("revoked-long-ago", expires_at=now + DAY, revoked_at=now - 31 * DAY)
    token("expired", expires_at=now - 29 * DAY)
    token("revoked", revoked_at=now - 29 * DAY)
    token("valid", expires_at=now + DAY)
    token("without-end")
    cluster = make_cluster()
    make_token(cluster, revoked_at=now - 31 * DAY)
    make_token(cluster)
    assert forget_sign_ins() == 3
    left = set(ApiToken.objects.values_list("name", flat=True))
    assert left == {"expired", "revoked", "valid", "without-end"}
    assert AgentToken.objects.get().revoked_at is None


def test_it_takes_batches_until_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        session(f"ended-{number}", -DAY)
    monkeypatch.setattr(sign_ins, "BATCH", 2)
    monkeypatch.setattr(sign_ins, "FORGETS_FOR_SECONDS", -1.0)
    assert sign_ins.forget(timezone.now()) == 0
    monkeypatch.setattr(sign_ins, "FORGETS_FOR_SECONDS", 30.0)
    assert sign_ins.forget(timezone.now()) == 5


def test_links_go_thirty_days_after_they_were_of_use() -> None:
    now = timezone.now()
    times: dict[str, dict[str, Any]] = {
        "expired-long-ago": {"expires_at": now - 31 * DAY},
        "used-long-ago": {"expires_at": now - 40 * DAY, "used_at": now - 31 * DAY},
        "used": {"expires_at": now - 22 * DAY, "used_at": now - 29 * DAY},
        "open": {"expires_at": now + DAY},
    }
    for name, fields in times.items():
        AccountLink.objects.create(
            user=make_user(f"user-of-{name}"), purpose=LinkPurpose.INVITATION, token_hash=name, **fields
        )
    assert forget_sign_ins() == 2
    assert set(AccountLink.objects.values_list("token_hash", flat=True)) == {"used", "open"}


def test_where_somebody_was_signed_in_is_forgotten_once_the_session_has_ended(settings: Settings) -> None:
    settings.SESSION_COOKIE_AGE = 3600
    now = timezone.now()
    for key, ago in (("ended", timedelta(minutes=61)), ("lasts", timedelta(minutes=59))):
        row = UserSession.objects.create(
            user=make_user(key), session_key=key, ip="127.0.0.1", user_agent="", data={}
        )
        UserSession.objects.filter(pk=row.pk).update(last_seen_at=now - ago)
    assert forget_sign_ins() == 1
    assert list(UserSession.objects.values_list("session_key", flat=True)) == ["lasts"]
