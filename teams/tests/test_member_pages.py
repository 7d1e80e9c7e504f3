"""Giving and taking roles on a team's page."""

import pytest

from teams.models import Binding, Role
from teams.tests.conftest import Acme, SignIn

URL = "/teams/nlp/members/"


def test_adds_a_member(acme: Acme, sign_in: SignIn) -> None:
    response = sign_in(acme.lead).post(URL, {"who": "sven", "role": "researcher"}, follow=True)
    assert "sven is researcher of NLP" in response.content.decode()


def test_nobody_of_that_name_is_told_and_the_name_kept(acme: Acme, sign_in: SignIn) -> None:
    response = sign_in(acme.lead).post(URL, {"who": "svven", "role": "researcher"})
    assert response.status_code == 422
    assert 'value="svven"' in response.content.decode()


def test_a_role_that_is_not_offered_is_refused(acme: Acme, sign_in: SignIn) -> None:
    assert sign_in(acme.lead).post(URL, {"who": "sven", "role": "admin"}).status_code == 422
    assert not Binding.objects.filter(user=acme.stranger).exists()


def test_removes_a_member(acme: Acme, sign_in: SignIn) -> None:
    binding = Binding.objects.get(user=acme.researcher)
    browser = sign_in(acme.lead)
    url = f"{URL}{binding.pk}/remove/"
    assert f'action="{url}"' in browser.get("/teams/nlp/").content.decode()
    browser.post(url)
    assert not Binding.objects.filter(pk=binding.pk).exists()


def test_why_the_last_org_admin_stays_is_told(acme: Acme, sign_in: SignIn) -> None:
    binding = Binding.objects.get(role=Role.ORG_ADMIN)
    response = sign_in(acme.org_admin).post(f"/teams/acme/members/{binding.pk}/remove/", follow=True)
    assert "olga is the last organisation admin" in response.content.decode()


def test_members_of_another_team_are_not_reached_through_this_one(acme: Acme, sign_in: SignIn) -> None:
    binding = Binding.objects.get(user=acme.outsider)
    assert sign_in(acme.lead).post(f"{URL}{binding.pk}/remove/").status_code == 404
    assert Binding.objects.filter(pk=binding.pk).exists()


@pytest.mark.parametrize(("who", "status"), [("viewer", 403), ("researcher", 403), ("outsider", 404)])
def test_others_change_no_members(acme: Acme, sign_in: SignIn, who: str, status: int) -> None:
    binding = Binding.objects.get(user=acme.researcher)
    browser = sign_in(getattr(acme, who))
    assert browser.post(URL, {"who": "sven", "role": "viewer"}).status_code == status
    assert browser.post(f"{URL}{binding.pk}/remove/").status_code == status
    assert Binding.objects.filter(pk=binding.pk).exists()
