"""The log of a workload's whole way, over pages' processes, scheduler and agent: each line names what it is about."""

import logging
from collections.abc import Iterator
from functools import partial

import pytest
from django.db import transaction
from django.utils import timezone

from agentlink.agent.backends.simulated import SimulatedCluster
from agentlink.agent.runner import run_agent
from agentlink.tests.agents import in_database, make_token, nodes, running, serving, until
from agentlink.tests.conftest import Place, place
from chamber import logs
from scheduling.cycle import cycle, decide
from scheduling.cycle.cycle import run_cycle
from scheduling.models import Clock, Cycle
from scheduling.reading.picture import SnapshotPicture
from scheduling.tests.conftest import Acme
from teams.actors import Actor, Via
from workloads import lifecycle
from workloads.lifecycle import lines
from workloads.models import Status, Workload
from workloads.requests import SubmissionRequest
from workloads.submission import submit
from workloads.tests.factories import make_workload

__all__ = ["place"]

OURS = ("scheduling", "agentlink", "workloads")


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """What is logged from INFO on, each record with what was bound where it was logged."""
    bound = logs.Bound()
    caplog.handler.addFilter(bound)
    with caplog.at_level("INFO"):
        yield caplog
    caplog.handler.removeFilter(bound)


def of(record: logging.LogRecord) -> dict[str, str]:
    """Return what a record is about."""
    return {name: vars(record)[name] for name in ("cycle", "workload", "cluster") if vars(record)[name]}


def is_status(slug: str, status: Status) -> bool:
    return Workload.objects.filter(slug=slug, status=status).exists()


async def agent(url: str, secret: str) -> None:
    """Run an agent as its command does."""
    with logs.bind(cluster="east"):
        await run_agent(url, secret, SimulatedCluster(nodes(2)))


@pytest.mark.django_db(transaction=True)
async def test_every_line_from_its_submission_to_its_end_names_cycle_workload_or_cluster(
    place: Place, told: pytest.LogCaptureFixture
) -> None:
    secret = await in_database(make_token, place.cluster)
    request = SubmissionRequest(name="train", team=place.team.slug, gpus=1, image="i", command="sleep 0.2")
    ada = Actor.person(place.owner, Via.API)
    async with serving() as url, running(agent(url, secret)):
        [workload] = await in_database(partial(submit, by=ada, requests=[request]))
        await until(partial(decided, workload.slug))
        for status in (Status.RUNNING, Status.COMPLETED):
            await until(partial(is_status, workload.slug, status))
        await until(partial(is_released, workload.slug))
    records = [record for record in told.records if record.name.startswith(OURS)]
    assert [record.getMessage() for record in records if not of(record)] == []
    slug, number = {"workload": workload.slug}, await in_database(last_cycle)
    found = [(record.getMessage(), of(record)) for record in records]
    assert ("Submitted. By ada.", slug) in found
    assert any(about == {**slug, "cycle": number} for _, about in found)
    assert any(said.startswith("Decided in ") and about["cycle"] == number for said, about in found)
    assert ("Connected to Chamber at " + url + ".", {"cluster": "east"}) in found
    assert ("Created pods (1).", {**slug, "cluster": "east"}) in found
    assert any(said.startswith("The socket of its agent was closed") for said, _ in found)
    for said in ("All its pods run.", "Completed."):
        assert (said, {**slug, "cluster": "east"}) in found


def decided(slug: str) -> bool:
    """Return whether a cycle has let a workload start; run one where none has."""
    run_cycle()
    return not is_status(slug, Status.PENDING)


def is_released(slug: str) -> bool:
    return Workload.objects.filter(slug=slug, attempts__released_at__isnull=False).exists()


def last_cycle() -> str:
    return str(Cycle.objects.filter(decisions__gt=0).latest("number").number)


def test_a_turn_that_was_lost_names_its_cycle(
    acme: Acme, told: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_workload(acme.research, acme.owner)
    stolen: list[int] = []

    def steal(picture: SnapshotPicture) -> decide.Decided:
        if not stolen:
            stolen.append(Clock.objects.update(cycle=41))
        return decide.decide(picture)

    monkeypatch.setattr(cycle, "decide", steal)
    run_cycle()
    [lost] = [record for record in told.records if "Another process had its turn" in record.getMessage()]
    assert of(lost) == {"cycle": "1"}


@pytest.mark.django_db(transaction=True)
def test_an_act_on_many_is_a_bounded_number_of_lines(place: Place, told: pytest.LogCaptureFixture) -> None:
    rows = [make_workload(place.team, place.owner) for _ in range(lines.MOST_LINES + 5)]
    with transaction.atomic():
        lifecycle.cancel_many(
            [row.pk for row in rows], by=Actor.person(place.owner, Via.PAGE), at=timezone.now()
        )
        assert told.messages == []  # not before the commit
    assert told.messages.count("Cancelled.") == lines.MOST_LINES
    assert told.messages[-1] == "5 more events of workloads; the first is this one's."
    assert all(of(record)["workload"] for record in told.records)


@pytest.mark.django_db(transaction=True)
def test_what_was_rolled_back_is_not_told(place: Place, told: pytest.LogCaptureFixture) -> None:
    row = make_workload(place.team, place.owner)
    with transaction.atomic():
        lifecycle.cancel_many([row.pk], by=Actor.person(place.owner, Via.PAGE), at=timezone.now())
        transaction.set_rollback(True)
    assert told.messages == []
