"""A team's page, and the forms on it."""

import pytest
from django.utils import timezone

from teams.actions import archive_team, edit_team
from teams.models import Role, Team, TeamPolicy
from teams.tests.conftest import Acme, SignIn
from teams.tests.factories import actor, make_team, member

URL = "/teams/nlp/"


def test_shows_shares_members_and_rules(acme: Acme, sign_in: SignIn) -> None:
    html = sign_in(acme.researcher).get(URL).content.decode()
    assert "20" in html
    assert "rita" in html
    assert "elastic up to 75, reserved up to 100" in html
    assert "Latest changes" not in html


def test_members_above_are_shown_as_far_as_the_viewer_sees(acme: Acme, sign_in: SignIn) -> None:
    assert "adam" in sign_in(acme.lead).get(URL).content.decode()
    html = sign_in(acme.researcher).get(URL).content.decode()
    assert "adam" not in html
    assert "olga" not in html


def test_a_live_section_fetches_only_the_content(acme: Acme, sign_in: SignIn) -> None:
    response = sign_in(acme.lead).get(URL, headers={"X-Chamber-Fragment": "1"})
    assert response.content.decode().lstrip().startswith('<div id="team"')


def test_admins_read_the_latest_changes(acme: Acme, sign_in: SignIn) -> None:
    edit_team(by=actor(acme.org_admin), team=acme.nlp, version=1, changes={"bursting_priority": 9})
    assert "NLP: edited, bursting priority 2 → 9" in sign_in(acme.admin).get(URL).content.decode()


@pytest.mark.parametrize(
    ("who", "forms"),
    [
        ("researcher", set()),
        ("viewer", set()),
        ("lead", {"members"}),
        ("admin", {"members", "rules", "rename", "move", "archive"}),
    ],
)
def test_offers_what_the_viewer_may_do(acme: Acme, sign_in: SignIn, who: str, forms: set[str]) -> None:
    html = sign_in(getattr(acme, who)).get(URL).content.decode()
    acts = ("members", "rules", "rename", "move", "archive")
    assert {act for act in acts if f'action="{URL}{act}/"' in html} == forms


def test_takes_as_many_queries_whatever_the_number_of_members_and_teams(
    acme: Acme, sign_in: SignIn, django_assert_num_queries: pytest.FixtureRequest
) -> None:
    for _ in range(20):
        make_team(acme.nlp)
        member(acme.nlp, Role.RESEARCHER)
    browser = sign_in(acme.admin)
    with django_assert_num_queries(16):  # type: ignore[operator]
        browser.get(URL)


def test_archived_teams_below_are_found_here(acme: Acme, sign_in: SignIn) -> None:
    archive_team(by=actor(acme.admin), team=acme.nlp)
    assert ">NLP</a> (archived)" in sign_in(acme.admin).get("/teams/research/").content.decode()


@pytest.mark.parametrize("who", ["outsider", "stranger"])
def test_for_others_it_does_not_exist(acme: Acme, sign_in: SignIn, who: str) -> None:
    assert sign_in(getattr(acme, who)).get(URL).status_code == 404


def test_rename(acme: Acme, sign_in: SignIn) -> None:
    values = {"version": 1, "name": "Language", "slug": "language"}
    response = sign_in(acme.admin).post(f"{URL}rename/", values)
    assert response.headers["Location"] == "/teams/language/"


def test_a_wrong_name_is_told_and_kept(acme: Acme, sign_in: SignIn) -> None:
    response = sign_in(acme.admin).post(f"{URL}rename/", {"version": 1, "name": "X", "slug": "V i s i o n"})
    assert response.status_code == 422
    assert 'value="V i s i o n"' in response.content.decode()


def test_move(acme: Acme, sign_in: SignIn) -> None:
    browser = sign_in(acme.org_admin)
    html = browser.get(URL).content.decode()
    assert '<option value="production"' in html
    assert '<option value="nlp"' not in html
    browser.post(f"{URL}move/", {"version": 1, "parent": "acme"})
    assert Team.objects.get(slug="nlp").parent == acme.root


def test_a_move_that_does_not_fit_is_told(acme: Acme, sign_in: SignIn) -> None:
    make_team(acme.production, "Small")
    acme.production.shares.update(reservation_milli=1000)
    response = sign_in(acme.org_admin).post(f"{URL}move/", {"version": 1, "parent": "production"})
    assert response.status_code == 422
    assert "19 GPUs too many" in response.content.decode()


def test_archive_and_restore(acme: Acme, sign_in: SignIn) -> None:
    browser = sign_in(acme.admin)
    browser.post(f"{URL}archive/")
    html = browser.get(URL).content.decode()
    assert Team.objects.get(slug="nlp").is_archived
    assert "Archived" in html
    assert f'action="{URL}rename/"' not in html
    browser.post(f"{URL}unarchive/")
    assert not Team.objects.get(slug="nlp").is_archived


def test_why_it_cannot_be_archived_is_told(acme: Acme, sign_in: SignIn) -> None:
    now = timezone.now()
    acme.nlp.workloads.create(
        slug="w", name="w", owner=acme.lead, image="x", gpu_milli=1000, status_since=now, submitted_at=now
    )
    browser = sign_in(acme.admin)
    html = browser.post(f"{URL}archive/", follow=True).content.decode()
    assert "NLP has 1 workload waiting or running" in html


def test_rules(acme: Acme, sign_in: SignIn) -> None:
    browser = sign_in(acme.admin)
    values = {"version": 0, "researcher_elastic": "50", "longest_hours": "1.5", "largest_workload": "8"}
    browser.post(f"{URL}rules/", values)
    rules = TeamPolicy.objects.get().typed
    assert rules.researcher_priority is not None
    assert (rules.researcher_priority.elastic_max, rules.researcher_priority.reserved_max) == (50, None)
    assert (rules.longest_time_limit_seconds, rules.largest_workload_milli) == (5400, 8000)
    html = browser.get(URL).content.decode()
    assert 'value="1.5"' in html
    assert "elastic up to 50, no reserved work" in html


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"researcher_elastic": "99"}, "is wider than"),
        ({"lead_reserved": "150"}, "Say the highest elastic priority"),
        ({"version": "5", "largest_workload": "1"}, "Somebody changed the rules"),
    ],
)
def test_wrong_rules_are_told(acme: Acme, sign_in: SignIn, change: dict[str, str], told: str) -> None:
    response = sign_in(acme.admin).post(f"{URL}rules/", {"version": "0"} | change)
    assert response.status_code == 422
    assert told in response.content.decode()
    assert not TeamPolicy.objects.exists()


def test_rules_of_jobs_by_kubectl_are_set_and_kept(acme: Acme, sign_in: SignIn) -> None:
    browser = sign_in(acme.admin)
    values = {"version": "0", "service_accounts": " default\r\n", "volumes": "none", "secrets": "none"}
    browser.post(f"{URL}rules/", values)
    rules = TeamPolicy.objects.get().typed
    assert (rules.service_accounts, rules.volumes) == (("default",), ())
    page = browser.get(URL).content.decode()
    assert "as default; mounting nothing" in page
    answer = browser.post(f"{URL}rules/", {"version": "1", "volumes": "hostPath"})
    assert (answer.status_code, "hostPath&#x27; is none of" in answer.content.decode()) == (422, True)


@pytest.mark.parametrize("act", ["rename", "move", "archive", "unarchive", "rules"])
@pytest.mark.parametrize(("who", "status"), [("viewer", 403), ("lead", 403), ("outsider", 404)])
def test_others_change_nothing(acme: Acme, sign_in: SignIn, act: str, who: str, status: int) -> None:
    values = {"version": 1 if act != "rules" else 0, "name": "X", "slug": "x", "parent": "vision"}
    response = sign_in(getattr(acme, who)).post(f"{URL}{act}/", values)
    assert response.status_code == status
    acme.nlp.refresh_from_db()
    assert (acme.nlp.name, acme.nlp.version) == ("NLP", 1)
