"""Namespaces of teams on the cluster's page and over the API, and where a workload says that it was adopted."""

import pytest
from django.test import Client

from agentlink import spaces
from agentlink.models import BoundNamespace
from agentlink.protocol import Discovered, DiscoveredJob, NamespaceReport, Unmanaged
from agentlink.tests.agents import Hand
from agentlink.tests.conftest import Place
from teams.actors import Actor
from teams.models import Role, Team
from teams.tests.factories import make_team, member
from workloads.models import Workload

pytestmark = pytest.mark.django_db


@pytest.fixture
def bound(place: Place) -> BoundNamespace:
    return spaces.bind_namespace(
        by=Actor.system("test"), cluster=place.cluster, team=place.team, namespace="nlp-jobs"
    )


def signed_in(client: Client, place: Place, role: Role) -> Client:
    client.force_login(member(place.team, role))
    return client


def discover(place: Place, *jobs: DiscoveredJob, **report: object) -> None:
    told = NamespaceReport.model_validate({"namespace": "nlp-jobs", "ready": True, **report})
    Hand(place.cluster).say(Discovered(version=1, namespaces=(told,), jobs=jobs))


def test_an_admin_binds_and_unbinds_a_namespace(client: Client, place: Place) -> None:
    admin = signed_in(client, place, Role.ADMIN)
    assert 'action="/clusters/east/namespaces/"' in admin.get("/clusters/east/").content.decode()
    body = {"team": "nlp", "namespace": "nlp-jobs"}
    page = admin.post("/clusters/east/namespaces/", body, follow=True).content.decode()
    assert "The namespace nlp-jobs of east is NLP&#x27;s." in page
    assert "Waiting for the agent" in page
    page = admin.post("/clusters/east/namespaces/nlp-jobs/remove/", follow=True).content.decode()
    assert "No namespace is bound to a team" in page


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"team": "nlp", "namespace": "kube-x"}, "belongs to Kubernetes itself"),
        ({"team": "nlp", "namespace": "No"}, "is no name for a namespace"),
        ({"team": "acme", "namespace": "x"}, "&#x27;acme&#x27; is not allowed for Team; allowed are &#x27;"),
        ({"team": "", "namespace": "x"}, "Team is missing."),
    ],
)
def test_a_wrong_form_comes_back_with_a_sentence(
    client: Client, place: Place, body: dict[str, str], told: str
) -> None:
    answer = signed_in(client, place, Role.ADMIN).post("/clusters/east/namespaces/", body)
    assert answer.status_code == 422
    assert told in answer.content.decode()
    assert not BoundNamespace.objects.exists()
    # Enter in the address bar, with the refused form's address in it.
    assert client.get("/clusters/east/namespaces/").headers["Location"] == "/clusters/east/"


def test_the_page_says_how_each_stands(client: Client, place: Place, bound: BoundNamespace) -> None:
    viewer = signed_in(client, place, Role.VIEWER)
    refused = DiscoveredJob(uid="u1", namespace="nlp-jobs", name="big", problems=("It has no pods.",))
    taken = DiscoveredJob(uid="u2", namespace="nlp-jobs", name="train", gpus=1, image="i:1")
    foreign = {"foreign_jobs": 2, "foreign_gpus": 3, "foreign_pods": 1, "foreign_pod_names": ("notebook",)}
    discover(place, refused, taken, **foreign)
    page = viewer.get("/clusters/east/").content.decode()
    for words in (
        "Kept by the agent",
        "1 Job refused",
        "It has no pods.",
        "2 Jobs, 1 pod, 3 GPUs",
        "notebook",
    ):
        assert words in page
    assert "Bind a namespace" not in page
    assert "/namespaces/nlp-jobs/remove/" not in page
    discover(place, ready=False, problem="It is being deleted in the cluster.")
    assert "It is being deleted in the cluster." in viewer.get("/clusters/east/").content.decode()


def test_the_page_and_the_api_say_what_pods_are_held_to_and_how_to_hold_them_to_it(
    client: Client, place: Place, bound: BoundNamespace
) -> None:
    admin = signed_in(client, place, Role.ADMIN)
    BoundNamespace.objects.update(ready=True, security="restricted")
    page = admin.get("/clusters/east/").content.decode()
    assert "Pod Security: restricted" in page
    assert "pods of one namespace may share a GPU, pods of two cannot" in page
    (listed,) = admin.get("/api/v1/clusters/east/namespaces/").json()["results"]
    assert listed["security"] == "restricted"
    command = "kubectl label --overwrite namespace nlp-jobs pod-security.kubernetes.io/enforce=baseline"
    BoundNamespace.objects.update(ready=False, problem=f"It has no Pod Security level. {command}")
    assert command in admin.get("/clusters/east/").content.decode()


def test_a_team_that_i_may_not_see_has_no_namespace_for_me(
    client: Client, place: Place, bound: BoundNamespace
) -> None:
    other = make_team(Team.objects.get(parent=None), "Vision")
    client.force_login(member(other, Role.ADMIN))
    page = client.get("/clusters/east/").content.decode()
    assert "nlp-jobs" not in page
    answer = client.post("/clusters/east/namespaces/", {"team": "vision", "namespace": "nlp-jobs"})
    assert "is bound to a team in east already" in answer.content.decode()
    assert client.post("/clusters/east/namespaces/nlp-jobs/remove/").status_code == 404


def test_what_cannot_be_unbound_says_why(client: Client, place: Place, bound: BoundNamespace) -> None:
    discover(place, DiscoveredJob(uid="u2", namespace="nlp-jobs", name="train", gpus=1, image="i:1"))
    admin = signed_in(client, place, Role.ADMIN)
    page = admin.post("/clusters/east/namespaces/nlp-jobs/remove/", follow=True).content.decode()
    assert "1 Job is adopted from nlp-jobs and not over" in page
    assert BoundNamespace.objects.exists()


def test_a_workload_says_from_where_it_was_adopted(
    client: Client, place: Place, bound: BoundNamespace
) -> None:
    job = DiscoveredJob(uid="u", namespace="nlp-jobs", name="train", gpus=1, image="i:1", priority="99")
    discover(place, job)
    slug = Workload.objects.get().slug
    viewer = signed_in(client, place, Role.VIEWER)
    page = viewer.get(f"/workloads/{slug}/").content.decode()
    assert "Adopted from the Job" in page
    assert "nlp-jobs/train" in page
    assert "Its priority 99 was lowered to 75" in page
    assert viewer.get(f"/api/v1/workloads/{slug}/").json()["adopted_from"] == "east/nlp-jobs/train"
    lead = Client()
    lead.force_login(member(place.team, Role.LEAD))
    assert "is suspended, not deleted" in lead.get(f"/workloads/{slug}/").content.decode()


def test_the_api_binds_lists_and_unbinds(client: Client, place: Place) -> None:
    admin, address = signed_in(client, place, Role.ADMIN), "/api/v1/clusters/east/namespaces/"
    body = {"team": "nlp", "namespace": "nlp-jobs"}
    made = admin.post(address, body, content_type="application/json")
    assert (made.status_code, made.json()["team"], made.json()["ready"]) == (201, "nlp", False)
    again = admin.post(address, body, content_type="application/json")
    assert (again.status_code, again.json()["status"]) == (409, 409)
    (listed,) = admin.get(address).json()["results"]
    assert (listed["namespace"], listed["adopted"], listed["refused"]) == ("nlp-jobs", 0, [])
    assert admin.delete(f"{address}nlp-jobs/").status_code == 204
    assert admin.get(address).json()["results"] == []
    refused = admin.post(address, {**body, "namespace": "default"}, content_type="application/json")
    assert (refused.status_code, "belongs to Kubernetes" in refused.json()["detail"]) == (422, True)
    unknown = admin.post(address, {**body, "team": "nobody"}, content_type="application/json")
    assert unknown.status_code == 404


def test_who_made_a_job_learns_how_to_steer_it_and_can_once_it_names_them(
    client: Client, place: Place, bound: BoundNamespace
) -> None:
    job = DiscoveredJob(uid="u", namespace="nlp-jobs", name="train", gpus=1, image="i:1")
    discover(place, job)
    slug = Workload.objects.get().slug
    client.force_login(place.owner)
    page = client.get(f"/workloads/{slug}/").content.decode()
    assert "chamber.internal/owner" in page
    assert f"/workloads/{slug}/cancel/" not in page
    discover(place, job.model_copy(update={"who": "ada"}))
    page = client.get(f"/workloads/{slug}/").content.decode()
    assert ", for ada" in page
    assert "chamber.internal/owner" not in page
    bulk = client.post("/workloads/bulk/", {"act": "cancel", "id": [slug]}, follow=True)
    assert "Cancelled 1 of 1 workload." in bulk.content.decode()


def test_what_chamber_does_not_run_stands_on_the_page_and_in_the_api_until_it_is_gone(
    client: Client, place: Place, bound: BoundNamespace
) -> None:
    viewer = signed_in(client, place, Role.VIEWER)
    found = tuple(
        Unmanaged(kind="JobSet", name=f"set-{n}", why="Chamber does not run it <yet>.") for n in range(2)
    )
    discover(place, unmanaged=found, unmanaged_count=3)
    page = viewer.get("/clusters/east/").content.decode()
    for words in (
        "3 objects that Chamber does not run",
        "JobSet set-1",
        "does not run it &lt;yet&gt;.",
        "first 2 are named",
    ):
        assert words in page
    (listed,) = viewer.get("/api/v1/clusters/east/namespaces/").json()["results"]
    assert (listed["unmanaged_count"], listed["unmanaged"][0]["name"]) == (3, "set-0")
    discover(place)
    assert "does not run" not in viewer.get("/clusters/east/").content.decode()
    (listed,) = viewer.get("/api/v1/clusters/east/namespaces/").json()["results"]
    assert (listed["unmanaged_count"], listed["unmanaged"]) == (0, [])
