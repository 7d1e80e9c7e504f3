"""Editing a row of the tree in place, and on a page of its own without scripts."""

import pytest

from chamber import live
from teams.actions import edit_team
from teams.models import AuditEvent, Share, Team
from teams.tests.conftest import Acme, SignIn
from teams.tests.factories import actor

URL = "/teams/nlp/edit/?pool=main"
HTMX = {"HX-Request": "true"}


def _values(**changes: object) -> dict[str, object]:
    """Return what the form sends for NLP as it is, with changes."""
    values: dict[str, object] = {"version": 1, "share_version": 1, "reservation": "20", "pool_maximum": ""}
    values |= {"bursting_priority": 2, "burst_limit_percent": "", "maximum": ""}
    return values | changes


def _share(acme: Acme) -> Share:
    return Share.objects.get(team=acme.nlp, pool=acme.pool)


def test_the_row_becomes_a_form_with_its_values(acme: Acme, sign_in: SignIn) -> None:
    html = sign_in(acme.admin).get(URL, headers=HTMX).content.decode()
    assert html.lstrip().startswith(f'<tr id="team-{acme.nlp.pk}"')
    assert 'name="reservation" value="20"' in html
    assert 'name="burst_limit_percent"' in html


def test_a_lead_gets_what_a_lead_may_change(acme: Acme, sign_in: SignIn) -> None:
    html = sign_in(acme.lead).get(URL, headers=HTMX).content.decode()
    assert 'name="bursting_priority"' in html
    assert 'name="burst_limit_percent"' not in html


def test_saves_team_and_share_as_one_change_and_answers_the_row(
    acme: Acme, sign_in: SignIn, django_capture_on_commit_callbacks: pytest.FixtureRequest
) -> None:
    values = _values(reservation="12.5", bursting_priority=6, burst_limit_percent="100")
    known = live.version("teams")
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[operator]
        response = sign_in(acme.admin).post(URL, values, headers=HTMX)
    assert response.status_code == 200
    assert response["HX-Trigger-After-Settle"] == "teams-saved"
    assert "12.5" in response.content.decode()
    assert (_share(acme).reservation_milli, Team.objects.get(slug="nlp").bursting_priority) == (12_500, 6)
    assert AuditEvent.objects.get().action == "team.edited"
    assert live.flush(60)
    assert live.version("teams") > known


def test_without_scripts_leads_back_to_the_tree(acme: Acme, sign_in: SignIn) -> None:
    browser = sign_in(acme.admin)
    assert "<html" in browser.get(URL).content.decode()
    response = browser.post(URL, _values(reservation="10"))
    assert response.headers["Location"] == "/teams/?pool=main"


def test_all_that_is_wrong_in_a_row_is_told_at_once(acme: Acme, sign_in: SignIn) -> None:
    wrong = _values(
        reservation="many", pool_maximum="-1", bursting_priority="11", burst_limit_percent="-5", maximum="x"
    )
    html = sign_in(acme.admin).post(URL, wrong, headers=HTMX).content.decode()
    for told in (
        "Reservation is &#x27;many&#x27;; it must be a number.",
        "Maximum here is &#x27;-1&#x27;; at least 0 is allowed.",
        "A bursting priority is a whole number from 1 to 10, not 11.",
        "A burst limit is from 0 (no bursting) to 1,000,000 %, or empty for none; not -5 %.",
        "Maximum is &#x27;x&#x27;; it must be a number.",
    ):
        assert told in html, told


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"bursting_priority": "11"}, "from 1 to 10, not 11"),
        ({"burst_limit_percent": "-5"}, "not -5 %"),
        ({"reservation": "40"}, "2 GPUs too many"),
        ({"reservation": "0.0001"}, "0.0001&#x27;; at most 3 digits are allowed after the point."),
        ({"reservation": "many"}, "Reservation is &#x27;many&#x27;; it must be a number."),
        ({"pool_maximum": "5"}, "above its maximum of 5 GPUs"),
        ({"maximum": "5"}, "above its maximum of 5 GPUs"),
        ({"version": "0"}, "Somebody changed NLP"),
    ],
)
def test_a_wrong_value_is_told_and_kept(
    acme: Acme, sign_in: SignIn, change: dict[str, str], told: str
) -> None:
    response = sign_in(acme.admin).post(URL, _values(**change), headers=HTMX)
    html = response.content.decode()
    assert response.status_code == 422
    assert told in html
    [(name, value)] = change.items()
    assert f'name="{name}" value="{value}"' in html
    assert _share(acme).reservation_milli == 20_000


def test_the_second_of_two_admins_is_told(acme: Acme, sign_in: SignIn) -> None:
    edit_team(by=actor(acme.org_admin), team=acme.nlp, version=1, changes={"bursting_priority": 9})
    response = sign_in(acme.admin).post(URL, _values(bursting_priority="3"), headers=HTMX)
    assert response.status_code == 422
    assert "Somebody changed NLP since you read it" in response.content.decode()
    assert Team.objects.get(slug="nlp").bursting_priority == 9


def test_cancel_answers_the_row_as_it_is(acme: Acme, sign_in: SignIn) -> None:
    browser = sign_in(acme.admin)
    row = browser.get("/teams/nlp/row/?pool=main", headers=HTMX).content.decode()
    assert f'id="fig-{acme.nlp.pk}"' in row
    assert "<form" not in row
    assert browser.get("/teams/nlp/row/?pool=main").headers["Location"] == "/teams/?pool=main"


@pytest.mark.parametrize(
    ("who", "status"), [("viewer", 403), ("researcher", 403), ("outsider", 404), ("stranger", 404)]
)
def test_others_may_not(acme: Acme, sign_in: SignIn, who: str, status: int) -> None:
    browser = sign_in(getattr(acme, who))
    assert browser.get(URL).status_code == status
    assert browser.post(URL, _values(reservation="1")).status_code == status
    assert _share(acme).reservation_milli == 20_000


def test_a_lead_cannot_slip_in_a_limit(acme: Acme, sign_in: SignIn) -> None:
    sign_in(acme.lead).post(URL, _values(reservation="10", maximum="15"), headers=HTMX)
    assert Team.objects.get(slug="nlp").maximum_milli is None
    assert _share(acme).reservation_milli == 10_000
