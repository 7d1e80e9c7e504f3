"""Giving and taking roles on a person's page."""

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from chamber.models import User
from teams.models import AuditEvent, Binding, Role, Team
from teams.tests.factories import bind, make_org, make_team, member

pytestmark = pytest.mark.django_db


@pytest.fixture
def acme() -> Team:
    return make_org("Acme")


@pytest.fixture
def nlp(acme: Team) -> Team:
    return make_team(acme, "NLP")


@pytest.fixture
def ada(nlp: Team) -> User:
    return member(nlp, Role.VIEWER, "ada")


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def roles(user: User) -> list[tuple[str, str]]:
    return sorted(Binding.objects.filter(user=user).values_list("role", "team__slug"))


def text(client: Client, address: str = "/people/ada/") -> str:
    return client.get(address).content.decode()


def test_a_lead_gives_and_takes_roles_of_their_team_there(acme: Team, nlp: Team, ada: User) -> None:
    lead = signed_in(member(nlp, Role.LEAD, "lena"))
    given = lead.post("/people/ada/roles/", {"team": "nlp", "role": "researcher"}, follow=True)
    assert "ada is researcher of NLP." in given.content.decode()
    binding = Binding.objects.get(user=ada, role=Role.VIEWER)
    address = f"/people/ada/roles/{binding.pk}/remove/"
    assert address in text(lead)
    assert "ada is no longer viewer of NLP." in lead.post(address, follow=True).content.decode()
    assert roles(ada) == [("researcher", "nlp")]
    told = AuditEvent.objects.filter(action__startswith="member.").order_by("at")
    assert list(told.values_list("action", "actor")) == [("member.added", "lena"), ("member.removed", "lena")]


def test_only_what_one_may_give_is_offered_and_taken(acme: Team, nlp: Team, ada: User) -> None:
    vision = make_team(acme, "Vision")
    lead = signed_in(member(nlp, Role.LEAD, "lena"))
    admin = bind(ada, nlp, Role.ADMIN)
    shown = text(lead)
    assert f"/people/ada/roles/{admin.pk}/remove/" not in shown
    assert 'value="admin"' not in shown
    assert 'value="vision"' not in shown
    for asked in ({"team": "nlp", "role": "admin"}, {"team": vision.slug, "role": "viewer"}):
        assert lead.post("/people/ada/roles/", asked).status_code == 422
    assert lead.post(f"/people/ada/roles/{admin.pk}/remove/").status_code == 403
    assert roles(ada) == [("admin", "nlp"), ("viewer", "nlp")]


def test_what_is_refused_stays_in_the_form_with_the_reason(acme: Team, nlp: Team, ada: User) -> None:
    olga = signed_in(member(acme, Role.ORG_ADMIN, "olga"))
    refused = olga.post("/people/ada/roles/", {"team": "nlp", "role": "operator"})
    assert refused.status_code == 422
    assert "Operator is a role of the whole organisation, not of NLP." in refused.content.decode()
    assert '<option value="nlp" selected>' in refused.content.decode()
    again = olga.post("/people/ada/roles/", {"team": "nlp", "role": "viewer"})
    assert "ada is viewer of NLP already." in again.content.decode()


def test_roles_by_a_group_and_of_who_is_disabled_are_not_given_there(
    acme: Team, nlp: Team, ada: User
) -> None:
    crew = Group.objects.create(name="crew")
    crew.user_set.add(ada)
    by_group = Binding.objects.create(team=nlp, group=crew, role=Role.LEAD)
    olga = signed_in(member(acme, Role.ORG_ADMIN, "olga"))
    assert "by the group crew" in text(olga)
    assert olga.post(f"/people/ada/roles/{by_group.pk}/remove/").status_code == 404
    User.objects.filter(pk=ada.pk).update(is_active=False)
    assert "Give the role" not in text(olga)
    assert olga.post("/people/ada/roles/", {"team": "nlp", "role": "lead"}).status_code == 422


def test_the_last_organisation_admin_keeps_the_role(acme: Team) -> None:
    olga = member(acme, Role.ORG_ADMIN, "olga")
    binding = Binding.objects.get(user=olga)
    answer = signed_in(olga).post(f"/people/olga/roles/{binding.pk}/remove/", follow=True)
    assert "olga is the last organisation admin who can sign in." in answer.content.decode()
    assert roles(olga) == [("org-admin", "acme")]


def test_who_takes_the_last_role_that_they_see_is_led_to_the_list(nlp: Team, ada: User) -> None:
    lead = signed_in(member(nlp, Role.LEAD, "lena"))
    answer = lead.post(f"/people/ada/roles/{Binding.objects.get(user=ada).pk}/remove/", follow=True)
    assert answer.redirect_chain == [("/people/", 302)]
    assert "ada is no longer viewer of NLP." in answer.content.decode()


def test_an_auditor_is_offered_nothing(acme: Team, ada: User) -> None:
    auditor = signed_in(member(acme, Role.AUDITOR, "aud"))
    assert "Give the role" not in text(auditor)
    assert auditor.post("/people/ada/roles/", {"team": "nlp", "role": "viewer"}).status_code == 403


def test_whoever_takes_their_own_last_role_is_led_to_a_page_that_they_may_see(nlp: Team) -> None:
    lena = member(nlp, Role.LEAD, "lena")
    address = f"/people/lena/roles/{lena.bindings.get().pk}/remove/"
    answer = signed_in(lena).post(address, follow=True)
    assert (answer.status_code, roles(lena)) == (200, [])
    assert "lena is no longer lead of NLP." in answer.content.decode()
