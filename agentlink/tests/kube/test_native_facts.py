"""What is read of Jobs and pods, what an annotation holds, and how both become attempts."""

from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest

from agentlink.agent.backends.native import facts, images
from agentlink.agent.backends.native.attempts import AttemptIndex
from agentlink.agent.backends.native.facts import Said, read_job, read_pod
from agentlink.agent.backends.native.names import DomainNames
from agentlink.agent.backends.native.plans import AttemptVerdict, JobPlan
from agentlink.protocol import MAX_SENTENCE, AssignedPod, AssignedShare
from agentlink.tests.kube.made import ATTEMPT, at, job, pod

NAMES = DomainNames()
WHEN = "2026-11-22T11:59:00Z"
PLAN = JobPlan(
    UUID(int=1), ATTEMPT, 3, wave=1, size=4, service="train", time_limit_seconds=60, memory_mib=9,
    pods=(
        AssignedPod(
            index=7, node="n7",
            devices=(AssignedShare(index=2, share_milli=1000), AssignedShare(index=0, share_milli=250)),
        ),
    ),
)  # fmt: skip


@pytest.mark.parametrize("plan", [PLAN, replace(PLAN, time_limit_seconds=None, service="")])
def test_a_plan_is_read_as_it_was_written(plan: JobPlan) -> None:
    assert JobPlan.read(plan.as_text()) == plan


@pytest.mark.parametrize(
    "verdict", [AttemptVerdict("a", "B.", at(0), 3), AttemptVerdict("a", "B.", at(0), None, refused=True)]
)
def test_a_verdict_is_read_as_it_was_written(verdict: AttemptVerdict) -> None:
    assert AttemptVerdict.read(verdict.as_text()) == verdict


def test_of_a_verdict_that_people_wrote_no_more_is_read_than_can_be_reported() -> None:
    read = AttemptVerdict.read(AttemptVerdict("a\x00" * 40, "B\x00" * 2001, at(0), 3).as_text())
    assert read == AttemptVerdict("a" * 40, "B" * MAX_SENTENCE, at(0), 3)


@pytest.mark.parametrize(
    "text",
    [
        *("", "nonsense", "[]", "{}", "null", '{"at":"2026-01-01","code":"a"}', '{"workload":1}'),
        pytest.param("[" * 200_000, id="deep"),
        PLAN.as_text().replace('"number":3', '"number":1e999'),
        AttemptVerdict("a", "B.", at(0), 3).as_text().replace('"exit":3', '"exit":1e999'),
        AttemptVerdict("a", "B.", at(0), 2**31).as_text(),  # more than can be reported
    ],
)
def test_what_is_no_plan_and_no_verdict_is_none(text: str) -> None:
    assert (JobPlan.read(text), AttemptVerdict.read(text)) == (None, None)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("", []),
        ("3", [3]),
        ("0-2,5", [0, 1, 2, 5]),
        ("a,1-b,-", []),
        ("2-1", []),
        ("²", []),
        ("1,0-2", [1, 2]),
    ],
)
def test_indexes_are_read_as_kubernetes_writes_them(text: str, numbers: list[int]) -> None:
    assert list(facts.indexes(text)) == numbers


def test_no_text_names_more_indexes_than_there_can_be() -> None:
    assert len(list(facts.indexes("0-99999999999999"))) == facts.MOST_PODS + 1


def body_of(**fields: Any) -> dict[str, Any]:
    annotations = {NAMES.plan: PLAN.as_text(), **fields.pop("annotations", {})}
    metadata = {
        "namespace": "ns",
        "name": "train",
        "uid": "u",
        "resourceVersion": "5",
        "creationTimestamp": WHEN,
    }
    return {
        "metadata": {**metadata, "annotations": annotations},
        "spec": {"template": {"spec": {}}, **fields.pop("spec", {})},
        "status": fields.pop("status", {}),
        **fields,
    }


def test_a_job_is_read_with_all_that_says_how_it_stands() -> None:
    found = read_job(
        body_of(
            annotations={NAMES.stop: WHEN, NAMES.removed: "7"},
            spec={"suspend": True, "activeDeadlineSeconds": 9},
            status={
                "startTime": WHEN,
                "completedIndexes": "0",
                "conditions": [
                    {
                        "type": "Failed",
                        "status": "True",
                        "reason": "DeadlineExceeded",
                        "lastTransitionTime": WHEN,
                    },
                    {"type": "Complete", "status": "False"},
                ],
            },
        ),
        NAMES,
        adopted=False,
    )
    assert found is not None
    assert (found.plan, found.stopping, found.suspended, set(found.removed)) == (PLAN, True, True, {7})
    assert (found.failed.reason, found.failed_at, found.complete) == ("DeadlineExceeded", at(0), False)
    assert (set(found.completed), found.deadline_seconds, found.started_at) == ({0}, 9, at(0))
    assert read_job(body_of(annotations={NAMES.plan: "{}"}), NAMES, adopted=False) is None


@pytest.mark.parametrize(
    ("written", "started", "begun"),
    [
        ("2026-11-22T12:00:00+00:00", None, at(60)),
        ("2026-11-22T12:00:00+00:00", "2026-11-22T12:00:01Z", at(60)),
        ("", "2026-11-22T12:00:01Z", at(61)),  # by an agent that did not write it
        ("soon", None, at(0)),
        ("2026-11-22T12:00:00", None, at(0)),  # nobody knows where
    ],
)
def test_an_adopted_job_begins_when_it_is_unsuspended_and_not_when_it_is_made(
    written: str, started: str | None, begun: datetime
) -> None:
    body = body_of(annotations={NAMES.begun: written}, status={"startTime": started} if started else {})
    adopted, own = (read_job(body, NAMES, adopted=adopted) for adopted in (True, False))
    assert adopted is not None
    assert own is not None
    assert (adopted.begun_at, own.begun_at) == (begun, at(0))


def test_a_pod_is_read_with_its_owner_its_devices_and_its_end() -> None:
    gpu = {"resources": {"limits": {"nvidia.com/gpu": "2", "cpu": "500m"}, "requests": {"cpu": "500m"}}}
    ended = {"exitCode": 3, "reason": "Error", "startedAt": WHEN, "finishedAt": WHEN}
    found = read_pod(
        {
            "metadata": {
                "namespace": "ns", "name": "p", "uid": "u", "deletionTimestamp": WHEN,
                "deletionGracePeriodSeconds": 30,
                "annotations": {facts.COMPLETION_INDEX: "4"},
                "ownerReferences": [{"uid": "x"}, {"uid": "j", "controller": True}],
            },
            "spec": {"nodeName": "n", "containers": [gpu, gpu], "initContainers": [gpu],
                     "resourceClaims": [{"resourceClaimName": "b"}, {"resourceClaimTemplateName": "t"}]},
            "status": {
                "phase": "Failed",
                "resourceClaimStatuses": [{"name": "t", "resourceClaimName": "a"}],
                "containerStatuses": [
                    {"state": {"terminated": {**ended, "exitCode": 0}}}, {"state": {"terminated": ended}},
                ],
                "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}],
            },
        }
    )  # fmt: skip
    assert (found.owner, found.index, found.node, found.is_over) == ("j", 4, "n", True)
    assert (found.requests, found.claims, found.cpu_milli) == ((("nvidia.com/gpu", 4),), ("a", "b"), 1000)
    assert (found.exit_code, found.ended, found.running_at) == (3, Said("Error"), at(0))
    assert (found.deleted_at, found.disrupted) == (at(-30), Said("PreemptionByScheduler"))


@pytest.mark.parametrize("claims", [[], [{"name": "gpus-0"}]])
def test_what_a_jobs_pods_ask_of_devices_is_read_from_its_template(claims: list[object]) -> None:
    limits = {"limits": {"nvidia.com/gpu": "2", "cpu": "1"}}
    template = {"spec": {"containers": [{"resources": limits}], "resourceClaims": claims}}
    found = read_job(body_of(spec={"template": template}), NAMES, adopted=False)
    assert found is not None
    assert (found.requests, found.claims) == ((("nvidia.com/gpu", 2),), bool(claims))


@pytest.mark.parametrize("index", ["²", "9" * 5000, "-1", "x"], ids=["square", "long", "negative", "word"])
def test_an_index_that_is_no_number_is_none(index: str) -> None:
    annotations = {facts.COMPLETION_INDEX: index}
    body = {"metadata": {"namespace": "ns", "name": "p", "uid": "u", "annotations": annotations}, "spec": {}}
    assert read_pod(body).index == 0


class Seen:
    """An index of attempts, and what it says was touched."""

    def __init__(self) -> None:
        self.touched: list[UUID] = []
        self.nodes: list[str] = []
        self.attempts = AttemptIndex(self.touched.append, self.nodes.append)


def test_a_pod_is_chambers_by_its_owner_whichever_comes_first() -> None:
    seen = Seen()
    seen.attempts.take_pod("ns/a", None, pod(0))
    assert [one.name for one in seen.attempts.use_of("n0").foreign] == ["train-0-x"]
    seen.attempts.take_job("ns/train", None, job(0))
    assert seen.attempts.use_of("n0").held == {0}
    found = seen.attempts.get(ATTEMPT)
    assert found is not None
    assert found.slots[0].pod == pod(0)
    seen.attempts.take_pod("ns/a", pod(0), replace(pod(0), phase="Failed"))
    assert seen.attempts.use_of("n0").held == set()
    assert seen.touched == [ATTEMPT] * 3  # once for each side of the pod's change
    assert set(seen.nodes) == {"n0"}


def test_a_pod_that_somebody_let_go_to_another_node_has_what_it_asks_for_there() -> None:
    seen = Seen()
    seen.attempts.take_job("ns/train", None, job(0))
    seen.attempts.take_pod("ns/a", None, pod(0, node="n9"))
    use = seen.attempts.use_of("n9")
    assert ([one.name for one in use.foreign], use.held) == (["train-0-x"], set())


def test_pods_are_counted_until_they_are_over_one_of_each_index_as_their_job_has_them() -> None:
    seen = Seen()
    asks = (("nvidia.com/gpu", 1),)
    seen.attempts.take_job("ns/train", None, job(4, 5, requests=asks, removed=frozenset({5})))
    second = replace(pod(1), requests=(("nvidia.com/gpu", 8),))
    seen.attempts.take_pod("ns/b", None, second)
    seen.attempts.take_pod("ns/c", None, replace(second, uid="another", name="c"))
    (found,) = seen.attempts.counted()
    assert (found.namespace, found.attempt, found.planned.index) == ("ns", ATTEMPT, 5)
    assert (found.requests, found.leaving) == (asks, True)
    for key in ("ns/b", "ns/c"):
        seen.attempts.take_pod(key, second, replace(second, phase="Failed"))
    assert list(seen.attempts.counted()) == []


def test_pods_with_claims_are_counted_until_their_job_is_gone() -> None:
    seen = Seen()
    seen.attempts.take_job("ns/train", None, job(0, claims=True))
    assert [one.planned.index for one in seen.attempts.counted()] == [0]
    seen.attempts.take_job("ns/train", job(0, claims=True), None)
    assert list(seen.attempts.counted()) == []


def test_nothing_is_kept_of_what_was_forgotten() -> None:
    seen = Seen()
    seen.attempts.take_job("ns/train", None, job(0))
    seen.attempts.forget(ATTEMPT)
    seen.attempts.take_job("ns/train", job(0), None)
    seen.attempts.forget(ATTEMPT)  # once more, as it is looked after when its Job has gone
    assert ATTEMPT not in seen.attempts
    seen.attempts.take_job("ns/train", None, job(0))
    seen.attempts.take_job("ns/train", job(0), None)
    assert ATTEMPT in seen.attempts  # a ghost: it is not taken for forgotten


def test_a_job_that_is_gone_is_a_ghost_until_it_is_forgotten() -> None:
    seen = Seen()
    seen.attempts.take_job("ns/train", None, job(0))
    seen.attempts.take_pod("ns/a", None, pod(0))
    seen.attempts.take_job("ns/train", job(0), None)
    seen.attempts.take_pod("ns/a", pod(0), replace(pod(0), owner=""))
    seen.attempts.take_pod("ns/a", replace(pod(0), owner=""), replace(pod(0), owner="", deleted_at=at(9)))
    found = seen.attempts.get(ATTEMPT)
    assert found is not None
    assert (found.jobs[0].vanished, found.jobs[0].deleting) == (True, True)
    assert seen.attempts.use_of("n0").held == {0}
    verdict = AttemptVerdict("job-deleted", "It was.", at(9))
    seen.attempts.judge(found.jobs[0], verdict)
    judged = seen.attempts.get(ATTEMPT)
    assert judged is not None
    assert judged.jobs[0].verdict == verdict
    seen.attempts.judge(job(0), verdict)  # by what was known before it went
    seen.attempts.forget(ATTEMPT)
    assert (seen.attempts.get(ATTEMPT), seen.attempts.owns("ns", "uid-train")) == (None, False)


def test_a_pod_of_another_namespace_is_not_chambers_whomever_it_names_as_its_owner() -> None:
    seen = Seen()
    seen.attempts.take_pod("elsewhere/a", None, replace(pod(0), namespace="elsewhere"))
    seen.attempts.take_job("ns/train", None, job(0))
    found = seen.attempts.get(ATTEMPT)
    assert found is not None
    assert (found.slots[0].pod, list(seen.attempts.pods(ATTEMPT))) == (None, [])
    assert (len(seen.attempts.use_of("n0").foreign), seen.attempts.use_of("n0").held) == (1, set())
    assert not seen.attempts.owns("elsewhere", "uid-train")


def test_nodes_are_looked_at_when_a_job_comes_or_goes_also_without_its_pods() -> None:
    seen = Seen()
    seen.attempts.take_job("ns/train", None, job(0))
    came = seen.nodes[:]
    seen.attempts.forget(ATTEMPT)
    seen.attempts.take_job("ns/train", job(0), None)
    assert (set(came), len(seen.nodes)) == ({"n0"}, 2)


def test_a_forgotten_job_leaves_nothing_when_it_goes() -> None:
    seen = Seen()
    seen.attempts.take_job("ns/train", None, job(0))
    seen.attempts.forget(ATTEMPT)
    assert seen.attempts.get(ATTEMPT) is not None
    seen.attempts.take_job("ns/train", job(0), None)
    assert ATTEMPT not in seen.attempts


@pytest.mark.parametrize(
    ("told", "image"),
    [
        ("docker.io/library/python@sha256:0f", "docker.io/library/python@sha256:0f"),
        ("docker-pullable://python@sha256:0f", "python@sha256:0f"),
        ("", ""),
        (None, ""),
    ],
)
def test_what_a_node_pulled_for_the_first_container_is_read(told: str | None, image: str) -> None:
    spec = {"containers": [{"name": "main"}, {"name": "side"}]}
    status = {"containerStatuses": [{"name": "side", "imageID": "other"}, {"name": "main", "imageID": told}]}
    assert images.pulled(spec, status) == image
    assert images.pulled(spec, {}) == ""
