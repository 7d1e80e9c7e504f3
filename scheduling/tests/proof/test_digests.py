"""Digests of plans tell whether an engine decides the same; the same engine gives the same digests each time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from scheduling.engine import GPU_MILLI, Plan, Reason, ReasonCode, schedule
from scheduling.tests.engine.build import NOW
from scheduling.tests.proof.digests import canonical
from scheduling.tests.proof.digests.__main__ import main
from scheduling.tests.proof.digests.canonical import met, texts
from scheduling.tests.proof.digests.record import NoRecordError, compare, record, recorded
from scheduling.tests.proof.digests.sources import Histories, Source, Worlds, step, steps_of
from scheduling.tests.proof.digests.worlds import MIX, world
from scheduling.tests.proof.plants import Plant, garbled

BOTH = ("decisions", "sentences")
FEW = {"worlds": Worlds(len(MIX)), "histories": Histories(2)}


def types_in(kind: Any) -> Iterator[type]:
    """The row types that a type holds, itself among them."""
    if is_dataclass(kind) and isinstance(kind, type):
        yield kind
        for hint in get_type_hints(kind).values():
            yield from types_in(hint)
    for part in get_args(kind):
        yield from types_in(part)


def test_every_field_of_a_plan_is_in_one_layer_of_the_text() -> None:
    parts = {**canonical.DECIDED_AT_ONCE, **canonical.WORKED_OUT_LATER}
    assert sorted(parts.values()) == sorted(field.name for field in fields(Plan))
    rows = {kind for hint in get_type_hints(Plan).values() for kind in types_in(hint)}
    assert rows == set(canonical.NUMBERS)
    for kind in rows:
        told = [*canonical.NUMBERS[kind].values(), *canonical.SENTENCES.get(kind, {}).values()]
        assert sorted(told) == sorted(field.name for field in fields(kind)), kind


def test_a_text_has_a_line_for_each_row_and_sentences_apart() -> None:
    plan = next(plan for plan in map(_plan, range(len(MIX))) if plan.waits and plan.starts)
    found = texts(plan)
    assert len(found.decisions.splitlines()) == sum(met(plan).values())
    for wait in plan.waits:
        assert wait.reason.message not in found.decisions
        assert wait.reason.code in found.decisions
    assert len(found.sentences.splitlines()) >= len(plan.waits)
    assert texts(plan, whole=False).decisions.count("wait {") == 0


def _plan(number: int) -> Plan:
    return schedule(world(number), NOW)


def test_the_worlds_are_rich() -> None:
    found = sum((met(_plan(number)) for number in range(4 * len(MIX))), start=met(Plan()))
    assert {"preempt reserved", "preempt priority", "preempt fair-share", "grow", "reservation"} <= set(found)
    waits = {f"wait {code}" for code in ReasonCode} & set(found)
    assert len(waits) >= 15
    assert len([kind for kind in found if kind.startswith("finding")]) >= 6


@pytest.fixture
def workers() -> Iterator[ThreadPoolExecutor]:
    """In the test's own process, where the engine can be broken."""
    with ThreadPoolExecutor(1) as found:
        yield found


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A record of the engine as it is."""
    path = tmp_path_factory.mktemp("digests") / "record"
    with ThreadPoolExecutor(1) as workers:
        record(path, FEW, workers)
    return path


def differing(
    path: Path, name: str, workers: ThreadPoolExecutor, layers: tuple[str, ...] = BOTH
) -> list[str]:
    """The layers of what differs from a record."""
    outcomes = list(compare(path, name, FEW[name], workers, items=recorded(path)[name], layers=layers))
    assert sum(outcome.items for outcome in outcomes) == len(FEW[name].keys())
    return [difference.layer for outcome in outcomes for difference in outcome.differences]


def test_a_record_is_the_same_bytes_each_time_and_nothing_differs(
    before: Path, tmp_path: Path, workers: ThreadPoolExecutor
) -> None:
    record(tmp_path / "again", FEW, workers)
    assert (tmp_path / "again").read_bytes() == before.read_bytes()
    assert differing(before, "worlds", workers) == differing(before, "histories", workers) == []


def less_work_lost(plan: Plan) -> Plan:
    return replace(plan, preemptions=tuple(replace(row, lost_gpu_ms=0) for row in plan.preemptions))


def on_reasons(change: Callable[[Reason], Reason]) -> Plant:
    return garbled(
        lambda plan: replace(plan, waits=tuple(replace(row, reason=change(row.reason)) for row in plan.waits))
    )


@pytest.mark.parametrize(
    ("plant", "layer"),
    [
        (garbled(less_work_lost), "decisions"),
        (garbled(lambda plan: replace(plan, reservations=())), "decisions"),
        (on_reasons(lambda reason: replace(reason, available_milli=GPU_MILLI)), "decisions"),
        (on_reasons(lambda reason: replace(reason, next_step="Wait.")), "sentences"),
    ],
    ids=["victims", "start reservations", "numbers of reasons", "sentences"],
)
def test_another_plan_is_noticed_and_in_which_layer(
    plant: Plant, layer: str, before: Path, workers: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert set(differing(before, "worlds", workers)) == {layer}
    assert ("decisions" in differing(before, "worlds", workers, ("decisions",))) == (layer == "decisions")


class Failing(Source):
    """A source whose second plan cannot be made."""

    def keys(self) -> list[str]:
        return ["only"]

    def steps(self, key: str) -> Any:
        yield step("first", Plan())
        raise ZeroDivisionError(key)


def test_where_the_engine_fails_its_error_is_noted() -> None:
    assert [(each.name, each.texts.decisions) for each in steps_of(Failing(), "only")] == [
        ("first", ""),
        ("after 1", "failed ZeroDivisionError"),
    ]


def test_what_is_no_record_is_refused_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("nothing")
    with pytest.raises(NoRecordError, match="is no record"):
        recorded(tmp_path / "text")
    with pytest.raises(NoRecordError, match="No such file"):
        recorded(tmp_path / "away")


def test_show_prints_what_a_world_is_and_what_becomes_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "worlds", "3", "--given"]) == 0
    told = capsys.readouterr().out
    assert "WorkloadInfo(id='q000'" in told
    assert texts(_plan(3)).decisions in told
    assert main(["show", "nothing", "3"]) == 2
    assert "There is no source nothing; there are cases, worlds" in capsys.readouterr().out


def test_the_command_compares_a_part_and_says_how_to_see_a_difference(
    before: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    own_process = "scheduling.tests.proof.digests.__main__.ProcessPoolExecutor"
    monkeypatch.setattr(own_process, lambda *_, **__: ThreadPoolExecutor(1))
    given = ["compare", str(before), "--count", "5", "--only", "worlds"]
    assert main(given) == 0
    assert "worlds: 5 items, 5 plans, all the same" in capsys.readouterr().out
    on_reasons(lambda reason: replace(reason, message="No."))(monkeypatch)
    assert main([*given, "--decisions"]) == 0
    assert main([*given, "--differences", "1"]) == 1
    told = capsys.readouterr().out
    assert "other sentences" in told
    assert "To see it: show worlds " in told
    assert main(["compare", str(tmp_path / "away")]) == 2
