"""Ways to break the engine: it does not see something, one of its functions is wrong, or what it hands out is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest

import scheduling.engine
from scheduling.engine import Plan, PoolInfo, Snapshot, State

Plant = Callable[[pytest.MonkeyPatch], None]
Change = Callable[[Any], dict[str, Any]]


def blind(
    *,
    workloads: Change | None = None,
    nodes: Change | None = None,
    teams: Change | None = None,
    pools: Change | None = None,
) -> Plant:
    """An engine that sees rows other than they are: with the fields that a change gives for each."""

    def see(snapshot: Snapshot) -> Snapshot:
        return Snapshot(
            tuple(_seen(row, pools) for row in snapshot.pools),
            tuple(_seen(row, teams) for row in snapshot.teams),
            tuple(_seen(row, nodes) for row in snapshot.nodes),
            tuple(_seen(row, workloads) for row in snapshot.workloads),
        )

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        original = State.of
        monkeypatch.setattr(State, "of", lambda snapshot: original(see(snapshot)))

    return plant


def _seen(row: Any, change: Change | None) -> Any:
    return row if change is None else replace(row, **change(row))


def field(**values: object) -> Change:
    """The same values for every row."""
    return lambda _: values


def of(id_: str, **values: object) -> Change:
    """Values for one row, by its id."""
    return lambda row: values if row.id == id_ else {}


def policy(**values: Any) -> Change:
    """Another policy for every pool."""

    def change(pool: PoolInfo) -> dict[str, Any]:
        return {"policy": replace(pool.policy, **values)}

    return change


def wrong(target: str, function: Callable[..., Any] | property, *, also: str | None = None) -> Plant:
    """An engine of which one function is another; ``target`` names it from ``scheduling.engine`` on, ``also`` where it
    is known by its name, from ``scheduling`` on."""

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        for each in (f"scheduling.engine.{target}", *([f"scheduling.{also}"] if also else [])):
            place, name = _place_of(each)
            monkeypatch.setattr(place, name, function)

    return plant


def _place_of(target: str) -> tuple[Any, str]:
    """The module or class that has the target, and the target's name in it."""
    *path, name = target.split(".")
    for length in range(len(path), 0, -1):
        try:
            place: Any = import_module(".".join(path[:length]))
        except ModuleNotFoundError:
            continue
        for each in path[length:]:
            place = getattr(place, each)
        return place, name
    raise LookupError(target)


def garbled(change: Callable[[Plan], Plan]) -> Plant:
    """An engine that hands out something else than it decided."""

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        original = scheduling.engine.decide

        def garbling(state: State, now: int, **how: Any) -> Plan:
            return change(original(state, now, **how))

        monkeypatch.setattr(scheduling.engine, "decide", garbling)

    return plant
