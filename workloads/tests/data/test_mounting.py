"""What a submission mounts: how it is written, whose it may be, and what it is refused with."""

from typing import Any

import pytest

from chamber.errors import Conflict, Refusal
from chamber.models import User
from teams.models import Role, Team
from teams.tests.factories import actor, member
from workloads.credentials.actions import create_credential, delete_credential
from workloads.data.actions import create_source, delete_source, edit_source
from workloads.environments.actions import add_version, create_environment
from workloads.models import CredentialKind, DataSource, MountedSource, NamedCredential, SourceKind, Workload
from workloads.requests import SubmissionRequest, Unreadable
from workloads.submission import submit


@pytest.fixture
def lead(team: Team) -> User:
    return member(team, Role.LEAD, "lea")


@pytest.fixture
def admin(org: Team) -> User:
    return member(org, Role.ORG_ADMIN, "olga")


def make(by: User, team: Team, name: str = "imagenet", kind: str = "claim", **fields: Any) -> DataSource:
    details = fields.pop("details", {})
    return create_source(by=actor(by), team=team, name=name, kind=SourceKind(kind), details=details, **fields)


def submitted(owner: User, *mounts: Any, **asked: Any) -> Workload:
    body = {"name": "bert", "team": "nlp", "image": "train:1", "mounts": list(mounts), **asked}
    (workload,) = submit(by=actor(owner), requests=[SubmissionRequest.parse(body)])
    workload.refresh_from_db()
    return workload


def mounted(workload: Workload) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = workload.mounts or []
    return found


def refused(owner: User, *mounts: Any, **asked: Any) -> str:
    with pytest.raises(Refusal) as caught:
        submitted(owner, *mounts, **asked)
    assert not Workload.objects.exists()
    return str(caught.value.fields["mounts"])


def test_it_is_mounted_by_name_read_only_unless_it_says_otherwise(
    owner: User, lead: User, team: Team
) -> None:
    source = make(lead, team, writable=True)
    workload = submitted(
        owner, "imagenet:/data", "nlp/imagenet:/out/:rw", {"source": "imagenet", "path": "/three"}
    )
    assert workload.mounts == [
        {"source": "nlp/imagenet", "path": "/data", "read_only": True},
        {"source": "nlp/imagenet", "path": "/out", "read_only": False},
        {"source": "nlp/imagenet", "path": "/three", "read_only": True},
    ]
    rows = MountedSource.objects.filter(workload=workload)
    assert [row.source for row in rows] == [source] * 3


def test_the_nearest_teams_is_meant(owner: User, lead: User, admin: User, org: Team, team: Team) -> None:
    make(admin, org)
    assert mounted(submitted(owner, "imagenet:/data"))[0]["source"] == "acme/imagenet"
    make(lead, team)
    assert mounted(submitted(owner, "imagenet:/data"))[0]["source"] == "nlp/imagenet"


def test_an_unknown_one_and_one_of_another_team_are_told(
    owner: User, lead: User, admin: User, team: Team, other_team: Team
) -> None:
    make(lead, team)
    make(admin, other_team, "coco")
    assert refused(owner, "imagnet:/data") == (
        "There is no data source 'imagnet' that workloads of NLP may mount. Did you mean 'imagenet'?"
    )
    assert refused(owner, "vision/coco:/data").endswith("There are: nlp/imagenet.")
    assert refused(admin, "vision/coco:/data") == (
        "vision/coco is a data source of Vision. Workloads of NLP may mount those of NLP and of the teams above it. "
        "There are: nlp/imagenet."
    )


def test_one_that_may_only_be_read_is_not_written(owner: User, lead: User, team: Team) -> None:
    row = make(lead, team)
    assert refused(owner, "imagenet:/data:rw") == (
        "nlp/imagenet may only be read: mount it with :ro, or ask a lead of NLP."
    )
    edit_source(by=actor(lead), source=row, changes={"writable": True})
    assert mounted(submitted(owner, "imagenet:/data:rw"))[0]["read_only"] is False


@pytest.mark.parametrize(
    ("mounts", "told"),
    [
        (["imagenet:data"], "'data' is no whole path: begin with a slash"),
        (["imagenet:/a/../b"], "leads elsewhere by . or .."),
        (["imagenet:/dev/shm/x"], "which pods have for something else: mount it at another path"),
        (["imagenet:/scratch"], "/scratch lies in /scratch"),
        (["imagenet:/"], "is all of the container"),
        (["imagenet:/run/secrets/kubernetes.io"], "lies in /run/secrets"),
        (["imagenet:/run"], "/run would lie over /run/chamber"),
        (["imagenet:/var/"], "/var would lie over /var/run"),
        (["imagenet:/data", "imagenet:/data/"], "are both mounted at /data"),
        (["imagenet:/data:now"], "is no mount: write SOURCE:PATH"),
        (["a:b:c:d"], "is no mount: write SOURCE:PATH"),
        (["Imagenet:/data"], "names no data source: write NAME or TEAM/NAME"),
        ([{"source": "imagenet", "path": "/data", "mode": "rw"}], "There is no field 'mode'"),
        ([f"imagenet:/d{number}" for number in range(21)], "at most 20 are allowed"),
        ("imagenet:/data", "must be a list"),
    ],
)
def test_what_cannot_be_is_told(owner: User, mounts: Any, told: str) -> None:
    with pytest.raises(Unreadable) as caught:
        SubmissionRequest.parse({"name": "bert", "team": "nlp", "image": "i", "mounts": mounts})
    assert list(caught.value.fields) == ["mounts"]
    assert told in caught.value.fields["mounts"]


def test_s3_is_told_and_not_mounted_and_brings_its_credential(owner: User, lead: User, team: Team) -> None:
    content = {"access_key_id": "a", "secret_access_key": "b"}
    credential = create_credential(
        by=actor(lead), name="store", kind=CredentialKind.S3, content=content, team=team
    )
    details = {"address": "s3://models/llama"}
    make(lead, team, "llama", "s3", details=details, credential="nlp/store")
    assert "S3, which is not mounted: leave the path /data out" in refused(owner, "llama:/data")
    workload = submitted(owner, "llama")
    assert workload.credentials == ["nlp/store"]
    assert NamedCredential.objects.get(workload=workload).credential == credential
    delete_credential(by=actor(lead), credential=credential)
    with pytest.raises(Refusal, match="The credential nlp/store, by which nlp/llama is reached, was deleted"):
        submitted(owner, "llama")


def test_s3_that_a_workload_and_its_environment_name_is_told_once(
    owner: User, lead: User, team: Team
) -> None:
    make(lead, team, "llama", "s3", details={"address": "s3://models/llama"})
    values = {"image": "train:1", "mounts": ["nlp/llama"]}
    create_environment(by=actor(lead), team=team, name="pytorch", values=values)
    workload = submitted(owner, "llama", environment="pytorch")
    assert [each["source"] for each in mounted(workload)] == ["nlp/llama"]
    assert MountedSource.objects.filter(workload=workload).count() == 1


def test_what_is_mounted_needs_a_path(owner: User, lead: User, team: Team) -> None:
    make(lead, team)
    assert refused(owner, "imagenet") == "nlp/imagenet needs a path: write nlp/imagenet:/data."


def test_an_environment_mounts_for_its_workloads_what_they_do_not_mount_there(
    owner: User, lead: User, team: Team
) -> None:
    make(lead, team)
    make(lead, team, "coco")
    values = {"image": "train:1", "mounts": ["imagenet:/data", "coco:/coco"]}
    create_environment(by=actor(lead), team=team, name="pytorch", values=values)
    workload = submitted(owner, "coco:/data", environment="pytorch")
    assert [(each["source"], each["path"]) for each in mounted(workload)] == [
        ("nlp/coco", "/data"),
        ("nlp/coco", "/coco"),
    ]
    bad = {"image": "i", "mounts": ["lost:/data"]}
    with pytest.raises(Refusal) as caught:
        create_environment(by=actor(lead), team=team, name="other", values=bad)
    assert "There is no data source 'lost'" in caught.value.fields["mounts"]


def test_an_environment_mounts_what_it_named_whatever_teams_below_have_by_that_name(
    owner: User, lead: User, admin: User, org: Team, team: Team
) -> None:
    make(admin, org)
    values = {"image": "train:1", "mounts": ["imagenet:/data"]}
    row = create_environment(by=actor(admin), team=org, name="base", values=values)
    make(lead, team)
    assert [each["source"] for each in mounted(submitted(owner, environment="base"))] == ["acme/imagenet"]
    assert add_version(by=actor(admin), environment=row, values=values).number == 1


def test_data_of_an_environment_that_was_deleted_is_told_with_the_environment(
    owner: User, lead: User, team: Team
) -> None:
    row = make(lead, team)
    values = {"image": "train:1", "mounts": ["imagenet:/data"]}
    create_environment(by=actor(lead), team=team, name="pytorch", values=values)
    delete_source(by=actor(lead), source=row)
    assert refused(owner, environment="pytorch") == (
        "There is no data source 'nlp/imagenet' that workloads of NLP may mount. There are: none. "
        "nlp/pytorch@1 mounts it."
    )
    assert refused(owner, "lost:/lost", environment="pytorch") == (
        "There is no data source 'lost' that workloads of NLP may mount. There are: none."
    )


def test_one_that_open_workloads_mount_is_not_deleted(owner: User, lead: User, team: Team) -> None:
    row = make(lead, team)
    submitted(owner, "imagenet:/a", "imagenet:/b")
    with pytest.raises(
        Conflict, match="1 open workload mounts nlp/imagenet: it can be deleted once that has ended"
    ):
        delete_source(by=actor(lead), source=row)


@pytest.mark.parametrize(
    ("kind", "details", "told"),
    [
        ("claim", {"server": "a"}, {"server": "has no 'server'; it has nothing but its name"}),
        ("nfs", {"server": "nfs.example.org"}, {"path": "path is missing."}),
        ("nfs", {"server": "no host", "path": "/a"}, {"server": "is no host"}),
        ("nfs", {"server": "nfs", "path": "a"}, {"path": "is no whole path"}),
        ("s3", {"address": "https://s3.example.org"}, {"address": "is no address of S3"}),
    ],
)
def test_details_are_those_of_the_kind(
    lead: User, team: Team, kind: str, details: dict[str, str], told: dict[str, str]
) -> None:
    with pytest.raises(Refusal) as caught:
        make(lead, team, kind=kind, details=details)
    assert caught.value.fields.keys() == told.keys()
    assert all(text in caught.value.fields[field] for field, text in told.items())
    assert not DataSource.objects.exists()
