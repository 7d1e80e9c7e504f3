"""The pages of data sources, and their API: what leads do, what operators do, and what readers see."""

from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from agentlink.tests.factories import make_cluster
from chamber.models import User
from teams.models import Role, Team
from teams.tests.factories import actor, member
from workloads.data import views
from workloads.data.actions import create_source
from workloads.models import DataSource, SourceKind, Workload

LIST, ONE = "/settings/data/", "/settings/data/nlp/imagenet/"
API = "/api/v1/teams/nlp/data-sources/imagenet/"
NFS = {"name": "imagenet", "team": "nlp", "kind": "nfs", "server": "nfs.example.org", "path": "/export"}


@pytest.fixture
def lead(team: Team) -> User:
    return member(team, Role.LEAD, "lea")


@pytest.fixture
def operator(org: Team) -> User:
    return member(org, Role.OPERATOR, "otto")


@pytest.fixture
def source(lead: User, team: Team) -> DataSource:
    kind = SourceKind.CLAIM
    return create_source(by=actor(lead), team=team, name="imagenet", kind=kind, details={})


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def api(user: User) -> APIClient:
    client = APIClient()
    client.force_authenticate(user)
    return client


def content(answer: Any) -> str:
    return str(answer.content.decode())


def test_one_is_made_and_changed_on_the_pages(lead: User) -> None:
    browser = signed_in(lead)
    assert "No data sources yet" in content(browser.get(LIST))
    assert browser.post(LIST, NFS).headers["Location"] == ONE
    page = content(browser.get(ONE))
    assert "nfs.example.org" in page
    assert "No cluster has it yet" in page
    answer = browser.post(ONE, {"server": "other.example.org", "path": "/export", "writable": "on"})
    assert answer.headers["Location"] == ONE
    row = DataSource.objects.get()
    assert (row.details["server"], row.writable) == ("other.example.org", True)
    assert "none yet" in content(browser.get(LIST))


def test_what_is_wrong_stands_beside_its_field(lead: User) -> None:
    browser = signed_in(lead)
    answer = browser.post(LIST, {**NFS, "path": "export"})
    assert answer.status_code == 422
    assert "is no whole path" in content(answer)
    assert 'value="nfs.example.org"' in content(answer)
    answer = browser.post(LIST, {**NFS, "kind": "claim"})
    assert "it has nothing but its name" in content(answer)
    assert not DataSource.objects.exists()


def test_operators_say_which_clusters_have_it(source: DataSource, operator: User, lead: User) -> None:
    make_cluster("east")
    browser = signed_in(operator)
    asked = {"cluster": "east", "namespace": "nlp-jobs", "claim": "imagenet-ro"}
    assert browser.post("/data/nlp/imagenet/locate/", asked).headers["Location"] == ONE
    page = content(browser.get(ONE))
    assert "imagenet-ro" in page
    assert "nlp-jobs" in page
    assert "imagenet-ro" in content(signed_in(lead).get("/clusters/east/"))
    assert browser.get("/data/nlp/imagenet/locate/").headers["Location"] == ONE
    [place] = api(lead).get(API).json()["locations"]
    forget = f"/data/nlp/imagenet/locations/{place['id']}/remove/"
    assert signed_in(lead).post(forget).status_code == 403
    assert "Add cluster" not in content(signed_in(lead).get(ONE))
    browser.post(forget)
    assert api(lead).get(API).json()["locations"] == []


@pytest.mark.parametrize(
    ("typed", "field", "told"),
    [
        ({"cluster": "nowhere", "claim": "mine"}, "cluster", "There is no cluster &#x27;nowhere&#x27;"),
        ({"cluster": "", "claim": "mine"}, "cluster", "Cluster is missing."),
        ({"cluster": "east", "claim": ""}, "claim", "claim is missing."),
        ({"cluster": "east", "claim": "mine", "namespace": "A B"}, "namespace", "is no name of a namespace"),
    ],
)
def test_why_a_cluster_cannot_have_it_stands_beside_its_field(
    source: DataSource, operator: User, typed: dict[str, str], field: str, told: str
) -> None:
    make_cluster("east")
    answer = signed_in(operator).post("/data/nlp/imagenet/locate/", typed)
    assert answer.status_code == 422
    page = content(answer)
    assert told in page
    assert f'id="locate-{field}_error"' in page
    assert f'value="{typed["claim"]}"' in page or not typed["claim"]


def test_pages_of_the_list_keep_the_team(
    source: DataSource, lead: User, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "PAGE_ROWS", 1)
    create_source(by=actor(lead), team=team, name="coco", kind=SourceKind.CLAIM, details={})
    page = content(signed_in(lead).get(LIST, {"team": "nlp"}))
    assert 'href="?team=nlp&amp;page=2"' in page


def test_it_is_deleted_by_leads_only(source: DataSource, lead: User, owner: User) -> None:
    assert signed_in(owner).post(f"{ONE}delete/").status_code == 403
    assert signed_in(lead).post(f"{ONE}delete/").headers["Location"] == LIST
    assert not DataSource.objects.exists()


def test_the_api_shows_makes_and_locates(lead: User, operator: User, owner: User, other_team: Team) -> None:
    make_cluster("east")
    answer = api(lead).post("/api/v1/data-sources/", NFS, format="json")
    assert answer.status_code == 201, answer.content
    answer = api(operator).post(f"{API}locations/", {"cluster": "east"}, format="json")
    assert [each["cluster"] for each in answer.json()["locations"]] == ["east"]
    told = api(owner).get(API).json()
    assert (told["reference"], told["server"], told["writable"]) == ("nlp/imagenet", "nfs.example.org", False)
    assert api(lead).patch(API, {"writable": True}, format="json").json()["writable"] is True
    assert api(owner).patch(API, {"writable": True}, format="json").status_code == 403
    assert api(lead).post(f"{API}locations/", {"cluster": "east"}, format="json").status_code == 403
    assert api(member(other_team, Role.LEAD)).get(API).status_code == 404
    place = told["locations"][0]["id"]
    assert api(operator).delete(f"{API}locations/{place}/").status_code == 204
    assert [each["name"] for each in api(owner).get("/api/v1/data-sources/").json()["results"]] == [
        "imagenet"
    ]
    assert api(lead).delete(API).status_code == 204


def test_a_workload_tells_what_it_mounts_and_is_copied_with_it(
    source: DataSource, owner: User, pool: Any
) -> None:
    body = {"name": "bert", "team": "nlp", "image": "i", "mounts": ["imagenet:/data"]}
    told = api(owner).post("/api/v1/workloads/", body, format="json").json()
    assert told["mounts"] == ["nlp/imagenet:/data:ro"]
    browser = signed_in(owner)
    assert "nlp/imagenet at /data, read-only" in content(browser.get(f"/workloads/{told['slug']}/"))
    page = content(browser.get("/workloads/submit/", {"clone": told["slug"]}))
    assert 'value="nlp/imagenet:/data:ro"' in page
    form = {
        "name": "again",
        "team": "nlp",
        "image": "i",
        "pods": "1",
        "gpus": "1",
        "mounts": "imagenet:/a, imagenet:/b",
    }
    assert browser.post("/workloads/submit/", form).status_code == 302
    assert len(Workload.objects.get(name="again").mounts or []) == 2
