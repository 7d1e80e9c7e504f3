"""The API's answers say in headers what is not known, to those whom it concerns."""

from datetime import UTC, datetime

import pytest
from django.test import Client

from scheduling.explain import silence
from teams.models import Role
from teams.tests.factories import make_org, make_user, member

pytestmark = pytest.mark.django_db
AT = datetime(2026, 1, 1, 12, tzinfo=UTC)


def keep(found: silence.Silence) -> None:
    silence._kept = (float("inf"), found)


def test_while_all_is_known_there_is_no_header(client: Client) -> None:
    client.force_login(member(make_org(), Role.RESEARCHER))
    headers = client.get("/api/v1/workloads/").headers
    assert not {name for name in headers if name.startswith("Chamber")}


def test_members_are_told_of_the_scheduler_and_of_clusters(client: Client) -> None:
    client.force_login(member(make_org(), Role.RESEARCHER))
    keep(silence.Silence(undecided=True, since=AT, clusters=(silence.SilentCluster("west", AT),)))
    headers = client.get("/api/v1/workloads/").headers
    assert headers["Chamber-Undecided-Since"] == "2026-01-01T12:00:00+00:00"
    assert headers["Chamber-Silent-Clusters"] == "west=2026-01-01T12:00:00+00:00"
    keep(silence.Silence(undecided=True))
    assert client.get("/api/v1/workloads/").headers["Chamber-Undecided-Since"] == "never"


def test_strangers_hear_of_no_cluster_and_nobody_hears_anything_signed_out(client: Client) -> None:
    keep(silence.Silence(undecided=True, since=AT, clusters=(silence.SilentCluster("west", AT),)))
    answer = client.get("/api/v1/workloads/")
    assert answer.status_code in {401, 403}
    assert "Chamber-Undecided-Since" not in answer.headers
    make_org()
    client.force_login(make_user("sven"))
    assert "Chamber-Silent-Clusters" not in client.get("/api/v1/workloads/").headers
