"""What is done about an attempt while the cluster's own word lags behind what was just done."""

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

from agentlink.agent.backends.native.adopting import Adopter
from agentlink.agent.backends.native.attempts import Attempts
from agentlink.agent.backends.native.care import Care
from agentlink.agent.backends.native.making import Maker
from agentlink.agent.backends.native.names import Names
from agentlink.agent.backends.native.plans import Verdict
from agentlink.protocol import Phase
from agentlink.tests.kube.made import ATTEMPT, assigned, at, job, pod
from agentlink.tests.kube.native import work

NAMES = Names()


class Written:
    """Takes the place of the API server: keeps what was written, and shows nothing of it."""

    def __init__(self) -> None:
        self.patches: list[dict[str, Any]] = []
        self.deleted: list[str] = []

    async def patch(self, _: object, __: str, body: dict[str, Any], ___: str) -> None:
        self.patches.append(body)

    async def delete(self, _: object, name: str, __: str, **___: object) -> None:
        self.deleted.append(name)


def care(kube: Written, *things: Any) -> Care:
    """Return what looks after an attempt of these Jobs and pods."""
    touched: list[UUID] = []
    attempts = Attempts(touched.append, lambda _: None)
    for each in things:
        take = attempts.take_job if hasattr(each, "plan") else attempts.take_pod
        take(each.name, None, each)
    maker = cast(Maker, SimpleNamespace(kube=kube, names=NAMES, has_node=_has_node))
    return Care(maker, cast(Adopter, None), attempts, namespace="ns", touch=touched.append)


async def _has_node(_: str) -> bool:
    return True


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
    for over in (job(0, verdict=Verdict("a", "B.", at(1))), job(0, stopping=True)):
        kube = Written()
        looking = care(kube, over, pod(0, "Pending", node="", gates=(NAMES.gate,)))
        asked = looking.ask(ATTEMPT)
        asked.assignment = work(*assigned(0, 1), attempt=ATTEMPT)
        asked.pods = {1: assigned(1)[0]}
        looking.expect([asked.assignment])
        assert await looking.look_after(ATTEMPT) is None
        assert (kube.patches, kube.deleted) == ([], [])


async def test_what_is_stopped_before_anything_was_made_is_gone() -> None:
    looking = care(Written())
    asked = looking.ask(ATTEMPT)
    asked.assignment, asked.stop = work(*assigned(0), attempt=ATTEMPT), True
    await looking.look_after(ATTEMPT)
    seen = looking.see(ATTEMPT)
    assert seen is not None
    assert (seen.phase, seen.pods) == (Phase.GONE, ())
    asked.forget = True
    await looking.look_after(ATTEMPT)
    assert (looking.see(ATTEMPT), looking.knows(ATTEMPT)) == (None, False)


async def test_a_job_that_was_unsuspended_by_hand_while_it_is_stopped_is_suspended_again() -> None:
    kube = Written()
    looking = care(kube, job(0, stopping=True, suspended=False))
    looking.ask(ATTEMPT).stop = True
    await looking.look_after(ATTEMPT)
    assert [each["spec"] for each in kube.patches] == [{"suspend": True}]
