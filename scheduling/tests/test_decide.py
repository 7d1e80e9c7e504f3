"""The engine's state that a process keeps from cycle to cycle: never a plan other than that of one made anew."""

from collections.abc import Callable

import pytest
from django.utils import timezone

from scheduling import engine
from scheduling.cycle import decide as deciding
from scheduling.cycle.decide import decide
from scheduling.engine import Changes, State, schedule
from scheduling.engine import decide as decide_on
from scheduling.reading.picture import SnapshotPicture
from scheduling.reading.snapshot import take
from scheduling.tests.conftest import Acme
from workloads.models import Workload
from workloads.tests.factories import make_workload


def taken() -> SnapshotPicture:
    return take(timezone.now())


def anew(picture: SnapshotPicture) -> engine.Plan:
    return schedule(picture.snapshot, picture.now)


def not_made_anew(_: engine.Snapshot) -> State:
    raise AssertionError("The state was made anew.")


def test_the_next_cycle_decides_on_the_state_of_the_last_one(
    acme: Acme, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = make_workload(acme.research, acme.owner)
    before = taken()
    first, expected = decide(before), anew(before)
    make_workload(acme.production, acme.outsider, gpu_milli=4000, priority=100)
    Workload.objects.filter(pk=gone.pk).update(held=True, version=gone.version + 1)
    after = taken()

    with monkeypatch.context() as kept:
        kept.setattr(State, "of", not_made_anew)
        second = decide(after)

    assert second.plan == anew(after) != expected
    assert first.plan == expected


def refuse(*_: object) -> None:
    raise ValueError("This does not fit.")


@pytest.mark.parametrize("broken", [(State, "apply"), (Changes, "between")])
def test_a_state_that_does_not_take_what_has_changed_is_made_anew(
    acme: Acme, monkeypatch: pytest.MonkeyPatch, broken: tuple[type, str]
) -> None:
    decide(taken())
    make_workload(acme.research, acme.owner)
    monkeypatch.setattr(*broken, refuse)

    picture = taken()
    assert decide(picture).plan == anew(picture)


def failing_on(kept: State) -> Callable[..., engine.Plan]:
    def fragile(state: State, now: int) -> engine.Plan:
        if state is kept:
            raise RuntimeError("The books are wrong.")
        return decide_on(state, now)

    return fragile


def test_an_engine_that_fails_on_the_kept_state_only_leaves_nobody_aside(
    acme: Acme, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide(taken())
    make_workload(acme.research, acme.owner)
    assert deciding._kept is not None
    kept, _ = deciding._kept
    monkeypatch.setattr(deciding, "decide_on", failing_on(kept))

    picture = taken()
    decided = decide(picture)

    assert decided.plan == anew(picture)
    assert decided.picture.left_aside == ()
    assert deciding._kept[0] is not kept


def test_no_state_is_kept_of_a_cycle_that_failed(acme: Acme, monkeypatch: pytest.MonkeyPatch) -> None:
    decide(taken())
    make_workload(acme.research, acme.owner)
    with monkeypatch.context() as broken:
        broken.setattr(deciding, "decide_on", refuse)
        broken.setattr(deciding, "schedule", refuse)
        with pytest.raises(ValueError, match="does not fit"):
            decide(taken())
    assert deciding._kept is None

    picture = taken()
    assert decide(picture).plan == anew(picture)
