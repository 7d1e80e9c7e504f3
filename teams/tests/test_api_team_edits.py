"""A draft of edits over the API."""

from teams.models import AuditEvent, Share
from teams.tests.conftest import Acme, Api

URL = "/api/v1/team-edits/"


def _edit(team: str, reservation: float, *, version: int = 1) -> dict[str, object]:
    shares = [{"pool": "main", "version": version, "reservation": reservation}]
    return {"team": team, "version": 1, "shares": shares}


def test_saves_all_as_one_change(acme: Acme, api: Api) -> None:
    edits = [_edit("nlp", 8), {**_edit("vision", 40), "bursting_priority": 9}]
    response = api(acme.admin).post(URL, {"edits": edits}, format="json")
    assert response.status_code == 200
    assert [team["slug"] for team in response.json()["results"]] == ["nlp", "vision"]
    assert response.json()["results"][1]["pools"][0]["reservation"] == 40
    assert AuditEvent.objects.count() == 1


def test_or_none(acme: Acme, api: Api) -> None:
    edits = [_edit("nlp", 8), _edit("vision", 40, version=3)]
    response = api(acme.admin).post(URL, {"edits": edits}, format="json")
    assert response.status_code == 412
    assert Share.objects.get(team=acme.nlp).reservation_milli == 20_000


def test_errors_name_team_and_pool(acme: Acme, api: Api) -> None:
    response = api(acme.admin).post(URL, {"edits": [_edit("nlp", 40)]}, format="json")
    assert response.status_code == 422
    assert list(response.json()["errors"]) == ["nlp.main.reservation"]


def test_an_unknown_team_pool_or_key_is_refused(acme: Acme, api: Api) -> None:
    client = api(acme.admin)
    pool = {"team": "nlp", "version": 1, "shares": [{"pool": "x", "version": 0, "reservation": 1}]}
    assert client.post(URL, {"edits": [_edit("production", 1)]}, format="json").status_code == 404
    assert client.post(URL, {"edits": [pool]}, format="json").status_code == 404
    assert client.post(URL, {"edits": [{**_edit("nlp", 1), "x": 1}]}, format="json").status_code == 422
    assert client.post(URL, {"edits": []}, format="json").status_code == 422
