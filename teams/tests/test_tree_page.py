"""The page of the tree."""

import time

import pytest
from django.test import Client
from django.utils import timezone

from teams.models import Pool, Role, Team
from teams.tests.conftest import Acme, SignIn
from teams.tests.factories import bind, make_pool, make_user, set_share
from teams.tests.test_tree import make_large_tree

FRAGMENT = {"X-Chamber-Fragment": "1"}


def test_shows_the_teams_the_viewer_may_see(acme: Acme, sign_in: SignIn) -> None:
    html = sign_in(acme.lead).get("/teams/").content.decode()
    assert f'id="team-{acme.nlp.pk}"' in html
    assert f'id="fig-{acme.nlp.pk}"' in html
    assert "Production" not in html
    assert f'id="team-{acme.root.pk}"' not in html


def test_a_live_section_fetches_only_the_table(acme: Acme, sign_in: SignIn) -> None:
    response = sign_in(acme.lead).get("/teams/", headers=FRAGMENT)
    assert response.content.decode().lstrip().startswith('<section id="team-tree"')
    assert response["Cache-Control"] == "no-store"


def test_asks_scheduling_for_the_figures_of_the_pool(acme: Acme, sign_in: SignIn) -> None:
    make_pool("Other", order=1)
    browser = sign_in(acme.lead)
    assert "scheduling/team-figures/?pool=other" in browser.get("/teams/?pool=other").content.decode()
    assert "scheduling/team-figures/?pool=main" in browser.get("/teams/figures/").content.decode()


@pytest.mark.parametrize(
    ("who", "editable"),
    [
        ("viewer", set()),
        ("researcher", set()),
        ("lead", {"nlp", "vision"}),
        ("admin", {"nlp", "vision"}),
        ("org_admin", {"acme", "research", "nlp", "vision", "production"}),
    ],
)
def test_offers_to_edit_what_may_be_edited(acme: Acme, sign_in: SignIn, who: str, editable: set[str]) -> None:
    html = sign_in(getattr(acme, who)).get("/teams/").content.decode()
    slugs = Team.objects.values_list("slug", flat=True)
    assert {slug for slug in slugs if f'href="/teams/{slug}/edit/' in html} == editable


def test_says_who_bounds_a_team_without_naming_those_the_viewer_may_not_see(
    acme: Acme, sign_in: SignIn
) -> None:
    set_share(acme.research, acme.pool, gpus=48, maximum=50)
    assert "by Research" in sign_in(acme.lead).get("/teams/").content.decode()
    html = sign_in(acme.researcher).get("/teams/").content.decode()
    assert "by a team above" in html
    assert ">Research<" not in html
    assert "by Research" not in html


def test_a_part_of_the_tree_has_its_own_page(acme: Acme, sign_in: SignIn) -> None:
    html = sign_in(acme.org_admin).get("/teams/?under=research").content.decode()
    assert "Research and below" in html
    assert f'id="team-{acme.production.pk}"' not in html


@pytest.mark.parametrize("query", ["pool=nowhere", "under=nowhere", "under=production"])
def test_what_is_not_visible_is_not_found(acme: Acme, sign_in: SignIn, query: str) -> None:
    assert sign_in(acme.lead).get(f"/teams/?{query}").status_code == 404


@pytest.mark.django_db
@pytest.mark.parametrize("query", ["", "pool=nowhere", "under=nowhere"])
def test_without_an_organisation_any_address_says_how_to_begin(sign_in: SignIn, query: str) -> None:
    answer = sign_in(make_user()).get(f"/teams/?{query}")
    assert answer.status_code == 200
    assert "There is no organisation yet" in answer.content.decode()


def test_warns_admins_of_what_is_promised_beyond_the_capacity(acme: Acme, sign_in: SignIn) -> None:
    warning = "80 GPUs of Main are guaranteed"
    assert warning in sign_in(acme.org_admin).get("/teams/").content.decode()
    assert warning not in sign_in(acme.viewer).get("/teams/").content.decode()


def test_without_a_role_says_whom_to_ask(acme: Acme, sign_in: SignIn) -> None:
    assert "Ask a lead or an admin" in sign_in(acme.stranger).get("/teams/").content.decode()


def test_without_pools_shows_the_teams_all_the_same(acme: Acme, sign_in: SignIn) -> None:
    acme.pool.shares.all().delete()
    Pool.objects.all().delete()
    html = sign_in(acme.org_admin).get("/teams/").content.decode()
    assert "No pools yet" in html
    assert f'id="team-{acme.nlp.pk}"' in html


def test_archived_teams_are_not_shown(acme: Acme, sign_in: SignIn) -> None:
    Team.objects.filter(pk=acme.vision.pk).update(archived_at=timezone.now())
    assert f'id="team-{acme.vision.pk}"' not in sign_in(acme.lead).get("/teams/").content.decode()


def test_signed_out_leads_to_the_sign_in(acme: Acme, client: Client) -> None:
    assert client.get("/teams/").headers["Location"].startswith("/sign-in/")


@pytest.mark.django_db
def test_two_thousand_teams_take_as_many_queries_as_two(
    sign_in: SignIn, django_assert_num_queries: pytest.FixtureRequest
) -> None:
    root, user = make_large_tree(2000), make_user()
    bind(user, root, Role.VIEWER)
    browser = sign_in(user)
    began = time.process_time()
    with django_assert_num_queries(9):  # type: ignore[operator]
        html = browser.get("/teams/").content.decode()
    took = time.process_time() - began
    assert "two levels are shown" in html
    assert (
        html.count('id="team-') - html.count('id="team-figures') - html.count('id="team-tree') == 1 + 8 + 40
    )
    assert took < 3, f"{took:.2f} s"
