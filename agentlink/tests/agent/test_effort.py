"""What simulated workloads make of their GPUs: the same each time, most of them busy, some idle."""

from uuid import UUID

from agentlink.agent.backends.effort import figure
from agentlink.agent.backends.jobs import Job
from agentlink.protocol import AssignedPod, AssignedShare, DesiredAttempt, DeviceReport, NodeReport, PodState

NOW = 1_700_000_000.0
NODES = {"n1": NodeReport(name="n1", devices=(DeviceReport(index=0, gpu_type="H100", memory_mib=40_000),))}


def job(number: int, *, share: int = 1000, gpus: int = 2, state: PodState = PodState.RUNNING) -> Job:
    devices = tuple(AssignedShare(index=index, share_milli=share) for index in range(gpus))
    pod = AssignedPod(index=0, node="n1", devices=devices)
    workload = UUID(int=number)
    assignment = DesiredAttempt(
        workload=workload, slug="w", attempt=workload, number=1, pods=(pod,), let_go=True, image="i", grace_seconds=1
    )  # fmt: skip
    return Job(assignment=assignment, pods={0: pod}, states={0: state})


def busy(number: int, now: float = NOW) -> int:
    found = figure(job(number), NODES, now)
    assert found is not None
    return found.utilisation_percent


def test_the_same_workload_does_the_same_at_the_same_time_and_another_later() -> None:
    assert figure(job(7), NODES, NOW) == figure(job(7), NODES, NOW)
    assert any(busy(number) != busy(number, NOW + 100) for number in range(20))


def test_some_workloads_let_their_gpus_lie_and_the_others_use_them() -> None:
    values = [busy(number) for number in range(300)]
    idle = sum(percent < 5 for percent in values)
    assert 30 <= idle <= 70
    assert all(percent < 5 or percent > 30 for percent in values)


def test_a_share_has_its_part_of_memory_and_power() -> None:
    whole, half = figure(job(7), NODES, NOW), figure(job(7, share=500), NODES, NOW)
    assert whole is not None
    assert half is not None
    assert abs(whole.memory_mib - 2 * half.memory_mib) <= 2
    assert whole.devices == half.devices
    assert set(whole.devices) == {"n1/0", "n1/1"}


def test_the_memory_of_a_slice_is_its_own() -> None:
    slice_ = DeviceReport(index=0, gpu_type="mig", memory_mib=40_000, slicing="mig", share_milli=143)
    cut = {"n1": NodeReport(name="n1", devices=(slice_,))}
    whole, part = figure(job(7, gpus=1), NODES, NOW), figure(job(7, gpus=1, share=143), cut, NOW)
    assert whole is not None
    assert part is not None
    assert whole.memory_mib == part.memory_mib


def test_pods_that_do_not_run_use_nothing() -> None:
    assert figure(job(7, state=PodState.PENDING), NODES, NOW) is None


def test_a_command_that_only_sleeps_leaves_its_gpus_idle() -> None:
    asleep = job(7)
    asleep.assignment = asleep.assignment.model_copy(update={"command": ("sleep", "60")})
    found = figure(asleep, NODES, NOW)
    assert found is not None
    assert found.utilisation_percent == 0
