"""Ways to break the engine: it does not see something, one of its functions is wrong, or what it hands out is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest

import scheduling.engine
from scheduling.engine import Plan, Pool, Snapshot, State

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

    def change(pool: Pool) -> dict[str, Any]:
        return {"policy": replace(pool.policy, **values)}

    return change


def wrong(target: str, function: Callable[..., Any] | property) -> Plant:
    """An engine of which one function is another; ``target`` names it from its module on."""
    module, _, rest = target.partition(".")

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        place: Any = import_module(f"scheduling.engine.{module}")
        *path, name = rest.split(".")
        for each in path:
            place = getattr(place, each)
        monkeypatch.setattr(place, name, function)

    return plant


def garbled(change: Callable[[Plan], Plan]) -> Plant:
    """An engine that hands out something else than it decided."""

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        original = scheduling.engine.decide
        monkeypatch.setattr(scheduling.engine, "decide", lambda state, now: change(original(state, now)))

    return plant
