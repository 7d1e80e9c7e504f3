"""The simulated cluster by itself: what it plays, refuses, and keeps."""

import asyncio
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from agentlink.agent.backends import simulated
from agentlink.agent.backends.base import Observation
from agentlink.agent.backends.simulated import SimulatedCluster
from agentlink.protocol import (
    AssignedCredentials,
    AssignedPod,
    AssignedShare,
    DesiredAttempt,
    DeviceReport,
    Epoch,
    NamespaceBinding,
    Namespaces,
    NodeReport,
    PodState,
    ReportedPhase,
)
from agentlink.tests.agents import nodes


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cluster(clock: Clock) -> SimulatedCluster:
    return SimulatedCluster(nodes(2), clock=clock)


def job(
    command: str = "sleep 10", *, workload: UUID | None = None, on: tuple[tuple[str, int], ...] = (("n1", 0),),
    share: int = 1000, limit: int | None = None, grace: int = 30,
) -> DesiredAttempt:  # fmt: skip
    pods = tuple(
        AssignedPod(index=index, node=node, devices=(AssignedShare(index=device, share_milli=share),))
        for index, (node, device) in enumerate(on)
    )
    return DesiredAttempt(
        workload=workload or uuid4(), slug="w", attempt=uuid4(), number=1, pods=pods, let_go=True, image="i",
        command=("sh", "-c", command) if command else (), grace_seconds=grace, time_limit_seconds=limit,
    )  # fmt: skip


async def create(cluster: SimulatedCluster, assignment: DesiredAttempt) -> DesiredAttempt:
    await cluster.create(assignment, assignment.pods)
    return assignment


async def seen(cluster: SimulatedCluster, assignment: DesiredAttempt) -> Observation:
    _, found = await cluster.observe(-1)
    return next(one for one in found if one.attempt == assignment.attempt)


async def test_pods_start_run_and_end_at_their_own_times(cluster: SimulatedCluster, clock: Clock) -> None:
    made = await create(cluster, job("sleep 10; exit 3"))
    assert (await seen(cluster, made)).phase is ReportedPhase.STARTING
    clock.now += 0.7
    assert (await seen(cluster, made)).phase is ReportedPhase.RUNNING
    clock.now += 100
    ended = await seen(cluster, made)
    assert (ended.phase, ended.exit_code, ended.reason) == (ReportedPhase.FAILED, 3, "exit-code")
    assert ended.ended_at is not None
    assert ended.running_at is not None
    assert (ended.ended_at - ended.running_at).total_seconds() == pytest.approx(10, abs=0.01)
    assert cluster.used_milli() == {}


async def test_a_command_that_fails_at_once_does_so_at_once(cluster: SimulatedCluster, clock: Clock) -> None:
    made = await create(cluster, job("exit 3"))
    clock.now += 0.7
    ended = await seen(cluster, made)
    assert (ended.phase, ended.exit_code, ended.ended_at) == (ReportedPhase.FAILED, 3, ended.running_at)


async def test_what_serves_runs_until_it_is_stopped(cluster: SimulatedCluster, clock: Clock) -> None:
    made = await create(cluster, job("python serve.py").model_copy(update={"job_class": "serving"}))
    clock.now += 1e6
    assert (await seen(cluster, made)).phase is ReportedPhase.RUNNING


async def test_a_command_that_sleeps_beyond_its_time_limit_fails_by_it(
    cluster: SimulatedCluster, clock: Clock
) -> None:
    made = await create(cluster, job("sleep 100", limit=5))
    clock.now += 30
    assert (await seen(cluster, made)).reason == "time-limit"


async def test_stopping_takes_a_part_of_the_grace_period(cluster: SimulatedCluster, clock: Clock) -> None:
    made = await create(cluster, job())
    clock.now += 1
    await cluster.stop(made.attempt, None)
    assert (await seen(cluster, made)).phase is ReportedPhase.STOPPING
    assert cluster.used_milli() == {("n1", 0): 1000}
    clock.now += 2.1
    gone = await seen(cluster, made)
    assert (gone.phase, gone.exit_code, gone.pods) == (ReportedPhase.GONE, None, ())
    assert cluster.used_milli() == {}


async def test_some_pods_are_stopped_and_more_are_created(cluster: SimulatedCluster, clock: Clock) -> None:
    made = await create(cluster, job("sleep 90", on=(("n1", 0), ("n1", 1))))
    clock.now += 1
    await cluster.stop(made.attempt, {1})
    clock.now += 3
    assert [pod.index for pod in (await seen(cluster, made)).pods] == [0]
    more = job(on=(("n2", 0), ("n2", 1))).pods[1:]
    await cluster.create(made, more)
    clock.now += 1
    grown = await seen(cluster, made)
    assert [(pod.index, pod.node, pod.state) for pod in grown.pods] == [
        (0, "n1", PodState.RUNNING),
        (1, "n2", PodState.RUNNING),
    ]
    assert grown.phase is ReportedPhase.RUNNING


async def test_a_device_takes_no_more_than_itself(cluster: SimulatedCluster) -> None:
    await create(cluster, job(share=750))
    refused = await create(cluster, job(share=500))
    found = await seen(cluster, refused)
    assert (found.phase, found.reason, found.created_at) == (ReportedPhase.FAILED, "unschedulable", None)
    assert "less than 0.5 GPUs left" in found.message
    assert cluster.used_milli() == {("n1", 0): 750}


@pytest.mark.parametrize("on", [("n9", 0), ("n1", 9), ("n2", 0)])
async def test_a_node_that_is_away_cordoned_or_without_the_gpu_takes_nothing(
    cluster: SimulatedCluster, on: tuple[str, int]
) -> None:
    cluster.cordon("n2")
    assert (await seen(cluster, await create(cluster, job(on=(on,))))).reason == "unschedulable"


async def test_a_slice_is_taken_whole_and_one_to_a_pod(clock: Clock) -> None:
    cut = tuple(
        DeviceReport(index=index, gpu_type="mig-1g.10gb", slicing="mig", share_milli=143)
        for index in range(2)
    )
    cluster = SimulatedCluster([NodeReport(name="n1", devices=cut)], clock=clock)
    whole = await create(cluster, job(share=1000))
    part = await create(cluster, job(share=100))
    assert "whole, as 0.143 GPUs; 1 are planned" in (await seen(cluster, whole)).message
    assert (await seen(cluster, part)).phase is ReportedPhase.FAILED
    shares = tuple(AssignedShare(index=index, share_milli=143) for index in range(2))
    both = job().model_copy(update={"pods": (AssignedPod(index=0, node="n1", devices=shares),)})
    await create(cluster, both)
    assert (
        await seen(cluster, both)
    ).message == "A pod on node n1 can have one slice; 2 devices are planned."
    assert cluster.used_milli() == {}
    first = await create(cluster, job(share=143))
    second = await create(cluster, job(share=143))
    assert (await seen(cluster, first)).phase is ReportedPhase.STARTING
    assert (await seen(cluster, second)).message.startswith("GPU 0 of n1 has less than 0.143 GPUs left")


async def test_a_node_that_fails_loses_its_pods_and_the_others_wait_to_be_stopped(
    cluster: SimulatedCluster, clock: Clock
) -> None:
    made = await create(cluster, job("sleep 90", on=(("n1", 0), ("n2", 0))))
    clock.now += 1
    cluster.set_down("n1")
    lost = await seen(cluster, made)
    assert (lost.phase, lost.reason, [pod.node for pod in lost.pods]) == (
        ReportedPhase.FAILED,
        "node-lost",
        ["n2"],
    )
    await cluster.stop(made.attempt, None)
    clock.now += 3
    assert (await seen(cluster, made)).pods == ()
    assert cluster.used_milli() == {}


async def test_only_what_has_ended_is_forgotten(cluster: SimulatedCluster, clock: Clock) -> None:
    made = await create(cluster, job("sleep 1"))
    await cluster.forget(made.attempt)
    assert (await seen(cluster, made)).phase is ReportedPhase.STARTING
    clock.now += 5
    await cluster.observe(-1)
    await cluster.forget(made.attempt)
    assert (await cluster.observe(-1))[1] == []


async def test_what_changed_is_told_once_and_waited_for(cluster: SimulatedCluster) -> None:
    made = await create(cluster, job())
    version, found = await cluster.observe(-1)
    assert [one.attempt for one in found] == [made.attempt]
    assert (await cluster.observe(version))[1] == []
    waiting = asyncio.create_task(cluster.changed(version))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    cluster.delete_pods(made.attempt)
    await asyncio.wait_for(waiting, timeout=60)
    assert (await cluster.observe(version))[1][0].phase is ReportedPhase.GONE
    nodes_version, all_nodes = await cluster.nodes(-1)
    assert len(all_nodes or ()) == 2
    assert (await cluster.nodes(nodes_version))[1] is None


async def test_a_cluster_with_a_state_file_goes_on_where_it_was(tmp_path: Path, clock: Clock) -> None:
    file = tmp_path / "east.json"
    first = SimulatedCluster(nodes(2), clock=clock, state_file=file)
    made = await create(first, job("sleep 10"))
    stopped = await create(first, job("sleep 10", on=(("n2", 0),)))
    clock.now += 1
    await first.stop(stopped.attempt, None)
    await first.observe(-1)
    clock.now += 4
    again = SimulatedCluster(nodes(2), clock=clock, state_file=file)
    assert (await seen(again, made)).phase is ReportedPhase.RUNNING
    assert (await seen(again, stopped)).phase is ReportedPhase.GONE
    assert again.used_milli() == {("n1", 0): 1000}
    file.write_text("nonsense")
    assert (await SimulatedCluster(nodes(2), state_file=file).observe(-1))[1] == []


async def test_what_has_ended_does_not_run_again_for_a_server_that_forgot_it(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "east.json"
    first = SimulatedCluster(nodes(2), clock=clock, state_file=file)
    ended, failed = await create(first, job("sleep 10")), await create(first, job("exit 3", on=(("n2", 0),)))
    stopped = await create(first, job("sleep 10", on=(("n2", 1),)))
    clock.now += 1
    await first.stop(stopped.attempt, None)
    clock.now += 300
    told = {each.attempt: await seen(first, each) for each in (ended, failed)}
    for each in (ended, failed, stopped):
        await first.forget(each.attempt)
    first.save()

    again = SimulatedCluster(nodes(2), clock=clock, state_file=file)
    assert (await again.observe(-1))[1] == [], "the server knew of them"
    for each in (ended, failed, stopped):
        await again.create(each, each.pods)

    assert {each.attempt: await seen(again, each) for each in (ended, failed)} == told
    assert (await seen(again, stopped)).phase is ReportedPhase.STARTING, "nothing of it had ended by itself"
    assert again.used_milli() == {("n2", 1): 1000}
    monkeypatch.setattr(simulated, "MOST_PAST", 1)
    for each in (ended, failed):
        await again.forget(each.attempt)
    again.save()
    last = SimulatedCluster(nodes(2), clock=clock, state_file=file)
    for each in (ended, failed):
        await last.create(each, each.pods)
    assert [(await seen(last, each)).phase for each in (ended, failed)] == [
        ReportedPhase.STARTING,
        ReportedPhase.FAILED,
    ]


async def test_what_its_agent_remembers_is_in_the_state_file(tmp_path: Path, clock: Clock) -> None:
    file, row = tmp_path / "east.json", uuid4()
    first = SimulatedCluster(nodes(2), clock=clock, state_file=file)
    made = await create(first, job("sleep 10"))
    assert first.memory is not None
    for number in (7, 8, 3):  # the last is late
        first.memory.learn(Epoch(of=row, number=number))
        await first.observe(-1)
    again = SimulatedCluster(nodes(2), clock=clock, state_file=file)
    assert again.memory is not None
    assert again.memory.epoch == Epoch(of=row, number=8)
    assert (await seen(again, made)).phase is ReportedPhase.STARTING
    again.save()
    assert file.read_text().count("\n") == 2, "nothing is written where nothing was learned"
    assert SimulatedCluster(nodes(2)).memory is None


async def test_pods_live_on_while_the_calendar_clock_is_moved() -> None:
    clock, calendar = Clock(), Clock()
    cluster = SimulatedCluster(nodes(2), clock=clock, calendar=calendar)
    before = await create(cluster, job("sleep 10"))
    calendar.now += 3600
    during = await create(cluster, job("sleep 10", on=(("n2", 0),)))
    clock.now, calendar.now = clock.now + 0.7, calendar.now + 0.7
    assert (await seen(cluster, before)).phase is ReportedPhase.RUNNING
    calendar.now -= 3600
    clock.now, calendar.now = clock.now + 10, calendar.now + 10

    ended, later = await seen(cluster, before), await seen(cluster, during)

    assert (ended.phase, later.phase) == (ReportedPhase.SUCCEEDED, ReportedPhase.SUCCEEDED)
    assert cluster.used_milli() == {}
    # What is told comes from the clock that was wrong when the attempt began, as that of a real node would.
    assert ended.created_at is not None
    assert later.created_at is not None
    assert (later.created_at - ended.created_at).total_seconds() == 3600


async def test_pods_live_on_after_the_machine_was_started_again(tmp_path: Path, clock: Clock) -> None:
    file = tmp_path / "east.json"
    first = SimulatedCluster(nodes(2), clock=clock, state_file=file)
    made = await create(first, job("sleep 10"))
    clock.now += 5
    await first.observe(-1)
    began_anew = Clock()
    began_anew.now = 60.0
    again = SimulatedCluster(nodes(2), clock=began_anew, state_file=file)
    assert (await seen(again, made)).phase is ReportedPhase.RUNNING

    began_anew.now += 10.7

    assert (await seen(again, made)).phase is ReportedPhase.SUCCEEDED


async def test_a_bound_namespace_is_there_and_empty(cluster: SimulatedCluster) -> None:
    version, found = await cluster.discovered(-1)
    assert found is not None
    assert (found.version, found.namespaces, found.jobs) == (0, [], ())
    await cluster.bind(
        Namespaces(version=4, bound=(NamespaceBinding(id=uuid4(), namespace="nlp-jobs", team="nlp"),))
    )
    version, found = await cluster.discovered(version)
    assert found is not None
    assert [(each.namespace, each.ready) for each in found.namespaces] == [("nlp-jobs", True)]
    assert (found.version, (await cluster.discovered(version))[1]) == (4, None)


async def test_credentials_are_kept_as_long_as_the_job_and_in_no_file(clock: Clock, tmp_path: Path) -> None:
    marker = "m4rker-value-that-nobody-else-writes"
    file = tmp_path / "state"
    cluster = SimulatedCluster(nodes(2), clock=clock, state_file=file)
    given = AssignedCredentials(directory="/run", variables={"HF_TOKEN": marker})
    assignment = job("sleep 1").model_copy(update={"credentials": given})
    await create(cluster, assignment)
    assert cluster.secrets == {assignment.attempt: given}
    await cluster.observe(-1)
    assert marker not in file.read_text()
    clock.now += 60
    await cluster.observe(-1)
    await cluster.forget(assignment.attempt)
    assert cluster.secrets == {}
