"""The page on which a team is made, and the one that sets up the organisation."""

import pytest
from django.test import Client

from teams.models import Team
from teams.tests.conftest import Acme, SignIn
from teams.tests.factories import make_user


def test_offers_the_teams_one_is_an_admin_of(acme: Acme, sign_in: SignIn) -> None:
    html = sign_in(acme.admin).get("/teams/new/?parent=nlp").content.decode()
    assert '<option value="nlp" selected>' in html
    assert '<option value="acme"' not in html


def test_makes_the_team(acme: Acme, sign_in: SignIn) -> None:
    values = {"parent": "nlp", "name": "Speech", "slug": "", "bursting_priority": "2"}
    response = sign_in(acme.admin).post("/teams/new/", values)
    assert response.headers["Location"] == "/teams/speech/"
    assert Team.objects.get(slug="speech").parent == acme.nlp


def test_errors_stand_beside_their_fields_and_values_are_kept(acme: Acme, sign_in: SignIn) -> None:
    values = {"parent": "nlp", "name": "Speech", "slug": "vision", "bursting_priority": "2"}
    response = sign_in(acme.admin).post("/teams/new/", values)
    html = response.content.decode()
    assert response.status_code == 422
    assert "taken by another team" in html
    assert 'value="Speech"' in html


def test_a_parent_that_is_not_offered_is_refused(acme: Acme, sign_in: SignIn) -> None:
    values = {"parent": "production", "name": "Speech", "bursting_priority": "2"}
    assert sign_in(acme.admin).post("/teams/new/", values).status_code == 422


@pytest.mark.parametrize("who", ["viewer", "researcher", "lead", "stranger"])
def test_others_make_none(acme: Acme, sign_in: SignIn, who: str) -> None:
    assert sign_in(getattr(acme, who)).get("/teams/new/").status_code == 403


@pytest.mark.django_db
def test_without_an_organisation_a_superuser_names_it(client: Client) -> None:
    client.force_login(make_user("root", is_superuser=True))
    assert "Set up the organisation" in client.get("/teams/").content.decode()
    assert client.post("/teams/", {"name": ""}).status_code == 422
    assert client.post("/teams/", {"name": "Acme"}).headers["Location"] == "/teams/acme/"


@pytest.mark.django_db
def test_others_are_told_that_there_is_none_yet(client: Client) -> None:
    client.force_login(make_user())
    assert "There is no organisation yet" in client.get("/teams/").content.decode()
    assert client.post("/teams/", {"name": "Acme"}).status_code == 403
    assert not Team.objects.exists()
