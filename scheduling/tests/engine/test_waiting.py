"""Who of those who wait is offered what victims leave over."""

from __future__ import annotations

from typing import Any, cast

from scheduling.acceleration.kept_blocked_queue import KeptBlockedQueue
from scheduling.engine.placement.pod_request import PodRequests
from scheduling.engine.queue.candidate import Blocked, Candidate, Cause, PoolRequest
from scheduling.tests.engine.build import waiting

ASKS = PodRequests()


class Full:
    """A backfill that lets nothing pass."""

    head = None

    def is_without_place(self, *_: object, **__: object) -> bool:
        return True


def anybody(_: Candidate) -> bool:
    return True


def nobody(_: Candidate) -> bool:
    return False


def blocked(name: str, cause: Cause, priority: int = 50) -> Blocked:
    workload = waiting(name, "a", priority=priority)
    return Blocked(Candidate(workload, 1, PoolRequest("main", ASKS.of(workload), 1000, 1, 1, None)), cause)


def test_of_those_without_a_place_only_the_first_is_offered_something_whatever_stopped_him_meanwhile() -> (
    None
):
    full = cast(Any, Full())
    those = KeptBlockedQueue(full, full, frozenset())
    for name in "abc":
        those.add(blocked(name, Cause.PLACE))
    assert [each.candidate.id for each in those.to_be_offered(anybody)] == ["a"]
    those.add(blocked("a", Cause.BEHIND))
    assert [each.candidate.id for each in those.to_be_offered(anybody)] == ["a", "b"]
    those.add(blocked("a", Cause.PLACE))
    assert [each.candidate.id for each in those.to_be_offered(anybody)] == ["a"]
    those.forget("a")
    assert [each.candidate.id for each in those.to_be_offered(anybody)] == ["b"]


def test_whom_a_guarantee_or_ceiling_stops_by_now_is_offered_something_as_all_of_his_leaf_who_take_the_same() -> (
    None
):
    full = cast(Any, Full())
    those = KeptBlockedQueue(full, full, frozenset({1}))
    for name in "abc":
        those.add(blocked(name, Cause.PLACE))
    assert [each.candidate.id for each in those.to_be_offered(anybody)] == ["a"]
    assert [each.candidate.id for each in those.to_be_offered(nobody)] == ["a", "b", "c"]


def test_guarantees_stop_the_reserved_of_a_leaf_only() -> None:
    full = cast(Any, Full())
    those = KeptBlockedQueue(full, full, frozenset({1}))
    for name, priority in (("a", 50), ("b", 100), ("c", 50), ("d", 100)):
        those.add(blocked(name, Cause.PLACE, priority))
    offered = those.to_be_offered(lambda candidate: not candidate.reserved)
    assert [each.candidate.id for each in offered] == ["a", "b", "d"]
