"""What a cluster is told to run, at the bounds of what somebody may submit."""

import pytest

from agentlink import desired, protocol
from agentlink.tests.agents import admit, devices_of
from agentlink.tests.conftest import Place
from workloads.models import Workload
from workloads.requests import MOST_CHARACTERS, MOST_TO_RUN_BYTES, SubmissionRequest

pytestmark = pytest.mark.django_db


def test_the_largest_submission_can_be_told_to_the_agent(place: Place) -> None:
    arguments = ["x" * MOST_CHARACTERS] * (MOST_TO_RUN_BYTES // MOST_CHARACTERS - 1)
    request = SubmissionRequest.parse(
        {
            "name": "n" * 100,
            "team": place.team.slug,
            "image": "i" * 300,
            "command": arguments,
            "environment": {"A" * 300: "\x01" * 5000},
        }
    )
    attempt = admit(place.team, place.owner, place.pool, place.cluster, [devices_of(place.cluster, "n1")[0]])
    Workload.objects.filter(pk=attempt.workload_id).update(
        image=request.image, command=request.command, environment=request.environment
    )

    (message,) = desired.full_set(place.cluster.pk)

    told = protocol.from_server(protocol.encode(message))
    assert isinstance(told, protocol.Desired)
    assert told.assignments[0].command == tuple(arguments)
