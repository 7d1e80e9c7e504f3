"""What mounts data is placed only where all of it is, and follows what operators say of that."""

from pytest_django import DjangoCaptureOnCommitCallbacks

from agentlink.data import forget_location, locate
from agentlink.models import DataLocation
from scheduling.cycle.cycle import run_cycle
from scheduling.explain.submission import sentences
from scheduling.tests.conftest import Acme
from scheduling.tests.factories import make_cluster, make_nodes
from scheduling.whatif.preview import preview
from teams.actors import Actor
from teams.tests.factories import actor
from workloads.data.actions import create_source
from workloads.models import DataSource, SourceKind, Status, Workload
from workloads.requests import SubmissionRequest
from workloads.submission import submit

SYSTEM = Actor.system("test")


def imagenet(acme: Acme) -> DataSource:
    return create_source(
        by=SYSTEM,
        team=acme.root,
        name="imagenet",
        kind=SourceKind.NFS,
        details={"server": "nfs", "path": "/imagenet"},
    )


def request(gpus: int = 1) -> SubmissionRequest:
    body = {"name": "bert", "team": "research", "image": "i", "gpus": gpus, "mounts": ["imagenet:/data"]}
    return SubmissionRequest.parse(body)


def test_it_waits_until_a_cluster_has_it_and_is_placed_there(
    acme: Acme, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    source = imagenet(acme)
    west = make_cluster("west")
    make_nodes(west, acme.pool, 1)
    (workload,) = submit(by=actor(acme.owner), requests=[request()])
    run_cycle()
    workload.refresh_from_db()
    assert (workload.status, workload.reason_code) == (Status.PENDING, "data-elsewhere")

    with django_capture_on_commit_callbacks(execute=True):
        locate(by=SYSTEM, source=source, cluster=west)
    run_cycle()
    workload.refresh_from_db()
    assert workload.status == Status.QUEUED
    assert workload.attempt is not None
    assert workload.attempt.assignment.cluster == west


def test_it_waits_again_where_its_data_went_away_before_it_started(acme: Acme) -> None:
    source = imagenet(acme)
    locate(by=SYSTEM, source=source, cluster=acme.cluster)
    (workload,) = submit(by=actor(acme.owner), requests=[request(gpus=2)])
    Workload.objects.filter(pk=workload.pk).update(held=True, version=2)
    run_cycle()
    forget_location(by=SYSTEM, location=DataLocation.objects.get())
    Workload.objects.filter(pk=workload.pk).update(held=False, version=3)
    run_cycle()
    workload.refresh_from_db()
    assert (workload.status, workload.reason_code) == (Status.PENDING, "data-elsewhere")


def test_a_submission_and_its_preview_are_told(acme: Acme) -> None:
    source = imagenet(acme)
    west = make_cluster("west")
    locate(by=SYSTEM, source=source, cluster=west)
    told = preview(by=actor(acme.owner), request=request())
    assert told.why is not None
    assert (told.outcome, told.why.code) == ("waits", "data-elsewhere")
    assert told.why.sentence == "The data set imagenet is on west only."
    (workload,) = submit(by=actor(acme.owner), requests=[request()])
    assert sentences([workload])[workload.pk][0].startswith("The data set imagenet is on west only.")
