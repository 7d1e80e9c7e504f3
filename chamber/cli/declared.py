"""Pools, teams and the table of PriorityClasses as a file declares them, and what of the present is other than that.

What a file does not name stays as it is: a team, a pool, or one of their values. Nothing is ever taken away.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any

from chamber.cli import manifests
from chamber.cli.client import Json
from chamber.cli.output import Row
from chamber.cli.status import Exit, Failure

POOL_KEYS = ("name", "order", "node_selector", "topology", "policy", "paused")
LIMIT_KEYS = ("name", "bursting_priority", "burst_limit_percent", "maximum")
TEAM_KEYS = ("parent", *LIMIT_KEYS, "shares")
SHARE_KEYS = ("reservation", "maximum")
NEW_SHARE = {"version": 0, "reservation": 0, "maximum": None}
NEW_TEAM: Json = {"version": 1, "pools": []}
NODE_KEYS = ("order", "node_selector")
"""By which it goes which pool a node is in."""


KINDS = ("pools", "teams", "priority_classes")


@dataclass(frozen=True, slots=True)
class Declared:
    """What a file says; its teams so that each comes after its parent, whatever their order in the file.

    A priority of None takes the PriorityClass out of the table.
    """

    pools: tuple[Json, ...]
    teams: tuple[Json, ...]
    priority_classes: Mapping[str, int | None] = field(default_factory=dict)


@dataclass(slots=True)
class Plan:
    """What is to be done, as bodies of the API by slug, and each difference as a row to be shown."""

    new_pools: list[Json] = field(default_factory=list)
    pools: dict[str, Json] = field(default_factory=dict)
    new_teams: list[Json] = field(default_factory=list)
    moves: dict[str, str] = field(default_factory=dict)
    edits: dict[str, Json] = field(default_factory=dict)
    priority_classes: dict[str, int] | None = None
    changes: list[Row] = field(default_factory=list)

    @property
    def picks_nodes(self) -> bool:
        """Return whether nodes may go to another pool."""
        return bool(self.new_pools) or any(key in body for body in self.pools.values() for key in NODE_KEYS)

    def note(self, kind: str, name: str, what: str, before: object, after: object) -> None:
        """Add a difference to what is shown."""
        self.changes.append({"kind": kind, "name": name, "field": what, "before": before, "after": after})


def read(path: str) -> Declared:
    """Return what a file (`-`: standard input) declares under each of `KINDS`; a `Failure` where it cannot be."""
    name = "standard input" if path == "-" else path
    pools: list[Json] = []
    teams: list[Json] = []
    classes: dict[str, int | None] = {}
    for document in manifests.documents(path):
        if document is None:
            continue
        if not isinstance(document, dict) or not set(document) <= set(KINDS):
            text = "give pools and teams, each a list, and priority_classes, a mapping"
            raise Failure(f"{name}: {text}; not {document!r:.60}.", Exit.USAGE)
        pools += _items(document.get("pools"), "pools", POOL_KEYS, name)
        teams += _items(document.get("teams"), "teams", TEAM_KEYS, name)
        more = _classes(document.get("priority_classes"), name)
        for key in more:
            if key in classes:
                raise Failure(f"{name}: the PriorityClass {key} comes twice.", Exit.USAGE)
        classes |= more
    if not pools and not teams and not classes:
        raise Failure(f"{name} declares no pools and no teams, nor priority_classes.", Exit.USAGE)
    for kind, items in (("pool", pools), ("team", teams)):
        _refuse_twice(kind, items, name)
    for pool in pools:
        if not isinstance(pool.get("policy") or {}, dict):
            raise Failure(
                f"{name}: {pool['slug']}.policy must be a mapping, not {pool['policy']!r:.60}.", Exit.USAGE
            )
    for team in teams:
        team["shares"] = _shares(team, name)
    return Declared(tuple(pools), tuple(_parents_first(teams, name)), classes)


def _classes(value: Any, name: str) -> dict[str, int | None]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Failure(f"{name}: priority_classes must be a mapping, not {value!r:.60}.", Exit.USAGE)
    for key, priority in value.items():
        if priority is not None and (not isinstance(priority, int) or isinstance(priority, bool)):
            text = f"priority_classes.{key} must be a priority, or null to take it out; not {priority!r:.60}."
            raise Failure(f"{name}: {text}", Exit.USAGE)
    return {str(key): priority for key, priority in value.items()}


def _items(value: Any, kind: str, keys: Iterable[str], name: str) -> list[Json]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise Failure(f"{name}: {kind} must be a list, not {value!r:.60}.", Exit.USAGE)
    for item in value:
        if not isinstance(item, dict) or not isinstance(item.get("slug"), str):
            raise Failure(f"{name}: each of {kind} is a mapping with a slug, not {item!r:.60}.", Exit.USAGE)
        _refuse_unknown(item, ("slug", *keys), f"{name}: {item['slug']}")
    return [dict(item) for item in value]


def _refuse_unknown(item: Mapping[str, Any], keys: Iterable[str], place: str) -> None:
    known = tuple(keys)
    for key in item:
        if key not in known:
            raise Failure(f"{place}: there is no {key!r} here; known are {', '.join(known)}.", Exit.USAGE)


def _refuse_twice(kind: str, items: Iterable[Json], name: str) -> None:
    seen: set[str] = set()
    for item in items:
        if item["slug"] in seen:
            raise Failure(f"{name}: the {kind} {item['slug']} comes twice.", Exit.USAGE)
        seen.add(item["slug"])


def _parents_first(teams: Iterable[Json], name: str) -> list[Json]:
    by_slug = {team["slug"]: team for team in teams}
    sorter = TopologicalSorter({slug: [str(team.get("parent"))] for slug, team in by_slug.items()})
    try:
        return [by_slug[slug] for slug in sorter.static_order() if slug in by_slug]
    except CycleError as error:
        circle = " below ".join(reversed(error.args[1]))
        raise Failure(f"{name}: no team can be below itself, as in {circle}.", Exit.USAGE) from None


def _shares(team: Json, name: str) -> dict[str, Json]:
    shares = team.get("shares") or {}
    place = f"{name}: {team['slug']}.shares"
    if not isinstance(shares, dict) or not all(isinstance(share, dict) for share in shares.values()):
        raise Failure(f"{place} must be a mapping from pools to mappings, not {shares!r:.60}.", Exit.USAGE)
    for pool, share in shares.items():
        _refuse_unknown(share, SHARE_KEYS, f"{place}.{pool}")
    return {str(pool): share for pool, share in shares.items()}


def compare(
    declared: Declared,
    *,
    pools: Mapping[str, Json],
    teams: Mapping[str, Json],
    classes: Mapping[str, int] | None = None,
) -> Plan:
    """Return what must be done so that `pools` and `teams`, by slug, and PriorityClasses are as declared."""
    plan = Plan()
    for pool in declared.pools:
        _compare_pool(plan, pool, pools.get(pool["slug"]))
    known = {*pools, *(pool["slug"] for pool in declared.pools)}
    for team in declared.teams:
        for pool_slug in team["shares"]:
            if pool_slug not in known:
                text = f"There is no pool {pool_slug!r}, in which {team['slug']} is to have a share."
                raise Failure(text, Exit.NOT_FOUND)
        _compare_team(plan, team, teams.get(team["slug"]))
    _compare_classes(plan, declared.priority_classes, classes or {})
    return plan


def _compare_classes(plan: Plan, wanted: Mapping[str, int | None], now: Mapping[str, int]) -> None:
    after = {key: value for key, value in {**now, **wanted}.items() if value is not None}
    if after == now:
        return
    plan.priority_classes = after
    for key in wanted:
        if now.get(key) != after.get(key):
            plan.note("priority class", key, "priority", now.get(key), after.get(key))


def _compare_pool(plan: Plan, pool: Json, now: Json | None) -> None:
    slug = pool["slug"]
    if now is None:
        plan.new_pools.append({"name": slug, **pool})
        plan.note("pool", slug, "", None, "new")
        return
    body: Json = {}
    for key in POOL_KEYS:
        if key in pool and key != "policy" and pool[key] != now[key]:
            body[key] = pool[key]
            plan.note("pool", slug, key, now[key], pool[key])
    policy = pool.get("policy") or {}
    differing = {key: value for key, value in policy.items() if value != now["policy"].get(key)}
    for key, value in differing.items():
        plan.note("pool", slug, f"policy.{key}", now["policy"].get(key), value)
    if differing:
        body["policy"] = differing
    if body:
        plan.pools[slug] = body


def _compare_team(plan: Plan, team: Json, now: Json | None) -> None:
    slug = team["slug"]
    if now is None:
        if not team.get("parent"):
            raise Failure(
                f"There is no team {slug!r}, or not for you; to make it, name its parent.", Exit.NOT_FOUND
            )
        made = {key: value for key, value in team.items() if key != "shares"}
        plan.new_teams.append({"name": slug, **made})
        plan.note("team", slug, "", None, f"new, below {team['parent']}")
        now = NEW_TEAM
        limits: Json = {}
    else:
        if "parent" in team and team["parent"] != now["parent"]:
            plan.moves[slug] = team["parent"]
            plan.note("team", slug, "parent", now["parent"], team["parent"])
        limits = {key: team[key] for key in LIMIT_KEYS if key in team and team[key] != now[key]}
        for key, value in limits.items():
            plan.note("team", slug, key, now[key], value)
    shares = _differing_shares(plan, team, {share["pool"]: share for share in now["pools"]})
    if limits or shares:
        plan.edits[slug] = {**limits, "shares": shares}


def _differing_shares(plan: Plan, team: Json, now: Mapping[str, Json]) -> dict[str, Json]:
    found = {}
    for pool, share in team["shares"].items():
        before = now.get(pool, NEW_SHARE)
        differing = {key: value for key, value in share.items() if value != before[key]}
        for key, value in differing.items():
            plan.note("team", team["slug"], f"{pool} {key}", before[key], value)
        if differing:
            found[pool] = differing
    return found
