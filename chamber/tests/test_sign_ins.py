"""Sessions that have ended and tokens of no use go; what still lets somebody in stays."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.utils import timezone

from agentlink.models import AgentToken
from agentlink.tests.agents import make_token
from agentlink.tests.factories import make_cluster
from chamber import sign_ins
from chamber.models import ApiToken, Scope
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
