"""Jobs and pods as the agent keeps them, for what is pure."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from agentlink.agent.backends.native.facts import JobFacts, PodFacts
from agentlink.agent.backends.native.phases import ObservedAttempt
from agentlink.agent.backends.native.plans import JobPlan
from agentlink.protocol import AssignedPod, AssignedShare

ATTEMPT = UUID(int=7)
NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    """Return a time so many seconds after the Job was made, which was a minute ago."""
    return NOW + timedelta(seconds=seconds - 60)


def assigned(*indexes: int) -> tuple[AssignedPod, ...]:
    """Return pods of these indexes, each on a node of its own."""
    share = AssignedShare(index=0, share_milli=1000)
    return tuple(AssignedPod(index=index, node=f"n{index}", devices=(share,)) for index in indexes)


def job(*indexes: int, name: str = "train", **fields: Any) -> JobFacts:
    """Return a Job of pods of these indexes; plan's fields are told from its own."""
    known = {
        key: fields.pop(key)
        for key in ("wave", "size", "service", "time_limit_seconds", "memory_mib")
        if key in fields
    }
    pods = assigned(*(indexes or (0,)))
    plan = JobPlan(UUID(int=1), ATTEMPT, 3, pods, **{"size": len(pods), **known})
    given = {
        "namespace": "ns",
        "uid": f"uid-{name}",
        "version": "1",
        "adopted": False,
        "begun_at": at(0),
        "started_at": at(1),
    }
    return JobFacts(name=name, plan=plan, **{**given, **fields})


def pod(index: int = 0, phase: str = "Running", *, of: str = "train", **fields: Any) -> PodFacts:
    """Return the pod of a Job's completion index, on its planned node."""
    ran = {"running_at": at(10)} if phase != "Pending" else {}
    given: dict[str, Any] = {"node": f"n{index}", "created_at": at(2), "started_at": at(5), **ran}
    return PodFacts(
        namespace="ns", name=f"{of}-{index}-x", uid=f"pod-{of}-{index}", owner=f"uid-{of}", index=index, phase=phase,
        **{**given, **fields},
    )  # fmt: skip


def attempt(*things: JobFacts | PodFacts) -> ObservedAttempt:
    """Return the attempt of these Jobs and pods."""
    jobs = [each for each in things if isinstance(each, JobFacts)]
    return ObservedAttempt.of(jobs, [each for each in things if isinstance(each, PodFacts)])
