"""Where clusters have data sources: said by operators, judged for placing, told to agents."""

import pytest

from agentlink import desired
from agentlink.data import Places, forget_location, in_cluster, locate
from agentlink.models import BoundNamespace, Cluster, DataLocation
from agentlink.spaces import bind_namespace
from agentlink.tests.agents import admit, devices_of
from agentlink.tests.conftest import Place
from agentlink.tests.factories import make_cluster
from chamber.errors import NotAllowed, Refusal
from chamber.ids import new_id
from chamber.models import User
from teams.actors import Actor
from teams.models import Role
from teams.tests.factories import actor, make_team, member
from workloads.data.actions import create_source, edit_source
from workloads.data.reading import shown
from workloads.models import Attempt, DataSource, MountedSource, SourceKind, Workload

pytestmark = pytest.mark.django_db
SYSTEM = Actor.system("test")


def source(place: Place, kind: SourceKind = SourceKind.CLAIM, **details: str) -> DataSource:
    return create_source(by=SYSTEM, team=place.team, name=f"a-{kind.value}", kind=kind, details=details)


def mounting(place: Place, row: DataSource, *, read_only: bool = True) -> Attempt:
    attempt = admit(place.team, place.owner, place.pool, place.cluster, devices_of(place.cluster, "n1")[:1])
    mount = {
        "source": row.reference,
        "path": "" if row.kind == SourceKind.S3 else "/data",
        "read_only": read_only,
    }
    Workload.objects.filter(pk=attempt.workload_id).update(mounts=[mount])
    MountedSource.objects.create(workload=attempt.workload, position=0, source=row)
    return attempt


def told(place: Place) -> list[object]:
    Cluster.objects.filter(pk=place.cluster.pk).update(agent_version="0.2.0")
    [message] = desired.full_set(place.cluster.pk, new_id())
    return [mount for attempt in message.assignments for mount in attempt.mounts]


def test_a_claim_is_told_by_its_name_in_the_cluster(place: Place) -> None:
    row = source(place)
    edit_source(by=SYSTEM, source=row, changes={"writable": True})
    locate(by=SYSTEM, source=row, cluster=place.cluster, claim="imagenet-ro")
    mounting(place, row, read_only=False)
    [mount] = told(place)
    assert mount.model_dump(exclude_defaults=True) == {  # type: ignore[attr-defined]
        "source": "a-claim", "path": "/data", "read_only": False, "claim": "imagenet-ro",
    }  # fmt: skip


def test_nfs_and_s3_are_told_by_where_they_are(place: Place) -> None:
    row = source(place, SourceKind.NFS, server="nfs.example.org", path="/export")
    locate(by=SYSTEM, source=row, cluster=place.cluster)
    mounting(place, row)
    [mount] = told(place)
    assert (mount.server, mount.folder) == ("nfs.example.org", "/export")  # type: ignore[attr-defined]


def test_what_is_s3_needs_no_place(place: Place) -> None:
    mounting(place, source(place, SourceKind.S3, address="s3://bucket/a"))
    [mount] = told(place)
    assert (mount.address, mount.path) == ("s3://bucket/a", "")  # type: ignore[attr-defined]


def test_an_attempt_whose_data_went_away_goes_back_to_the_queue(place: Place) -> None:
    row = source(place)
    attempt = mounting(place, row)
    assert told(place) == []
    workload = Workload.objects.get(pk=attempt.workload_id)
    assert (workload.status, workload.reason["code"]) == ("pending", "data-elsewhere")
    assert "is not on east any more" in workload.reason["message"]


def test_an_agent_that_cannot_mount_is_not_told(place: Place) -> None:
    row = source(place)
    locate(by=SYSTEM, source=row, cluster=place.cluster, claim="c")
    attempt = mounting(place, row)
    Cluster.objects.filter(pk=place.cluster.pk).update(agent_version="0.1.0")
    [message] = desired.full_set(place.cluster.pk, new_id())
    assert message.assignments == ()
    workload = Workload.objects.get(pk=attempt.workload_id)
    assert workload.reason["code"] == "agent-too-old"


@pytest.mark.parametrize(
    ("asks", "told"),
    [
        (
            {"working_dir": "/work"},
            "It has a working folder, and the agent of east is 0.1.0: agents know that since",
        ),
        ({"scratch_mib": 1024}, "It has scratch, and the agent of east is 0.1.0"),
    ],
)
def test_what_an_agent_does_not_know_is_not_left_out(
    place: Place, asks: dict[str, object], told: str
) -> None:
    attempt = admit(place.team, place.owner, place.pool, place.cluster, devices_of(place.cluster, "n1")[:1])
    Workload.objects.filter(pk=attempt.workload_id).update(**asks)
    Cluster.objects.filter(pk=place.cluster.pk).update(agent_version="0.1.0")
    [message] = desired.full_set(place.cluster.pk, new_id())
    assert message.assignments == ()
    workload = Workload.objects.get(pk=attempt.workload_id)
    assert workload.reason["message"].startswith(told)


def test_what_may_only_be_read_by_now_is_not_mounted_to_write(place: Place) -> None:
    row = source(place)
    locate(by=SYSTEM, source=row, cluster=place.cluster, claim="c")
    attempt = mounting(place, row, read_only=False)
    assert told(place) == []
    workload = Workload.objects.get(pk=attempt.workload_id)
    assert (workload.status, workload.reason["code"]) == ("pending", "data-read-only")
    assert workload.reason["message"] == "nlp/a-claim, which it mounts to write, may only be read by now."


def test_a_claim_is_for_the_pods_of_one_namespace(place: Place) -> None:
    row = source(place)
    locate(by=SYSTEM, source=row, cluster=place.cluster, claim="own")

    def clusters() -> list[str]:
        found = Places.read([row.pk], [place.team.pk]).of(row.pk, place.team.pk)
        return [f"{each.name}/{each.claim}" for each in found or []]

    assert clusters() == ["east/own"]
    bind_namespace(by=SYSTEM, cluster=place.cluster, team=place.team, namespace="nlp-jobs")
    assert clusters() == []
    locate(by=SYSTEM, source=row, cluster=place.cluster, namespace="nlp-jobs", claim="theirs")
    assert clusters() == ["east/theirs"]
    assert BoundNamespace.objects.count() == 1


def test_claims_for_pods_of_another_team_are_not_shown(place: Place) -> None:
    root = place.team.parent
    assert root is not None
    row = create_source(by=SYSTEM, team=root, name="coco", kind=SourceKind.CLAIM, details={})
    beside = make_team(root, "Beside")
    for team, namespace in ((place.team, "nlp-jobs"), (beside, "beside-jobs")):
        bind_namespace(by=SYSTEM, cluster=place.cluster, team=team, namespace=namespace)
    for namespace in ("", "nlp-jobs", "beside-jobs", "nobodys"):
        locate(by=SYSTEM, source=row, cluster=place.cluster, namespace=namespace, claim="c")

    def seen(user: User) -> list[str]:
        assert [each.namespace for each in in_cluster(place.cluster, user)] == [
            each.namespace for each in shown([row], user)[0].locations
        ]
        return [each.namespace for each in in_cluster(place.cluster, user)]

    assert seen(member(place.team, Role.LEAD)) == ["", "nlp-jobs"]
    assert seen(member(beside, Role.VIEWER)) == ["", "beside-jobs"]
    assert seen(member(root, Role.OPERATOR)) == ["", "beside-jobs", "nlp-jobs", "nobodys"]
    assert Places.read([row.pk], [place.team.pk]).of(row.pk, place.team.pk)


def test_another_word_replaces_the_claims_name_and_it_is_taken_back(place: Place) -> None:
    row, west = source(place), make_cluster("west")
    for claim in ("a", "b"):
        locate(by=SYSTEM, source=row, cluster=west, claim=claim)
    place_there = DataLocation.objects.get()
    assert place_there.claim == "b"
    forget_location(by=SYSTEM, location=place_there)
    assert Places.read([row.pk], [place.team.pk]).of(row.pk, place.team.pk) == []


def test_what_cannot_be_is_told(place: Place) -> None:
    claim, nfs = source(place), source(place, SourceKind.NFS, server="nfs", path="/a")
    s3 = source(place, SourceKind.S3, address="s3://bucket")
    for row, values, field, text in (
        (claim, {}, "claim", "claim is missing."),
        (claim, {"claim": "No"}, "claim", "is no name of a PersistentVolumeClaim"),
        (claim, {"claim": "a", "namespace": "A B"}, "namespace", "is no name of a namespace"),
        (nfs, {"claim": "a"}, "claim", "nlp/a-nfs is NFS, not a claim: leave it out."),
        (s3, {}, "cluster", "which is reached from every cluster"),
    ):
        with pytest.raises(Refusal) as caught:
            locate(by=SYSTEM, source=row, cluster=place.cluster, **values)
        assert text in caught.value.fields[field]
    assert not DataLocation.objects.exists()


def test_operators_say_where_it_is_and_leads_do_not(place: Place) -> None:
    row = source(place)
    with pytest.raises(NotAllowed):
        locate(by=actor(member(place.team, Role.LEAD)), source=row, cluster=place.cluster, claim="c")
    root = place.team.parent
    assert root is not None
    locate(by=actor(member(root, Role.OPERATOR)), source=row, cluster=place.cluster, claim="c")
