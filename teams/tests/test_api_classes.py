"""Job classes and tiers over the API: who changes what, on which version, and what a team has of them."""

from typing import Any

import pytest

from teams.models import JobClass
from teams.tests.conftest import Acme, Api

CLASSES = "/api/v1/classes/"
TIERS = "/api/v1/tiers/"
OF_NLP = "/api/v1/teams/nlp/classes/"


def test_a_tier_and_a_class_of_it_are_made_changed_retired_and_deleted(acme: Acme, api: Api) -> None:
    client = api(acme.org_admin)
    made = client.post(TIERS, {"slug": "urgent", "priority": 90, "priority_classes": ["gold"]}, format="json")
    assert (made.status_code, made.json()["name"], made["ETag"]) == (201, "Urgent", '"1"')
    body = {"slug": "sweep", "tier": "urgent", "time_limit_seconds": None, "max_retries": 2, "retired": True}
    made = client.post(CLASSES, body, format="json")
    assert (made.status_code, made.json()["priority"], made.json()["retired"]) == (201, 90, True)
    one = f"{CLASSES}sweep/"
    etag = client.get(one)["ETag"]
    changed = client.patch(
        one, {"retired": False, "time_limit_seconds": 60}, format="json", headers={"If-Match": etag}
    )
    assert (changed.status_code, changed.json()["retired"], changed.json()["time_limit_seconds"]) == (
        200,
        False,
        60,
    )
    stale = client.patch(one, {"order": 1}, format="json", headers={"If-Match": etag})
    assert stale.status_code == 412
    assert client.patch(one, {"order": 1}, format="json").status_code == 428
    assert client.delete(f"{TIERS}urgent/").status_code == 409
    assert [client.delete(address).status_code for address in (one, f"{TIERS}urgent/")] == [204, 204]
    assert client.get(one).status_code == 404


BAD: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "no tier": (CLASSES, {"slug": "x"}, "tier", "tier is missing"),
    "no such tier": (CLASSES, {"slug": "x", "tier": "hgih"}, "tier", "Did you mean 'high'?"),
    "a bad name": (CLASSES, {"slug": "X Y", "tier": "low"}, "slug", "1 to 16 small letters"),
    "a limit of nothing": (
        CLASSES,
        {"slug": "x", "tier": "low", "time_limit_seconds": 0},
        "time_limit_seconds",
        "time_limit_seconds is 0; at least 1 is allowed.",
    ),
    "retries without end": (
        CLASSES,
        {"slug": "x", "tier": "low", "max_retries": 101},
        "max_retries",
        "max_retries is 101; at most 100 is allowed.",
    ),
    "an idle rule": (CLASSES, {"slug": "x", "tier": "low", "idle": 3}, "idle", "There is no 'idle' here"),
    "a taken number": (TIERS, {"slug": "x", "priority": 50}, "priority", "Normal has the priority 50 already."),
    "an unknown role": (TIERS, {"slug": "x", "priority": 3, "least_role": "viewer"}, "least_role", "'researcher'"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_has_a_sentence_at_its_place(acme: Acme, api: Api, case: str) -> None:
    address, body, field, words = BAD[case]
    answer = api(acme.org_admin).post(address, body, format="json")
    assert answer.status_code == 422
    assert words in answer.json()["errors"][field], answer.json()


def test_a_lead_narrows_and_everybody_sees_it(acme: Acme, api: Api) -> None:
    body = {"tier": "low", "time_limit_seconds": 3600}
    saved = api(acme.lead).put(f"{OF_NLP}training/", body, format="json", headers={"If-Match": '"0"'})
    assert (saved.status_code, saved.json()["priority"], saved["ETag"]) == (200, 25, '"1"')
    listed = {each["slug"]: each for each in api(acme.viewer).get(OF_NLP).json()["results"]}
    assert listed["training"]["time_limit_seconds"] == 3600
    assert listed["training"]["own"] == {
        "tier": "low",
        "time_limit_seconds": 3600,
        "max_retries": None,
        "sharing": None,
    }
    assert (listed["serving"]["version"], listed["serving"]["tier"]) == (0, "reserved")
    wider = api(acme.lead).put(
        f"{OF_NLP}training/", {"max_retries": 2}, format="json", headers={"If-Match": '"1"'}
    )
    assert wider.status_code == 422
    assert wider.json()["errors"] == {
        "max_retries": "2 retries are more than 1, which NLP has from above for Training."
    }
    gone = api(acme.lead).put(f"{OF_NLP}training/", {}, format="json", headers={"If-Match": '"1"'})
    assert (gone.json()["priority"], gone.json()["version"]) == (50, 0)
    assert (
        api(acme.lead).put(f"{OF_NLP}nix/", {}, format="json", headers={"If-Match": "*"}).status_code == 404
    )


def test_the_order_is_that_of_the_pages(acme: Acme, api: Api) -> None:
    JobClass.objects.filter(slug="serving").update(order=0)
    JobClass.objects.filter(slug="training").update(order=9)
    slugs = [each["slug"] for each in api(acme.viewer).get(CLASSES).json()["results"]]
    assert (slugs[0], slugs[-1]) == ("serving", "training")
