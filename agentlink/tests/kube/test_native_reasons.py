"""Why attempts end badly, as a table: what Jobs and pods show, the code, and the sentence that people read."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from agentlink.agent.backends.native import reasons
from agentlink.agent.backends.native.attempts import AttemptIndex
from agentlink.agent.backends.native.facts import JobFacts, PodFacts, Said
from agentlink.agent.backends.native.phases import ObservedAttempt
from agentlink.tests.kube.made import NOW, at, attempt, job, pod

LOW = "The node was low on resource: memory. Container main was"
MORE = "has larger consumption of memory."
Things = list[JobFacts | PodFacts]
BOTH = job(0, 1)
EXITED = pod(0, "Failed", exit_code=3, finished_at=at(30), ended=Said("Error"))


def judged(*things: JobFacts | PodFacts, **given: object) -> reasons.Judgement:
    let_go = {one.uid: at(-9) for one in things if isinstance(one, PodFacts) and not (one.node or one.gates)}
    return reasons.judge(attempt(*things), **{"now": NOW, "let_go": let_go, **given})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("things", "code", "sentence"),
    [
        # Its Job is not what it was.
        ([replace(BOTH, deleting=True)], "job-deleted",
         "Its Job train in namespace ns was deleted in the cluster, not by Chamber."),
        ([replace(BOTH, suspended=True)], "job-suspended",
         "Its Job train in namespace ns was suspended in the cluster, not by Chamber."),
        ([job(0, time_limit_seconds=90, failed=Said("DeadlineExceeded"))], "time-limit",
         "It ran for its time limit of 90 s."),
        ([job(0, time_limit_seconds=7200, failed=Said("DeadlineExceeded"))], "time-limit",
         "It ran for its time limit of 2:00:00."),
        # A pod failed by itself.
        ([BOTH, EXITED, pod(1)], "exit-code", "Pod 0 on n0 exited with code 3."),
        ([BOTH, replace(EXITED, exit_code=137)], "exit-code", "Pod 0 on n0 exited with code 137 (SIGKILL)."),
        ([job(0, memory_mib=4096), replace(EXITED, exit_code=137, ended=Said("OOMKilled"))], "out-of-memory",
         "Pod 0 on n0 was ended because it used more memory than its 4,096 MiB."),
        ([BOTH, replace(EXITED, ended=Said("OOMKilled"))], "out-of-memory",
         "Pod 0 on n0 was ended because it used more memory than what its node has."),
        ([BOTH, replace(EXITED, exit_code=128, ended=Said("StartError", 'exec: "trian": not found'))],
         "container-not-started", 'Pod 0 on n0 could not run its command: exec: "trian": not found.'),
        ([BOTH, pod(0, "Failed", status=Said("Evicted", "The node was low on resource: memory. "))], "node-pressure",
         "Pod 0 on n0 was evicted by its node: The node was low on resource: memory."),
        ([BOTH, pod(0, "Failed", status=Said("Evicted", f"{LOW} using 100Ki, request is 0, {MORE}"))], "node-pressure",
         f"Pod 0 on n0 was evicted by its node: {LOW} using 100Ki, request is 0, {MORE}"),
        ([BOTH, pod(0, "Failed", status=Said("Evicted", f"{LOW} using 9Gi, request is 8Gi, {MORE}"))], "evicted",
         f"Pod 0 on n0 was evicted by its node: {LOW} using 9Gi, request is 8Gi, {MORE}"),
        ([BOTH, pod(0, "Failed", status=Said("Evicted", 'Usage of EmptyDir volume "shm" exceeds the limit "1Gi". '))],
         "evicted", 'Pod 0 on n0 was evicted by its node: Usage of EmptyDir volume "shm" exceeds the limit "1Gi".'),
        ([BOTH, pod(0, "Failed", status=Said("Preempting", "Preempted in order to admit critical pod"))],
         "node-pressure", "Pod 0 on n0 was ended by its node for a pod that the cluster itself needs: "
         "Preempted in order to admit critical pod."),
        ([BOTH, pod(0, "Failed", status=Said("Terminated", "The node is being shut down."))],
         "node-shutdown", "Pod 0 on n0 ended with its node: The node is being shut down."),
        ([BOTH, pod(0, "Failed", status=Said("OutOfcpu", "Node didn't have enough resource: cpu"))],
         "unschedulable", "Pod 0 on n0 was turned away by its node: Node didn't have enough resource: cpu."),
        ([BOTH, pod(0, "Failed", status=Said("UnexpectedAdmissionError", "Allocate failed due to no devices"))],
         "unschedulable", "Pod 0 on n0 was turned away by its node: Allocate failed due to no devices."),
        ([BOTH, pod(0, "Failed")], "pod-failed", "Pod 0 on n0 failed: the cluster does not say why."),
        ([job(0, time_limit_seconds=9), pod(0, "Failed", status=Said("DeadlineExceeded"))], "time-limit",
         "It ran for its time limit of 9 s."),
        # The cluster takes a pod away.
        ([BOTH, pod(0, disrupted=Said("DeletionByTaintManager")), pod(1)], "node-lost",
         "Pod 0 on n0 was deleted: its node was lost, or not ready for too long."),
        ([BOTH, pod(0, "Failed", disrupted=Said("DeletionByPodGC")), pod(1)], "node-lost",
         "Pod 0 on n0 was deleted: its node was lost, or not ready for too long."),
        ([BOTH, pod(0, disrupted=Said("EvictionByEvictionAPI")), pod(1)], "drained",
         "Pod 0 on n0 was evicted, as when its node is drained."),
        ([BOTH, pod(0, "Succeeded", disrupted=Said("EvictionByEvictionAPI")), pod(1)], "drained",
         "Pod 0 on n0 was evicted, as when its node is drained."),
        ([BOTH, pod(0, disrupted=Said("PreemptionByScheduler", "by a pod of higher priority")), pod(1)],
         "scheduler-preempted",
         "Pod 0 on n0 was taken away by the cluster's scheduler: by a pod of higher priority."),
        ([BOTH, pod(0), pod(1, node="n7")], "misplaced",
         "Pod 1 was planned on n1, but was let go to n7, not by Chamber."),
        ([BOTH, pod(0, disrupted=Said("TerminationByKubelet", f"{LOW} using 9Gi.")), pod(1)], "node-pressure",
         f"Pod 0 on n0 was evicted by its node: {LOW} using 9Gi."),
        # It cannot begin.
        ([BOTH, pod(0, "Pending", started_at=at(-200), waiting=Said("ImagePullBackOff", "Back-off pulling \"x\""))],
         "image-not-pulled", 'Pod 0 on n0 cannot have its image: Back-off pulling "x".'),
        ([BOTH, pod(0, "Pending", waiting=Said("InvalidImageName"))], "image-not-pulled",
         "Pod 0 on n0 cannot have its image: InvalidImageName."),
        ([BOTH, pod(0, "Pending", started_at=at(-200), waiting=Said("CreateContainerConfigError", 'no secret "s"'))],
         "container-not-made", 'Pod 0 on n0 cannot begin: no secret "s".'),
        # By hand.
        ([BOTH, pod(0, deleted_at=at(50)), pod(1)], "pod-deleted",
         "Its pod train-0-x was deleted in the cluster, not by Chamber."),
        ([BOTH, pod(0, "Failed", exit_code=143, deleted_at=at(50)), pod(1)], "pod-deleted",
         "Its pod train-0-x was deleted in the cluster, not by Chamber."),
        ([replace(BOTH, failed=Said("BackoffLimitExceeded"), failed_at=at(50)), pod(1, deleted_at=at(59))],
         "pod-deleted", "A pod of its Job train was deleted in the cluster, not by Chamber."),
        # It does not come to its node.
        ([BOTH, pod(0, "Pending", node="", unschedulable="0/9 nodes are available."), pod(1)], "unschedulable",
         "Pod 0 was planned on n0, but did not come there within 60 s: 0/9 nodes are available."),
        ([BOTH, pod(0, "Pending", node=""), pod(1)], "unschedulable",
         "Pod 0 was planned on n0, but did not come there within 60 s; its scheduler does not say why."),
    ],
)  # fmt: skip
def test_each_cause_has_its_code_and_its_sentence(things: Things, code: str, sentence: str) -> None:
    verdict = judged(*things).verdict
    assert verdict is not None
    assert (verdict.code, verdict.message) == (code, sentence)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            'secret "s" not found',
            "the Secret s in namespace ns, which the pod names, is not there: secret",
        ),
        (
            'configmaps "c.d" not found',
            "the ConfigMap c.d in namespace ns, which the pod names, is not there: configmaps",
        ),
        (
            "couldn't find key token in Secret ns/s",
            "the Secret s in namespace ns has no key token, which the pod names: couldn't",
        ),
    ],
)
def test_what_a_container_s_environment_names_and_is_not_there_is_refused(words: str, sentence: str) -> None:
    stuck = pod(0, "Pending", started_at=at(-200), waiting=Said("CreateContainerConfigError", words))
    verdict = judged(BOTH, stuck).verdict
    assert verdict is not None
    assert (verdict.code, verdict.refused) == ("config-missing", True)
    assert verdict.message.startswith(f"Pod 0 on n0 cannot begin: {sentence}")
    assert verdict.message.endswith(f"{words}.")
    assert judged(BOTH, replace(stuck, started_at=at(10))).verdict is None


@pytest.mark.parametrize(
    "things",
    [
        [BOTH, pod(0), pod(1)],
        [BOTH, pod(0, "Succeeded"), pod(1)],
        [BOTH, pod(0, "Succeeded"), pod(1, "Succeeded", deleted_at=at(10))],
        [replace(BOTH, removed=frozenset({1})), pod(0), pod(1, "Failed", exit_code=143, deleted_at=at(10))],
        [
            replace(BOTH, removed=frozenset({1}), failed=Said("FailedIndexes"), failed_at=at(1)),
            pod(0, "Succeeded"),
        ],
        [BOTH, pod(0, "Pending", node="", gates=("g",)), pod(1, "Pending", node="", gates=("g",))],
    ],
)
def test_what_goes_well_is_not_judged(things: Things) -> None:
    assert judged(*things) == reasons.Judgement()


MINE = 'pods "x" is forbidden: exceeded quota: chamber-plan, requested: a=1, used: a=2, limited: a=2'


@pytest.mark.parametrize(
    ("one", "given", "cause", "until", "words"),
    [
        (pod(0, "Pending", waiting=Said("ImagePullBackOff", "Back-off"), pull_error="x: not found"), {},
         "image-not-pulled", at(125), "x: not found"),
        (pod(0, "Pending", waiting=Said("ErrImagePull", "dial tcp: i/o timeout")), {},
         "registry-unreachable", at(305), "dial tcp: i/o timeout"),
        (pod(0, "Pending", waiting=Said("CreateContainerConfigError", 'secret "s" not found')), {},
         "config-missing", at(125), 'secret "s" not found'),
        (pod(0, "Pending", node="", unschedulable='claim "d"\nnot found. not found'),
         {"let_go": {"pod-train-0": at(3)}},
         "unschedulable", at(63), 'claim "d" not found.'),
        (pod(0, "Pending", waiting=Said("ContainerCreating")), {"unmounted": {0: "no volume"}},
         "volume-not-mounted", at(305), "no volume"),
        (None, {"refusal": "(combined from similar events): exceeded quota: cpu, x"},
         "quota-exceeded", at(20), "exceeded quota: cpu, x"),
        (None, {"refusal": MINE, "foreign": "notebook: 2 GPUs"}, "plan-quota", at(60),
         "that Chamber did not make (notebook: 2 GPUs): pods"),
    ],
)  # fmt: skip
def test_what_keeps_a_pod_is_told_with_what_it_leads_to_and_when_and_so_it_ends(
    one: PodFacts | None, given: dict[str, Any], cause: str, until: datetime, words: str
) -> None:
    things: Things = [job(0), *([one] if one else [])]
    found = reasons.kept(attempt(*things), **given)
    assert found is not None
    assert (found.cause, found.until) == (cause, until)
    assert words in found.words
    assert judged(*things, **given, now=until - timedelta(seconds=1)).verdict is None
    verdict = judged(*things, **given, now=until).verdict
    assert verdict is not None
    assert verdict.code == cause


def test_a_pod_that_leaves_or_runs_is_kept_by_nothing() -> None:
    gone = pod(0, "Pending", node="", unschedulable="x", deleted_at=at(1))
    assert reasons.kept(attempt(BOTH, gone, pod(1))) is None


@pytest.mark.parametrize(
    ("things", "seconds"),
    [
        ([BOTH, pod(0, "Pending", started_at=at(40), waiting=Said("ErrImagePull")), pod(1)], 100),
        ([BOTH, pod(0, deleted_at=at(59)), pod(1)], 2),
        ([replace(BOTH, failed=Said("BackoffLimitExceeded"), failed_at=at(58)), pod(0), pod(1)], 1),
    ],
)
def test_what_may_mend_itself_is_looked_at_again_when_its_time_is_over(
    things: Things, seconds: float
) -> None:
    first = judged(*things)
    assert first == reasons.Judgement(None, seconds)
    later = judged(*things, now=NOW + timedelta(seconds=seconds))
    assert later.verdict is not None


@pytest.mark.parametrize(
    ("things", "lacks"),
    [
        ([replace(BOTH, failed=Said("BackoffLimitExceeded"), failed_at=at(57)), pod(0), pod(1)], True),
        ([replace(BOTH, failed=Said("BackoffLimitExceeded"), failed_at=at(58)), pod(0), pod(1)], False),
        ([replace(BOTH, failed=Said("BackoffLimitExceeded"), failed_at=at(1)), EXITED, pod(1)], False),
        (
            [replace(BOTH, removed=frozenset({1}), failed=Said("FailedIndexes"), failed_at=at(1)), pod(0)],
            False,
        ),
        ([BOTH], False),
    ],
)
def test_a_job_that_failed_a_while_ago_and_of_which_no_pod_says_why_lacks_a_cause(
    things: Things, lacks: bool
) -> None:
    assert reasons.lacks_a_cause(attempt(*things), now=NOW) is lacks


def test_a_pod_that_was_just_let_go_has_a_minute_to_be_bound() -> None:
    gang: Things = [job(0), pod(0, "Pending", node="")]
    waits = {"pod-train-0": at(50)}
    assert judged(*gang, let_go=waits) == reasons.Judgement(None, 50)
    assert judged(*gang, let_go=waits, now=at(110)).verdict is not None


def test_pods_that_are_not_made_are_refused_once_the_cluster_says_why_or_long_after() -> None:
    gang: Things = [job(0, 1), pod(0)]
    assert reasons.asks_why_unmade(attempt(*gang), now=at(19)) is False
    assert reasons.asks_why_unmade(attempt(*gang), now=at(20)) is True
    told = judged(*gang, now=at(20), refusal='pods "x" is forbidden: exceeded quota: gpus').verdict
    assert told is not None
    assert (
        told.message == 'The cluster does not make a pod of it: pods "x" is forbidden: exceeded quota: gpus.'
    )
    assert judged(*gang, now=at(300)).verdict is None
    silent = judged(job(0, 1), now=at(301)).verdict
    assert silent is not None
    assert silent.message == "The cluster does not make 2 pods of it; it does not say why."
    assert silent.refused


def test_a_controller_that_is_only_behind_gets_as_long_as_it_needs() -> None:
    waiting = job(0, 1, started_at=None)
    assert judged(waiting, now=at(9000)) == reasons.Judgement(None, reasons.NEVER_MADE_SECONDS)
    overtaken = at(8000)
    assert judged(waiting, now=at(8299), overtaken=overtaken) == reasons.Judgement(None, 1)
    verdict = judged(waiting, now=at(8300), overtaken=overtaken).verdict
    assert verdict is not None
    assert verdict.code == "not-created"


def test_what_began_before_the_job_did_says_nothing_of_its_controller() -> None:
    waiting = job(0, adopted=True, begun_at=at(0), started_at=None)
    assert judged(waiting, now=at(30), overtaken=at(-900)) == reasons.Judgement(None, 270)
    stale = replace(waiting, started_at=at(-900))
    assert judged(stale, now=at(30)) == reasons.Judgement(None, 270)


def test_only_jobs_that_began_later_overtake_one_whenever_it_was_made() -> None:
    attempts = AttemptIndex(lambda _: None, lambda _: None)

    def add(name: str, number: int, **fields: Any) -> JobFacts:
        made = job(0, name=name, **fields)
        made = replace(made, plan=replace(made.plan, attempt=UUID(int=number)))
        attempts.take_job(name, None, made)
        return made

    waiting = ObservedAttempt.of([add("waits", 1, adopted=True, begun_at=at(0), started_at=None)], ())
    add("earlier", 2, begun_at=at(-900), started_at=at(-899))
    assert attempts.overtaken(waiting) is None
    add("later", 3, begun_at=at(20), started_at=at(21))
    add("adopted", 4, adopted=True, begun_at=at(10), started_at=at(11))
    assert attempts.overtaken(waiting) == at(11)


def test_an_adopted_job_without_a_deadline_is_ended_by_the_agent_and_never_early() -> None:
    adopted, runs = job(0, adopted=True, time_limit_seconds=90), pod(0, running_at=at(10))
    assert judged(adopted, runs, now=at(100)) == reasons.Judgement(None, 1)
    verdict = judged(adopted, runs, now=at(101)).verdict
    assert verdict is not None
    assert (verdict.code, verdict.message) == ("time-limit", "It ran for its time limit of 90 s.")
    assert judged(replace(adopted, deadline_seconds=90), runs, now=at(999)) == reasons.Judgement()


def test_a_pod_that_does_not_come_to_a_node_that_is_drained_says_so() -> None:
    gang: Things = [
        job(0),
        pod(0, "Pending", node="", unschedulable="0/9 nodes are available: 9 Insufficient cpu."),
    ]
    verdict = judged(*gang, closed=["n0"]).verdict
    assert verdict is not None
    assert verdict.message == (
        "Pod 0 was planned on n0, but did not come there within 60 s: the node is cordoned, as when it is drained, "
        "or not ready, and takes no new pods."
    )


@pytest.mark.parametrize(("ran", "refused"), [(None, True), (at(10), False)])
def test_what_has_run_fails_and_is_not_refused(ran: object, refused: bool) -> None:
    turned_away = pod(0, "Failed", running_at=ran, status=Said("OutOfcpu", "no"), exit_code=1)
    verdict = judged(job(0), turned_away).verdict
    assert verdict is not None
    assert (verdict.refused, verdict.exit_code) == (refused, None)


def test_of_several_failed_pods_the_one_that_nobody_told_to_end_counts_then_the_earliest() -> None:
    told = replace(EXITED, uid="a", index=1, deleted_at=at(20), finished_at=at(21), status=Said("Error", "x"))
    late = replace(EXITED, uid="b", index=2, finished_at=at(40), exit_code=9)
    verdict = judged(job(0, 1, 2), EXITED, told, late).verdict
    assert verdict is not None
    assert (verdict.message, verdict.exit_code, verdict.at) == ("Pod 0 on n0 exited with code 3.", 3, at(30))


def test_a_node_that_is_not_there_is_lost_with_what_runs_there() -> None:
    gang: Things = [job(0, 1), pod(0), pod(1, "Succeeded")]
    verdict = judged(*gang, lost=["n0"]).verdict
    assert verdict is not None
    assert verdict.code == "node-lost"
    assert judged(*gang, lost=["n1"]) == reasons.Judgement()


def test_work_leaves_a_node_at_the_time_that_its_drain_names() -> None:
    gang: Things = [job(0, 1), pod(0), pod(1)]
    assert judged(*gang, drains={"n1": at(90)}) == reasons.Judgement(None, 30)
    verdict = judged(*gang, drains={"n1": at(90)}, now=at(90)).verdict
    assert verdict is not None
    assert (verdict.code, verdict.message) == (
        "drained",
        "Pod 1 on n1 was asked to end: an operator drains its node.",
    )
    assert judged(*gang, drains={"n7": at(0)}) == reasons.Judgement()


@pytest.mark.parametrize(
    ("given", "code", "sentence"),
    [
        ({}, "pod-deleted", "A pod of its Job train was deleted in the cluster, not by Chamber."),
        (
            {"emptied": {"n0": ""}},
            "drained",
            "A pod of its Job train on n0 was deleted while its node is being emptied.",
        ),
        (
            {"lost": ["n0"], "emptied": {"n0": ""}},
            "node-lost",
            "Node n0 was lost: it is not in the cluster any more. A pod of its Job train ran there.",
        ),
    ],
)
def test_a_pod_that_is_gone_without_a_word_went_with_its_node_where_that_goes(
    given: dict[str, object], code: str, sentence: str
) -> None:
    verdict = judged(job(0, failed=Said("FailedIndexes"), failed_at=at(50)), **given).verdict
    assert verdict is not None
    assert (verdict.code, verdict.message) == (code, sentence)


GANG = job(0, 1)
CRASHED = pod(0, "Failed", exit_code=1, finished_at=at(40), ended=Said("Error"))
DRAINED = pod(1, disrupted=Said("EvictionByEvictionAPI"), deleted_at=at(40))


@pytest.mark.parametrize(
    ("other", "given", "code"),
    [
        (DRAINED, {}, "drained"),
        (replace(DRAINED, deleted_at=at(41)), {}, "exit-code"),
        (pod(1), {"lost": ["n1"]}, "node-lost"),
        (pod(1), {"unready": ["n1"]}, "node-lost"),
        (pod(1, "Failed", exit_code=1, finished_at=at(41)), {"unready": ["n1"]}, "exit-code"),
        (pod(1), {"unready": ["n0"]}, "exit-code"),
    ],
)
def test_what_fails_because_one_of_its_pods_was_taken_away_failed_by_that(
    other: PodFacts, given: dict[str, object], code: str
) -> None:
    verdict = judged(GANG, CRASHED, other, **given).verdict
    assert verdict is not None
    assert verdict.code == code
    assert (verdict.exit_code is None) == (code != "exit-code")


@pytest.mark.parametrize(
    ("one", "code", "sentence"),
    [
        (pod(0, disrupted=Said("EvictionByEvictionAPI")), "drained",
         "Pod 0 on n0 was evicted, as when its node is drained (cordoned by kubectl)."),
        (pod(0, disrupted=Said("DeletionByTaintManager")), "drained",
         "Pod 0 on n0 was evicted: its node is being emptied (cordoned by kubectl)."),
        (pod(0, deleted_at=at(50)), "drained",
         "Pod 0 on n0 was deleted while its node is being emptied (cordoned by kubectl)."),
        (pod(0, disrupted=Said("DeletionByPodGC")), "node-lost",
         "Pod 0 on n0 was deleted: its node was lost, or not ready for too long."),
    ],
)  # fmt: skip
def test_who_empties_a_node_is_told(one: PodFacts, code: str, sentence: str) -> None:
    verdict = judged(job(0), one, emptied={"n0": "cordoned by kubectl"}).verdict
    assert verdict is not None
    assert (verdict.code, verdict.message) == (code, sentence)


AWAY = 'failed to do request: Head "https://r/v2": dial tcp 10.0.0.9:443: connect: connection refused'


def test_the_agents_own_quota_is_waited_for_longer_and_told_as_chambers_own() -> None:
    words = 'pods "x" is forbidden: exceeded quota: chamber-plan, requested: a=1, used: a=2, limited: a=2'
    begun = job(0, begun_at=at(0), started_at=at(1))
    assert judged(begun, now=at(20), refusal=words) == reasons.Judgement(None, 40)
    verdict = judged(begun, now=at(60), refusal=words).verdict
    assert verdict is not None
    assert (verdict.code, verdict.refused) == ("plan-quota", True)
    assert verdict.message.startswith(
        "The cluster does not make a pod of it. Chamber's own quota chamber-plan is"
    )


def test_a_registry_that_is_away_is_waited_for_and_is_not_the_workloads_fault() -> None:
    waiting = pod(0, "Pending", started_at=at(0), waiting=Said("ErrImagePull", AWAY), pull_error=AWAY)
    assert judged(job(0), waiting, now=at(130)) == reasons.Judgement(None, reasons.REGISTRY_SECONDS - 130)
    for now in (replace(waiting, waiting=Said("ImagePullBackOff", 'Back-off pulling image "x"')), waiting):
        verdict = judged(job(0), now, now=at(300)).verdict
        assert verdict is not None
        assert (verdict.code, verdict.refused) == ("registry-unreachable", False)
        assert verdict.message.startswith(
            "Pod 0 on n0 cannot have its image, its registry gives no answer: failed"
        )


CREATING = replace(pod(0, "Pending", waiting=Said("ContainerCreating")), started_at=at(-999))


def test_a_pod_that_waits_for_no_told_reason_is_looked_at_again_and_only_words_about_volumes_end_it() -> None:
    again = reasons.Judgement(look_again_seconds=reasons.ASK_UNMOUNTED_SECONDS)
    assert judged(BOTH, CREATING, pod(1)) == again
    assert reasons.unmounted(attempt(BOTH, CREATING, pod(1)), now=NOW) is not None
    words = {0: 'MountVolume.SetUp failed for volume "data" : configmap "data" not found'}
    verdict = judged(BOTH, CREATING, pod(1), unmounted=words).verdict
    assert verdict is not None
    assert (verdict.code, verdict.refused) == ("volume-not-mounted", True)
    assert (
        'Pod 0 on n0 does not get its volumes: MountVolume.SetUp failed for volume "data"' in verdict.message
    )
    early = replace(CREATING, started_at=at(0))
    assert judged(BOTH, early, pod(1), unmounted=words).verdict is None


@pytest.mark.parametrize(
    "one",
    [
        pod(0, "Pending", node=""),
        pod(0, "Pending", waiting=Said("ImagePullBackOff")),
        pod(0, "Pending", deleted_at=at(0)),
        pod(0, "Pending", started_at=at(59)),
        pod(0),
    ],
)
def test_the_cluster_is_not_asked_about_volumes_of_others(one: PodFacts) -> None:
    assert reasons.unmounted(attempt(BOTH, one, pod(1)), now=NOW) is None
