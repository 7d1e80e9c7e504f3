"""Who of those who wait is offered what victims leave over."""

from __future__ import annotations

from typing import Any, cast

from scheduling.engine.ask import Asks
from scheduling.engine.candidate import Blocked, Candidate, Cause, Footprint
from scheduling.engine.waiting import Waiting
from scheduling.tests.engine.build import waiting

ASKS = Asks()


class Full:
    """A gate that nobody gets through."""

    head = None

    def fails_again(self, *_: object, **__: object) -> bool:
        return True


def blocked(name: str, cause: Cause) -> Blocked:
    workload = waiting(name, "a")
    return Blocked(Candidate(workload, 1, Footprint("main", ASKS.of(workload), 1000, 1, 1, None)), cause)


def test_of_those_without_a_place_only_the_first_is_offered_something_whatever_stopped_him_meanwhile() -> (
    None
):
    full = cast(Any, Full())
    those = Waiting(full, full, frozenset())
    for name in "abc":
        those.add(blocked(name, Cause.PLACE))
    assert [each.candidate.id for each in those.to_offer_again()] == ["a"]
    those.add(blocked("a", Cause.BEHIND))
    assert [each.candidate.id for each in those.to_offer_again()] == ["a", "b"]
    those.add(blocked("a", Cause.PLACE))
    assert [each.candidate.id for each in those.to_offer_again()] == ["a"]
    those.forget("a")
    assert [each.candidate.id for each in those.to_offer_again()] == ["b"]
