"""What is done about an attempt while the cluster's own word lags behind what was just done."""

from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from agentlink.agent.backends.native import care as caring
from agentlink.agent.backends.native import reasons
from agentlink.agent.backends.native.adopting import Adopter
from agentlink.agent.backends.native.attempts import AttemptIndex
from agentlink.agent.backends.native.care import Care
from agentlink.agent.backends.native.facts import JobFacts, PodFacts, Said, read_job
from agentlink.agent.backends.native.making import Maker
from agentlink.agent.backends.native.names import DomainNames
from agentlink.agent.backends.native.plans import AttemptVerdict
from agentlink.agent.backends.native.policies import Eviction
from agentlink.protocol import ReportedPhase
from agentlink.tests.kube.made import ATTEMPT, NOW, assigned, at, job, pod
from agentlink.tests.kube.native import work

NAMES = DomainNames()


class Written:
    """Takes the place of the API server: keeps what was written, and shows nothing of it."""

    def __init__(self) -> None:
        self.patches: list[dict[str, Any]] = []
        self.deleted: list[str] = []
        self.pods: list[PodFacts] = []
        """What a fresh look at a Job's pods finds."""
        self.told: list[tuple[Eviction, str]] = []
        """What an eviction does to Jobs, and whether they have budgets, as their people were told."""

    async def patch(self, _: object, __: str, body: dict[str, Any], ___: str) -> None:
        self.patches.append(body)

    async def delete(self, _: object, name: str, __: str, **___: object) -> None:
        self.deleted.append(name)


def care(kube: Written, *things: Any) -> Care:
    """Return what looks after an attempt of these Jobs and pods."""
    touched: list[UUID] = []
    attempts = AttemptIndex(touched.append, lambda _: None)
    for each in things:
        take = attempts.take_job if hasattr(each, "plan") else attempts.take_pod
        take(each.name, None, each)
    maker = SimpleNamespace(
        kube=kube, names=NAMES, has_node=_has_node, closed=lambda _: set(), pods=_pods(kube)
    )
    return Care(cast(Maker, maker), cast(Adopter, Told()), attempts, namespace="ns", touch=touched.append)


class Told:
    """Takes the place of what writes on adopted Jobs: nothing is read of it."""

    async def tell_failed(self, *_: object) -> None:
        pass


def verdicts(kube: Written) -> list[AttemptVerdict]:
    """Return the verdicts that were written."""
    texts = (each["metadata"]["annotations"][NAMES.verdict] for each in kube.patches)
    return [verdict for verdict in map(AttemptVerdict.read, texts) if verdict is not None]


def _taking(made: list[object]) -> Callable[[object], Coroutine[Any, Any, None]]:
    async def jobs(wave: object) -> None:
        made.append(wave)

    return jobs


def _pods(kube: Written) -> Callable[[str, str], Coroutine[Any, Any, list[PodFacts]]]:
    async def pods(_: str, __: str) -> list[PodFacts]:
        return kube.pods

    return pods


async def _has_node(node: str) -> bool:
    return node != "gone"


async def test_a_second_pod_that_is_taken_away_does_not_bring_the_first_back_to_mind() -> None:
    kube = Written()
    looking = care(kube, job(0, 1, 2), pod(0), pod(1), pod(2))
    for index in (1, 2):
        looking.ask(ATTEMPT).remove.add(index)
        await looking.look_after(ATTEMPT)
    removed = [each["metadata"]["annotations"][NAMES.removed] for each in kube.patches]
    assert removed == ["1", "1,2"]
    assert [each["spec"]["backoffLimit"] for each in kube.patches] == [1, 2]
    assert {"train-1-x", "train-2-x"} <= set(kube.deleted)


async def test_nothing_is_made_or_let_go_of_what_is_over() -> None:
    for over in (job(0, verdict=AttemptVerdict("a", "B.", at(1))), job(0, stopping=True)):
        kube = Written()
        looking = care(kube, over, pod(0, "Pending", node="", gates=(NAMES.gate,)))
        asked = looking.ask(ATTEMPT)
        asked.assignment = work(*assigned(0, 1), attempt=ATTEMPT)
        asked.pods = {1: assigned(1)[0]}
        looking.expect([asked.assignment])
        assert await looking.look_after(ATTEMPT) is None
        assert (kube.patches, kube.deleted) == ([], [])


@pytest.mark.parametrize(
    ("now_there", "code", "exit_code"),
    [
        ([pod(0, "Failed", exit_code=3, finished_at=at(20)), pod(1)], "exit-code", 3),
        ([pod(1)], "pod-deleted", None),
    ],
)
async def test_nobody_is_blamed_for_pods_that_are_only_not_heard_of_yet(
    now_there: list[PodFacts], code: str, exit_code: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caring, "_now", lambda: NOW)
    kube = Written()
    kube.pods = now_there
    failed = job(0, 1, failed=Said("BackoffLimitExceeded"), failed_at=at(30))
    # As they were known when the API server went away: the Job is heard of again before its pods.
    await care(kube, failed, pod(0), pod(1)).look_after(ATTEMPT)
    (patch,) = kube.patches
    verdict = AttemptVerdict.read(patch["metadata"]["annotations"][NAMES.verdict])
    assert verdict is not None
    assert (verdict.code, verdict.exit_code) == (code, exit_code)


@pytest.mark.parametrize(
    ("known", "now_there", "code"),
    [
        # The image came meanwhile.
        (
            pod(0, "Pending", started_at=at(-200), waiting=Said("ErrImagePull", "manifest unknown")),
            pod(0),
            "image-not-pulled",
        ),
        # It was done before the cluster deleted its pods, or took its node.
        (pod(0, deleted_at=at(20)), pod(0, "Succeeded", finished_at=at(19)), "pod-deleted"),
        (pod(0, node="gone"), pod(0, "Succeeded", node="gone", finished_at=at(19)), "node-lost"),
        (pod(0, "Pending", node="", started_at=None), pod(0), "unschedulable"),
        # It was done within its time.
        (pod(0), pod(0, "Succeeded", finished_at=at(19)), "time-limit"),
    ],
    ids=["image", "deleted", "node", "unbound", "limit"],
)
async def test_what_time_alone_brings_about_is_looked_at_afresh_before_it_is_written(
    known: PodFacts, now_there: PodFacts, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [NOW]
    monkeypatch.setattr(caring, "_now", lambda: clock[0])
    kube = Written()
    kube.pods = [now_there]  # the API server was away
    limit: dict[str, Any] = {"adopted": True, "time_limit_seconds": 30} if code == "time-limit" else {}
    attempt = job(0, started_at=at(1), **limit)
    looking = care(kube, attempt, known)
    for pods, codes in (kube.pods, set()), ([known], {code}):
        kube.pods = pods
        for _ in range(2):
            await looking.look_after(ATTEMPT)
            clock[0] += timedelta(seconds=reasons.UNBOUND_SECONDS)
        assert {verdict.code for verdict in verdicts(kube)} == codes


async def test_a_time_limit_is_kept_by_the_cluster_and_never_early() -> None:
    kube = Written()
    runs = pod(0, running_at=at(10))
    looking = care(kube, job(0, time_limit_seconds=90, started_at=at(1)), runs)
    await looking.look_after(ATTEMPT)
    # All pods ran up to a second after the time that is told, and the Job began up to a second after its own.
    assert [each["spec"] for each in kube.patches] == [{"activeDeadlineSeconds": 100}]


async def test_pods_wait_for_room_in_their_namespace_and_keep_nobody_waiting() -> None:
    looking, room = care(Written()), [False]
    looking._has_room = lambda _: room[0]
    made: list[object] = []
    looking._maker.jobs = _taking(made)  # type: ignore[assignment,method-assign]
    asked = looking.ask(ATTEMPT)
    asked.assignment = work(*assigned(0), attempt=ATTEMPT)
    asked.pods = {0: assigned(0)[0]}
    assert await looking.look_after(ATTEMPT) is not None
    assert made == []
    room[0] = True
    await looking.look_after(ATTEMPT)
    assert len(made) == 1


async def test_what_is_stopped_before_anything_was_made_is_gone() -> None:
    looking = care(Written())
    asked = looking.ask(ATTEMPT)
    asked.assignment, asked.stop = work(*assigned(0), attempt=ATTEMPT), True
    await looking.look_after(ATTEMPT)
    seen = looking.see(ATTEMPT)
    assert seen is not None
    assert (seen.phase, seen.pods) == (ReportedPhase.GONE, ())
    asked.forget = True
    await looking.look_after(ATTEMPT)
    assert (looking.see(ATTEMPT), looking.knows(ATTEMPT)) == (None, False)


async def test_a_job_that_was_unsuspended_by_hand_while_it_is_stopped_is_suspended_again() -> None:
    kube = Written()
    looking = care(kube, job(0, stopping=True, suspended=False))
    looking.ask(ATTEMPT).stop = True
    await looking.look_after(ATTEMPT)
    assert [each["spec"] for each in kube.patches] == [{"suspend": True}]


GATED: dict[str, Any] = {"phase": "Pending", "node": "", "gates": (NAMES.gate,), "running_at": None}


@pytest.mark.parametrize(
    ("others", "code"),
    [
        ([pod(1, disrupted=Said("EvictionByEvictionAPI"))], "drained"),
        ([], "pod-deleted"),
    ],
)
@pytest.mark.parametrize("restarted", [False, True])
async def test_a_pod_that_is_made_in_the_place_of_one_of_an_adopted_job_is_not_let_go(
    others: list[PodFacts], code: str, restarted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caring, "_now", lambda: NOW)
    kube = Written()
    first = [pod(0), pod(1)] if restarted else [pod(0, **GATED), pod(1, **GATED)]
    noted = frozenset({"-train-0", "-train-1"}) if restarted else frozenset()
    looking = care(kube, job(0, 1, adopted=True, let_go=noted), *first)
    protected: list[str] = []
    let_go = letting_go(looking, kube, protected)
    await looking.look_after(ATTEMPT)
    assert len(protected) == 1  # also where it ran before this agent
    assert let_go == ([] if restarted else ["pod-train-0", "pod-train-1"])
    assert kube.patches == []  # an eviction ends it: there is nothing for the next agent to know

    before = first[1]
    later = replace(pod(1, created_at=at(30), **GATED), name="again", uid="again")
    looking._attempts.take_pod("train-0-x", None, pod(0))
    looking._attempts.take_pod(before.name, before, next(iter(others), None))
    looking._attempts.take_pod("again", None, later)
    kube.pods = [pod(0), *others, later]
    let_go.clear()
    await looking.look_after(ATTEMPT)
    (patch,) = kube.patches
    verdict = AttemptVerdict.read(patch["metadata"]["annotations"][NAMES.verdict])
    assert verdict is not None
    assert (verdict.code, let_go) == (code, [])


EVICTED = pod(0, "Pending", disrupted=Said("EvictionByEvictionAPI"), deleted_at=at(60))
TURNED_AWAY = pod(0, "Failed", status=Said("OutOfcpu", "no CPU"), running_at=None)
WAS_EVICTED = "Pod 0 on n0 was evicted, as when its node is drained."
HAS_ENDED = "Its Job ns/train has ended in the cluster and cannot run again"
FOR_ITS_POD = "for it allows no failure (backoffLimit 0)"


@pytest.mark.parametrize(
    ("lost", "does", "cause"),
    [
        (EVICTED, Eviction.ENDS, WAS_EVICTED),
        (EVICTED, Eviction.MAY_END, WAS_EVICTED),
        (TURNED_AWAY, Eviction.SPARED, "Pod 0 on n0 was turned away by its node: no CPU."),
    ],
)
async def test_an_adopted_job_that_ends_with_the_pod_that_it_lost_is_not_put_back_in_the_queue(
    lost: PodFacts, does: Eviction, cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caring, "_now", lambda: NOW)
    kube, told = Written(), []
    made = job(0, adopted=True, eviction=does)
    looking = care(kube, made, lost)
    kube.pods = [lost]

    async def tell(_: object, message: str) -> None:
        told.append(message)

    looking._adopter = cast(Adopter, SimpleNamespace(tell_failed=tell))
    assert await looking.look_after(ATTEMPT) == reasons.ENDED_SECONDS
    assert (kube.patches, told) == ([], [])  # whether its Job ends is not known yet
    looking._attempts.take_pod(lost.name, lost, None)
    kube.pods = []
    assert await looking.look_after(ATTEMPT) == reasons.ENDED_SECONDS
    ended = replace(made, failed=Said("BackoffLimitExceeded"), failed_at=at(60))
    looking._attempts.take_job("ns/train", made, ended)
    assert await looking.look_after(ATTEMPT) is None
    (verdict,) = verdicts(kube)
    assert (verdict.code, verdict.message, verdict.refused) == (
        "job-ended",
        f"{HAS_ENDED}, {FOR_ITS_POD}: {cause}",
        False,
    )
    again = "delete it first: kubectl delete job train -n ns. Then create it again, suspended."
    assert len(told) == 1
    assert told[0].startswith(cause)
    assert told[0].endswith(again)


@pytest.mark.parametrize("does", [Eviction.ENDS, Eviction.SPARED])
async def test_an_adopted_job_that_outlives_the_pod_that_it_lost_is_displaced(
    does: Eviction, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [NOW]
    monkeypatch.setattr(caring, "_now", lambda: clock[0])
    kube, told = Written(), []
    kube.pods = [EVICTED]
    looking = care(kube, job(0, adopted=True, eviction=does), EVICTED)

    async def tell(_: object, slug: str, message: str) -> None:
        told.append((slug, message))

    looking._adopter = cast(Adopter, SimpleNamespace(tell_failed=_nothing, tell_displaced=tell))
    if does is Eviction.ENDS:
        assert await looking.look_after(ATTEMPT) == reasons.ENDED_SECONDS
        clock[0] += timedelta(seconds=2)
        assert await looking.look_after(ATTEMPT) == reasons.ENDED_SECONDS - 2
        clock[0] += timedelta(seconds=reasons.ENDED_SECONDS)
    assert await looking.look_after(ATTEMPT) is None
    assert [(each.code, each.message) for each in verdicts(kube)] == [("drained", WAS_EVICTED)]
    assert [message for _, message in told] == ([WAS_EVICTED] if does is Eviction.SPARED else [])


async def test_a_job_that_was_made_is_not_asked_whether_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caring, "_now", lambda: NOW)
    kube = Written()
    kube.pods = [EVICTED]
    looking = care(kube, job(0, failed=Said("BackoffLimitExceeded"), failed_at=at(60)), EVICTED)
    await looking.look_after(ATTEMPT)
    assert [each.code for each in verdicts(kube)] == ["drained"]


@pytest.mark.parametrize("does", [Eviction.SPARED, Eviction.MAY_END])
@pytest.mark.parametrize("indexes", [(0,), (0, 1)], ids=["pod", "gang"])
async def test_the_next_agent_lets_no_pods_go_that_came_in_the_place_of_all_there_were(
    indexes: tuple[int, ...], does: Eviction, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caring, "_now", lambda: NOW)
    kube = Written()
    first = [pod(index, **GATED) for index in indexes]
    made = job(*indexes, adopted=True, eviction=does)
    looking = care(kube, made, *first)
    let_go = letting_go(looking, kube)
    for _ in range(2):
        await looking.look_after(ATTEMPT)
    assert let_go == [f"pod-train-{index} after 1 patch" for index in indexes]  # it is noted before, and once
    (note,) = kube.patches
    text = note["metadata"]["annotations"][NAMES.let_go]
    noted = read_job(
        _body_of(made, {NAMES.let_go: text, NAMES.plan: made.plan.as_text()}), NAMES, adopted=True
    )
    assert noted is not None
    noted = replace(noted, eviction=does)

    again = [replace(each, name=f"again-{each.index}", uid=f"again-{each.index}") for each in first]
    kube = Written()
    kube.pods = again
    looking = care(kube, noted, *again)
    let_go = letting_go(looking, kube)
    await looking.look_after(ATTEMPT)
    assert (let_go, [verdict.code for verdict in verdicts(kube)]) == ([], ["pod-deleted"])

    # Those that its predecessor had no time for are let go.
    kube = Written()
    looking = care(kube, noted, *first)
    let_go = letting_go(looking, kube)
    await looking.look_after(ATTEMPT)
    assert (let_go, kube.patches) == ([f"pod-train-{index}" for index in indexes], [])


@pytest.mark.parametrize("budget", ["chamber-uid-train", "theirs", ""])
async def test_what_an_eviction_does_is_told_before_a_job_runs_and_where_it_does_something(
    budget: str,
) -> None:
    for eviction, pods, times in (
        (Eviction.ENDS, [pod(0, **GATED)], 1),
        (Eviction.MAY_END, [pod(0, **GATED)], 1),
        (Eviction.SPARED, [pod(0, **GATED)], 0),
        (Eviction.ENDS, [pod(0)], 0),  # by an agent before this one
    ):
        kube = Written()
        looking = care(kube, job(0, adopted=True, eviction=eviction), *pods)
        letting_go(looking, kube, budget=budget)
        for _ in range(2):
            await looking.look_after(ATTEMPT)
        assert kube.told == [(eviction, budget)] * times


def letting_go(
    looking: Care, kube: Written, protected: list[str] | None = None, *, budget: str = "chamber-uid-train"
) -> list[str]:
    """Have the attempt wanted; return the list of the pods that will have been let go."""
    looking.expect([work(*looking._attempts.jobs(ATTEMPT)[0].plan.pods, attempt=ATTEMPT)])
    let_go: list[str] = []

    async def let(slot: Any) -> None:
        patches = f" after {count} patch" if (count := len(kube.patches)) else ""
        let_go.append(f"{slot.pod.uid}{patches}")

    async def protect(_: object, __: object) -> str:
        (protected if protected is not None else []).append(budget)
        return budget

    async def tell(job: Any, *, budget: str) -> None:
        kube.told.append((job.eviction, budget))

    looking._maker.let_go = let  # type: ignore[method-assign]
    looking._maker.provide = _nothing  # type: ignore[assignment,method-assign]
    looking._maker.protect = protect  # type: ignore[assignment,method-assign]
    adopter = SimpleNamespace(tell_failed=_nothing, tell_displaced=_nothing, tell_evictable=tell)
    looking._adopter = cast(Adopter, adopter)
    return let_go


def _body_of(made: JobFacts, annotations: dict[str, str]) -> dict[str, Any]:
    """Return a Job as the API server has it."""
    metadata = {"namespace": made.namespace, "name": made.name, "uid": made.uid, "resourceVersion": "2"}
    created = {"creationTimestamp": made.begun_at.isoformat(), "annotations": annotations}
    return {"metadata": {**metadata, **created}, "spec": {"template": {"spec": {}}}, "status": {}}


async def _nothing(*_: object) -> None:
    return None
