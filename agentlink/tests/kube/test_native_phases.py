"""What Jobs and pods amount to, as a table."""

from dataclasses import replace
from typing import Any

import pytest

from agentlink.agent.backends.native.facts import JobFacts, PodFacts, Said
from agentlink.agent.backends.native.phases import StartProblem, observation
from agentlink.agent.backends.native.plans import AttemptVerdict
from agentlink.protocol import ReportedPhase
from agentlink.tests.kube.made import at, attempt, job, pod

FAILED = AttemptVerdict("exit-code", "It exited with code 3.", at(30), 3)
REFUSED = AttemptVerdict("unschedulable", "No room.", at(70), refused=True)
BOTH = job(0, 1)


@pytest.mark.parametrize(
    ("things", "phase", "states"),
    [
        # On the way up.
        ([BOTH], ReportedPhase.STARTING, "0 pending, 1 pending"),
        ([BOTH, pod(0, "Pending", node="", gates=("g",))], ReportedPhase.STARTING, "0 pending, 1 pending"),
        ([BOTH, pod(0), pod(1, "Pending")], ReportedPhase.STARTING, "0 running, 1 pending"),
        ([BOTH, pod(0), pod(1)], ReportedPhase.RUNNING, "0 running, 1 running"),
        ([BOTH, pod(0), pod(1, "Succeeded")], ReportedPhase.RUNNING, "0 running, 1 succeeded"),
        ([BOTH, pod(0), pod(1, deleted_at=at(20))], ReportedPhase.RUNNING, "0 running, 1 running terminating"),
        ([job(0), pod(0, "Pending", waiting=Said("ErrImagePull"))], ReportedPhase.STARTING, "0 pending ErrImagePull"),
        # Ends.
        ([BOTH, pod(0, "Succeeded"), pod(1, "Succeeded")], ReportedPhase.SUCCEEDED, "0 succeeded, 1 succeeded"),
        ([replace(BOTH, complete=True)], ReportedPhase.SUCCEEDED, "0 succeeded, 1 succeeded"),
        ([replace(BOTH, completed=frozenset({1})), pod(0, "Succeeded")], ReportedPhase.SUCCEEDED,
         "0 succeeded, 1 succeeded"),
        ([replace(BOTH, verdict=FAILED), pod(0, "Failed"), pod(1)], ReportedPhase.FAILED, "0 failed, 1 running"),
        ([replace(BOTH, verdict=FAILED, failed=Said("BackoffLimitExceeded"))], ReportedPhase.FAILED, ""),
        ([BOTH, pod(0, "Failed"), pod(1)], ReportedPhase.RUNNING, "0 failed, 1 running"),
        ([BOTH, pod(0, "Failed", running_at=None), pod(1)], ReportedPhase.STARTING, "0 failed, 1 running"),
        ([replace(BOTH, complete=True, verdict=FAILED)], ReportedPhase.SUCCEEDED, "0 succeeded, 1 succeeded"),
        # Stops.
        ([replace(BOTH, stopping=True, suspended=True), pod(0)], ReportedPhase.STOPPING, "0 running"),
        ([replace(BOTH, stopping=True, suspended=True)], ReportedPhase.GONE, ""),
        ([replace(BOTH, stopping=True, suspended=True), pod(0, "Failed")], ReportedPhase.GONE, "0 failed"),
        ([replace(BOTH, stopping=True, suspended=True, complete=True)], ReportedPhase.SUCCEEDED,
         "0 succeeded, 1 succeeded"),
        # Pods are taken away and added while it runs.
        ([replace(BOTH, removed=frozenset({1})), pod(0), pod(1, deleted_at=at(20))], ReportedPhase.RUNNING,
         "0 running, 1 running terminating"),
        ([replace(BOTH, removed=frozenset({1})), pod(0), pod(1, "Failed")], ReportedPhase.RUNNING, "0 running"),
        ([replace(BOTH, removed=frozenset({1})), pod(0, "Succeeded")], ReportedPhase.SUCCEEDED, "0 succeeded"),
        ([BOTH, pod(0), pod(1), job(2, name="more", wave=1)], ReportedPhase.RUNNING, "0 running, 1 running, 2 pending"),
        ([replace(BOTH, removed=frozenset({1})), pod(0), pod(1, "Failed"), job(1, name="again", wave=1),
          pod(0, of="again", node="n9")], ReportedPhase.RUNNING, "0 running, 1 running"),
        # Several Jobs of one wave run when all of them do.
        ([job(0, size=2), pod(0), job(1, name="b", size=2), pod(0, "Pending", of="b")], ReportedPhase.STARTING,
         "0 running, 1 pending"),
    ],
)  # fmt: skip
def test_each_picture_has_its_phase_and_its_pods(
    things: list[JobFacts | PodFacts], phase: ReportedPhase, states: str
) -> None:
    seen = observation(attempt(*things))
    assert seen.phase is phase
    assert ", ".join(f"{one.index} {one.state} {one.reason}".strip() for one in seen.pods) == states


def told(*things: JobFacts | PodFacts) -> dict[str, Any]:
    seen = observation(attempt(*things))
    names = ("reason", "message", "exit_code", "created_at", "running_at", "ended_at")
    return {name: getattr(seen, name) for name in names if getattr(seen, name) not in (None, "")}


def test_a_failure_is_told_as_its_verdict_says() -> None:
    found = told(replace(job(0), verdict=FAILED), pod(0, "Failed", running_at=at(9)))
    assert found == {
        "reason": "exit-code", "message": "It exited with code 3.", "exit_code": 3, "created_at": at(0),
        "running_at": at(9), "ended_at": at(30),
    }  # fmt: skip


def test_what_was_refused_was_never_created() -> None:
    assert told(replace(job(0), verdict=REFUSED)) == {
        "reason": "unschedulable", "message": "No room.", "ended_at": at(70),
    }  # fmt: skip


def test_the_first_of_several_verdicts_counts() -> None:
    later = replace(FAILED, code="evicted", at=at(40))
    found = told(job(0, verdict=later), job(1, name="b", wave=1, verdict=FAILED))
    assert found["reason"] == "exit-code"


def test_it_runs_since_the_last_of_those_that_started_together_ran() -> None:
    both = [pod(0, running_at=at(8)), pod(1, running_at=at(12))]
    assert told(job(0, 1), *both)["running_at"] == at(12)
    later: list[JobFacts | PodFacts] = [job(2, name="more", wave=1), pod(0, of="more", running_at=at(50))]
    assert told(job(0, 1), *both, *later)["running_at"] == at(12)
    assert "running_at" not in told(job(0, 1), both[0])


def test_success_ends_with_the_last_pod_or_as_the_job_says() -> None:
    ended = [pod(index, "Succeeded", finished_at=at(20 + index)) for index in (0, 1)]
    assert told(job(0, 1), *ended)["ended_at"] == at(21)
    assert told(job(0, 1, complete=True, completed_at=at(33)))["ended_at"] == at(33)
    assert told(job(0, 1), *ended)["exit_code"] == 0


def test_a_pod_that_was_made_again_counts_and_not_the_one_before() -> None:
    before = replace(pod(0, "Failed"), uid="old", created_at=at(1))
    seen = observation(attempt(job(0), before, pod(0)))
    assert [one.state.value for one in seen.pods] == ["running"]


def test_a_pod_that_ends_well_because_it_was_told_to_end_is_no_success() -> None:
    drained = pod(0, "Succeeded", finished_at=at(30), disrupted=Said("EvictionByEvictionAPI"))
    assert observation(attempt(job(0), drained)).phase is ReportedPhase.RUNNING  # until a verdict is written
    verdict = AttemptVerdict("drained", "It was drained.", at(29))
    for things in ([drained], []):  # and also once the pod is gone, and its Job complete
        seen = observation(attempt(job(0, verdict=verdict, complete=True), *things))
        assert (seen.phase, seen.reason, seen.exit_code) == (ReportedPhase.FAILED, "drained", None)


def test_the_first_pod_that_cannot_start_says_why_and_no_other() -> None:
    pulling = pod(1, "Pending", waiting=Said("ErrImagePull", "no such image"))
    told = observation(
        attempt(BOTH, pod(0), pulling), StartProblem(1, "no such image", "image-not-pulled", at(120))
    ).pods
    assert [each.message for each in told] == ["", "no such image"]
    assert (told[1].cause, told[1].until) == ("image-not-pulled", at(120))
    ran = observation(attempt(BOTH, pod(0), pod(1)), StartProblem(1, "no such image")).pods
    assert not any(each.message for each in ran)


def test_what_was_pulled_is_told_each_once_the_lowest_pods_first() -> None:
    pods = [pod(0, image="train@sha256:b"), pod(1, image="train@sha256:a")]
    assert observation(attempt(job(0, 1, 2), *pods, pod(2, image="train@sha256:b"))).images == (
        "train@sha256:b",
        "train@sha256:a",
    )
    assert observation(attempt(job(0, 1), pod(0), pod(1))).images == ()
