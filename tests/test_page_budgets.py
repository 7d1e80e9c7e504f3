"""How many queries the large pages make: at most twelve, and as many with many rows as with few."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chamber.models import User
from teams.models import Pool, Role, Team
from teams.tests.factories import make_org, make_pool, make_team, member
from workloads.models import Event, EventKind
from workloads.tests.factories import make_workload

pytestmark = pytest.mark.django_db

PAGES = [
    "/",
    "/workloads/",
    "/workloads/?team=team-0",
    "/workloads/?status=open&q=work",
    "/teams/",
    "/teams/?pool=main",
]


def organisation() -> tuple[Team, Pool]:
    return make_org("Acme"), make_pool("Main")


def fill(org: Team, owner: User, count: int) -> None:
    """Add so many teams, each with a workload that waits and an event of it."""
    now = timezone.now()
    for number in range(count):
        team = make_team(org, f"Team {Team.objects.count() - 1}")
        row = make_workload(
            team, owner, submitted_at=now - timedelta(seconds=number), reason_code="waiting-for-gpus"
        )
        Event.objects.create(
            workload=row,
            sequence=50,
            at=now,
            kind=EventKind.STATUS,
            actor="x",
            via="system",
            message="Changed.",
        )


def queries(client: Client, path: str) -> int:
    with CaptureQueriesContext(connection) as made:
        assert client.get(path).status_code == 200
    return len(made)


@pytest.mark.parametrize("role", [Role.ORG_ADMIN, Role.RESEARCHER])
@pytest.mark.parametrize("path", PAGES)
def test_a_large_page_makes_few_queries_however_many_rows_there_are(path: str, role: Role) -> None:
    org, _ = organisation()
    reader = member(org, role, "reader")
    client = Client()
    client.force_login(reader)
    fill(org, reader, 2)
    few = queries(client, path)
    fill(org, reader, 30)
    assert queries(client, path) == few <= 12
