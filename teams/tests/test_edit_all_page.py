"""All rows as one form: saved together or not at all."""

import pytest

from teams.actions import edit_team
from teams.models import AuditEvent, Share, Team
from teams.tests.conftest import Acme, SignIn
from teams.tests.factories import actor, set_share

URL = "/teams/edit/?pool=main"


def _values(acme: Acme, **changes: object) -> dict[str, object]:
    """Return what a lead's form sends: NLP and Vision as they are, with changes as `nlp_reservation=5`."""
    values: dict[str, object] = {}
    for name, team, gpus, weight in (("nlp", acme.nlp, 20, 2), ("vision", acme.vision, 10, 1)):
        own = {"version": 1, "share_version": 1, "reservation": gpus, "bursting_priority": weight}
        for key, value in own.items():
            values[f"{team.pk.hex}-{key}"] = changes.get(f"{name}_{key}", value)
    return values


def _reservations() -> dict[str, int]:
    return dict(Share.objects.values_list("team__slug", "reservation_milli"))


def test_a_lead_moves_guarantees_between_children_at_once(acme: Acme, sign_in: SignIn) -> None:
    set_share(acme.research, acme.pool, gpus=0)
    values = _values(acme, nlp_reservation="8", vision_reservation="22")
    response = sign_in(acme.lead).post(URL, values)
    assert response.headers["Location"] == "/teams/?pool=main"
    assert (_reservations()["nlp"], _reservations()["vision"]) == (8000, 22_000)
    assert AuditEvent.objects.count() == 1


def test_shows_only_what_may_be_changed(acme: Acme, sign_in: SignIn) -> None:
    html = sign_in(acme.lead).get(URL).content.decode()
    assert f'name="{acme.nlp.pk.hex}-reservation" value="20"' in html
    assert "-maximum" not in html
    assert acme.research.pk.hex + "-" not in html
    assert f"{acme.nlp.pk.hex}-maximum" in sign_in(acme.admin).get(URL).content.decode()


def test_nothing_is_saved_where_it_does_not_fit_and_values_are_kept(acme: Acme, sign_in: SignIn) -> None:
    values = _values(acme, nlp_reservation="40", vision_bursting_priority="9")
    response = sign_in(acme.lead).post(URL, values)
    html = response.content.decode()
    assert response.status_code == 422
    assert "2 GPUs too many" in html
    assert f'name="{acme.nlp.pk.hex}-reservation" value="40"' in html
    assert Team.objects.get(slug="vision").bursting_priority == 1


def test_wrong_values_are_told_by_team(acme: Acme, sign_in: SignIn) -> None:
    response = sign_in(acme.lead).post(URL, _values(acme, vision_bursting_priority="x"))
    assert response.status_code == 422
    assert (
        "Vision: Bursting priority is &#x27;x&#x27;; it must be a whole number." in response.content.decode()
    )


def test_rows_that_somebody_else_changed_are_told(acme: Acme, sign_in: SignIn) -> None:
    edit_team(by=actor(acme.admin), team=acme.vision, version=1, changes={"bursting_priority": 7})
    response = sign_in(acme.lead).post(URL, _values(acme, nlp_reservation="5"))
    assert response.status_code == 422
    assert "Somebody changed Vision" in response.content.decode()
    assert _reservations()["nlp"] == 20_000


@pytest.mark.parametrize("who", ["viewer", "researcher", "outsider", "stranger"])
def test_who_may_change_nothing_has_no_such_page(acme: Acme, sign_in: SignIn, who: str) -> None:
    browser = sign_in(getattr(acme, who))
    for answer in (browser.get(URL), browser.post(URL, _values(acme, nlp_reservation="1"))):
        assert answer.status_code == (404 if who == "stranger" else 403)
