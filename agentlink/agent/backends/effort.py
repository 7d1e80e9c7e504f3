"""What simulated workloads make of their GPUs: most programs work steadily, in waves; one in six leaves them idle.

A command that only sleeps leaves them idle, too.

A draw of the workload's id decides, so that the same workload always does the same at the same time.
"""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from uuid import UUID

from agentlink.agent.backends.jobs import Job
from agentlink.agent.backends.played import draw, play
from agentlink.protocol import AssignedShare, NodeReport, PodState, UsageFigure
from agentlink.protocol.profiles import GPU_MILLI

IDLER = 1 / 6
"""The part of workloads that hold their GPUs and do nothing."""
IDLE_WATTS, BUSY_WATTS = 75.0, 560.0
MEMORY_MIB = 80 * 1024
"""Of a device that does not say how much it has."""


def figure(job: Job, nodes: Mapping[str, NodeReport], now: float) -> UsageFigure | None:
    """Return how busy the GPUs of a job's running pods are; None where none runs."""
    workload = job.assignment.workload
    held = [
        (f"{pod.node}/{share.index}", share.share_milli / GPU_MILLI, _memory_mib(nodes, pod.node, share))
        for pod in (job.pods[index] for index, state in job.states.items() if state is PodState.RUNNING)
        for share in pod.devices
    ]
    if not held:
        return None
    sleeps = not play(job.assignment).program
    busy = {name: 0.0 if sleeps else _busy(workload, place, now) for place, (name, _, _) in enumerate(held)}
    mean = sum(busy[name] * share for name, share, _ in held) / sum(share for _, share, _ in held)
    filled = draw(workload, "memory", (0.25, 0.95))
    watts = sum((IDLE_WATTS + BUSY_WATTS * busy[name]) * share for name, share, _ in held)
    return UsageFigure(
        workload=workload,
        at=datetime.fromtimestamp(round(now, 3), UTC),
        utilisation_percent=int(100 * mean),
        tensor_percent=int(100 * mean * draw(workload, "tensor", (0.3, 0.7))),
        memory_mib=int(sum(memory_mib * filled for _, _, memory_mib in held)),
        power_watts=int(watts),
        devices={name: int(100 * part) for name, part in busy.items()},
    )


def _busy(workload: UUID, place: int, now: float) -> float:
    """Return how busy the GPU at a place among the workload's is, as a part of 1."""
    if draw(workload, "idler", (0.0, 1.0)) < IDLER:
        return draw(workload, f"idle-{place}", (0.0, 0.03))
    level = draw(workload, "level", (0.45, 0.95))
    wave = math.sin(2 * math.pi * now / draw(workload, f"wave-{place}", (120.0, 900.0)))
    return min(1.0, max(0.0, level + 0.08 * wave))


def _memory_mib(nodes: Mapping[str, NodeReport], node: str, share: AssignedShare) -> float:
    """Return the memory of a share of a device; a slice tells its own."""
    devices = nodes[node].devices if node in nodes else ()
    device = next((device for device in devices if device.index == share.index), None)
    if device is None or not device.memory_mib:
        return MEMORY_MIB * share.share_milli / GPU_MILLI
    return device.memory_mib * share.share_milli / device.share_milli
