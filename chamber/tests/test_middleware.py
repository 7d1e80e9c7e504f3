"""What is done to every request before a view sees it."""

import pytest
from django.test import Client

from teams.models import Role
from teams.tests.factories import make_org, make_pool, make_team, member

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    "path",
    [
        "/teams/?pool=ma%00in",
        "/teams/?under=research%00",
        "/teams/?pool=%00",
        "/scheduling/team-figures/?under=%00research",
        "/workloads/submit/?team=re%00search",
        "/workloads/?team=research%00",
    ],
)
def test_a_nul_in_what_an_address_asks_for_is_left_out(client: Client, path: str) -> None:
    root = make_org("Acme")
    make_team(root, "Research")
    make_pool("Main")
    client.force_login(member(root, Role.ORG_ADMIN, "olga"))
    assert client.get(path).status_code == 200
