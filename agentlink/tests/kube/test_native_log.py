"""What the agent's log and counts say of a workload's life in a real cluster."""

import logging
from collections.abc import Iterator

import pytest

from agentlink.agent.figures import FIGURES
from agentlink.protocol import ReportedPhase
from agentlink.tests.kube.native import agent_of, pods_on, work
from chamber import logs
from rig.namespaces import Namespace

pytestmark = pytest.mark.kube


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """What the agent logs from INFO on, each record with what was bound where it was logged."""
    bound = logs.Bound()
    caplog.handler.addFilter(bound)
    with caplog.at_level("INFO", logger="agentlink.agent"):
        yield caplog
    caplog.handler.removeFilter(bound)


def line(record: logging.LogRecord) -> tuple[str, str, str, str]:
    said = vars(record)
    return record.getMessage().split(" ", 2)[0], said.get("kind", ""), said["workload"], said["attempt"]


async def test_each_object_that_comes_and_goes_is_a_line_with_workload_attempt_and_cluster(
    namespace: Namespace, told: pytest.LogCaptureFixture
) -> None:
    first, second = namespace.add_nodes(2)
    asked = work(*pods_on((first, (0,)), (second, (0,))))
    created, deleted, requests = FIGURES.created.copy(), FIGURES.deleted.copy(), FIGURES.requests.copy()
    with logs.bind(cluster="east"):
        async with agent_of(namespace) as agent:
            await agent.begin(asked)
            await agent.until(asked, ReportedPhase.RUNNING)
            await agent.stop(asked)
            await agent.until(asked, ReportedPhase.GONE)
            await agent.forgotten(asked)
    about = [record for record in told.records if vars(record)["workload"]]
    said = [line(record) for record in about]
    for word, kind in (("Created", "Job"), ("Created", "Service"), ("Suspended", ""), ("Deleted", "Job")):
        assert (word, kind, asked.slug, "1") in said
    assert {vars(record)["cluster"] for record in told.records} == {"east"}
    [job] = [record for record in about if line(record)[:2] == ("Created", "Job")]
    assert (vars(job)["namespace"], job.getMessage()) == (
        namespace.name,
        f"Created Job {namespace.name}/{vars(job)['object']}.",
    )
    assert (FIGURES.created - created)["Job"] == (FIGURES.deleted - deleted)["Job"] == 1
    assert {verb for verb, code in FIGURES.requests - requests if code.startswith("2")} >= {
        "get",
        "post",
        "patch",
        "delete",
        "watch",
    }
