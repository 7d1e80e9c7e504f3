"""Pools, teams, tiers, job classes and sign-in as a file declares them, and what of the present is other than that.

What a file does not name stays as it is: a team, a pool, or one of their values. Nothing is ever taken away.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from types import MappingProxyType
from typing import Any, TypeVar

from chamber.cli import manifests
from chamber.cli.client import Json
from chamber.cli.output import Row
from chamber.cli.status import Exit, Failure
from chamber.words import nearest
from teams import durations

T = TypeVar("T")

POOL_KEYS = ("name", "order", "node_selector", "clusters", "topology", "policy", "paused")
LIMIT_KEYS = ("name", "bursting_priority", "burst_limit_percent", "maximum")
NARROWED_KEYS = ("tier", "time_limit", "max_retries", "sharing")
TEAM_KEYS = ("parent", *LIMIT_KEYS, "shares", "job_classes")
SHARE_KEYS = ("reservation", "maximum")
NEW_SHARE = {"version": 0, "reservation": 0, "maximum": None}
NEW_CLASS: Json = {"version": 0}
NEW_TEAM: Json = {"version": 1, "pools": []}
SETS = frozenset({"clusters", "peak_hours", "peak_classes"})
"""Lists of a pool and its policy whose order says nothing, and that the server stores without repetitions."""
NODE_KEYS = ("order", "node_selector", "clusters")
"""By which it goes which pool a node is in."""


TIER_KEYS = ("name", "priority", "least_role", "priority_classes", "retired")
CLASS_KEYS = (
    *(
        "name",
        "order",
        "tier",
        "time_limit",
        "max_retries",
        "on_preemption",
        "sharing",
        "is_default",
        "retired",
    ),
)
KINDS = ("pools", "teams", "tiers", "job_classes", "sign_in")
SIGN_IN_KEYS = ("second_factor", "groups")
GROUPS = "a mapping from providers to groups to teams to roles"
SECOND_FACTOR_KEYS = ("required", "grace_days")


@dataclass(frozen=True, slots=True)
class DeclaredFile:
    """What a file says; its teams so that each comes after its parent, whatever their order in the file.

    `nameless` are the kinds of which something has no slug
    that can be read: what the file then says of others of the kind may be about it.
    """

    pools: tuple[Json, ...]
    teams: tuple[Json, ...]
    tiers: Mapping[str, Json] = field(default_factory=dict)
    job_classes: Mapping[str, Json] = field(default_factory=dict)
    sign_in: Json = field(default_factory=dict)
    file: manifests.File = field(default_factory=lambda: manifests.File("the file"))
    nameless: frozenset[str] = frozenset()


@dataclass(slots=True)
class ApplyPlan:
    """What is to be done, as bodies of the API by slug, and each difference as a row to be shown.

    `problems` are sentences, by their places in the file, about what is left out: it names what is not there, or its
    form is wrong.
    """

    new_pools: list[Json] = field(default_factory=list)
    pools: dict[str, Json] = field(default_factory=dict)
    new_teams: list[Json] = field(default_factory=list)
    moves: dict[str, str] = field(default_factory=dict)
    edits: dict[str, Json] = field(default_factory=dict)
    tiers: dict[str, Json] = field(default_factory=dict)
    job_classes: dict[str, Json] = field(default_factory=dict)
    narrowings: list[Json] = field(default_factory=list)
    sign_in: Json | None = None
    changes: list[Row] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)

    @property
    def picks_nodes(self) -> bool:
        """Return whether nodes may go to another pool."""
        return bool(self.new_pools) or any(key in body for body in self.pools.values() for key in NODE_KEYS)

    def note(self, kind: str, name: str, what: str, before: object, after: object) -> None:
        """Add a difference to what is shown."""
        self.changes.append({"kind": kind, "name": name, "field": what, "before": before, "after": after})


def read(path: str) -> DeclaredFile:
    """Return what a file (`-`: standard input) declares under each of `KINDS`, without what is wrong with its form.

    That is among the `problems` of its file. Raises a `Failure` where nothing is left.
    """
    loaded = manifests.load(path)
    reading = _FileReading(loaded)
    for number, document in enumerate(loaded.documents):
        if document is not None:
            reading.take(document, f"documents[{number}]")
    teams = reading.parents_first()
    if not (reading.pools or reading.teams or reading.tiers or reading.classes or reading.sign_in):
        if reading.file.problems:
            raise reading.file.failure(reading.file.problems)
        raise Failure(
            f"{loaded.name} declares no pools and no teams, nor tiers, job_classes or sign_in.", Exit.USAGE
        )
    return DeclaredFile(
        tuple(reading.pools.values()),
        tuple(teams),
        reading.tiers,
        reading.classes,
        reading.sign_in,
        reading.file,
        nameless=frozenset(reading.nameless),
    )


class _FileReading:
    """What was read of a file so far. `file` has what is wrong with its form, by the places of what it declares,
    whatever document they are in.
    """

    def __init__(self, loaded: manifests.File) -> None:
        self._loaded = loaded
        self.file = manifests.File(loaded.name, loaded.documents)
        self.pools: dict[str, Json] = {}
        self.teams: dict[str, Json] = {}
        self.tiers: dict[str, Json] = {}
        self.classes: dict[str, Json] = {}
        self.sign_in: Json = {}
        self.nameless: set[str] = set()

    def take(self, document: Any, place: str) -> None:
        """Add what a document declares."""
        for at, line in _below(self._loaded.lines, place):
            self.file.lines.setdefault(at, line)
        for at, text in _below(self._loaded.problems, place):
            self._wrong(at, text)
        if not isinstance(document, dict):
            text = "give pools and teams, each a list, and tiers, job_classes and sign_in, each a mapping"
            self._wrong("", f"{text}; not {document!r:.60}.")
            return
        self._refuse_unknown(document, KINDS, "")
        self._take_items("pools", "pool", document.get("pools"), POOL_KEYS, self.pools)
        self._take_items("teams", "team", document.get("teams"), TEAM_KEYS, self.teams)
        self._take_named("tiers", "tier", document.get("tiers"), TIER_KEYS, self.tiers)
        self._take_named("job_classes", "job class", document.get("job_classes"), CLASS_KEYS, self.classes)
        self._take_sign_in(document.get("sign_in"))

    def parents_first(self) -> list[Json]:
        """Return the teams so that each comes after its parent; none where no order does."""
        sorter = TopologicalSorter({slug: [str(team.get("parent"))] for slug, team in self.teams.items()})
        try:
            return [self.teams[slug] for slug in sorter.static_order() if slug in self.teams]
        except CycleError as error:
            circle = " below ".join(reversed(error.args[1]))
            self._wrong(f"teams.{error.args[1][0]}", f"no team can be below itself, as in {circle}.")
            return []

    def _wrong(self, place: str, text: str) -> None:
        """Note a sentence about a place; of the first only, where there are several."""
        self.file.problems.setdefault(place, text)

    def _take_items(
        self, kind: str, noun: str, value: Any, keys: tuple[str, ...], found: dict[str, Json]
    ) -> None:
        if value is None:
            return
        if not isinstance(value, list):
            self._wrong(kind, f"{kind} must be a list, not {value!r:.60}.")
            self.nameless.add(kind)
            return
        for index, item in enumerate(value):
            if not isinstance(item, dict) or not isinstance(item.get("slug"), str):
                self._wrong(f"{kind}[{index}]", f"each of {kind} is a mapping with a slug, not {item!r:.60}.")
                self.nameless.add(kind)
                continue
            slug = item["slug"]
            place = f"{kind}.{slug}"
            if slug in found:
                self._wrong(f"{kind}[{index}]", f"the {noun} {slug} comes twice.")
                continue
            found[slug] = self._refuse_unknown(item, ("slug", *keys), place)
            if kind == "teams":
                found[slug]["shares"] = self._shares(item, place)
                narrowed: dict[str, Json] = {}
                at = f"{place}.job_classes"
                self._take_named(at, "job class", item.get("job_classes"), NARROWED_KEYS, narrowed)
                found[slug]["job_classes"] = narrowed
            elif not isinstance(item.get("policy") or {}, dict):
                self._wrong(f"{place}.policy", f"policy must be a mapping, not {item['policy']!r:.60}.")
                del found[slug]["policy"]

    def _refuse_unknown(self, item: Mapping[str, Any], known: tuple[str, ...], place: str) -> Json:
        """Return what of a mapping is known."""
        for key in item:
            if key not in known:
                text = f"there is no {key!r} here; known are {', '.join(known)}."
                self._wrong(f"{place}.{key}".lstrip("."), text)
        return {key: value for key, value in item.items() if key in known}

    def _shares(self, team: Json, place: str) -> dict[str, Json]:
        shares = team.get("shares") or {}
        if not isinstance(shares, dict):
            text = f"shares must be a mapping from pools to mappings, not {shares!r:.60}."
            self._wrong(f"{place}.shares", text)
            return {}
        found = {}
        for pool, share in shares.items():
            at = f"{place}.shares.{pool}"
            if isinstance(share, dict):
                found[str(pool)] = self._refuse_unknown(share, SHARE_KEYS, at)
            else:
                self._wrong(
                    at, f"{pool} must be a mapping with {' and '.join(SHARE_KEYS)}, not {share!r:.60}."
                )
        return found

    def _take_named(
        self, kind: str, noun: str, value: Any, keys: tuple[str, ...], found: dict[str, Json]
    ) -> None:
        """Add what a mapping from names to mappings declares; a time limit in whole seconds, None for the word none."""
        if value is None:
            return
        if not isinstance(value, dict):
            self._wrong(kind, f"{kind} must be a mapping, not {value!r:.60}.")
            return
        for key, item in value.items():
            place = f"{kind}.{key}"
            if str(key) in found:
                self._wrong(place, f"the {noun} {key} comes twice.")
                continue
            if not isinstance(item, dict):
                self._wrong(place, f"{key} must be a mapping with {', '.join(keys)}; not {item!r:.60}.")
                continue
            known = self._refuse_unknown(item, keys, place)
            if "time_limit" in known:
                self._take_limit(known, f"{place}.time_limit")
            found[str(key)] = known

    def _take_limit(self, item: Json, place: str) -> None:
        given = item.pop("time_limit")
        try:
            item["time_limit_seconds"] = None if given in (None, "none") else durations.seconds(given)
        except ValueError as error:
            self._wrong(place, str(error))

    def _take_sign_in(self, value: Any) -> None:
        if value is None:
            return
        if not isinstance(value, dict):
            self._wrong("sign_in", f"sign_in must be a mapping, not {value!r:.60}.")
            return
        known = self._refuse_unknown(value, SIGN_IN_KEYS, "sign_in")
        rule = known.get("second_factor")
        if rule is not None and not isinstance(rule, dict):
            text = (
                f"second_factor must be a mapping with {' and '.join(SECOND_FACTOR_KEYS)}, not {rule!r:.60}."
            )
            self._wrong("sign_in.second_factor", text)
        elif rule is not None:
            at = "sign_in.second_factor"
            self.sign_in["second_factor"] = self._refuse_unknown(rule, SECOND_FACTOR_KEYS, at)
        self._take_groups(known.get("groups"))

    def _take_groups(self, value: Any) -> None:
        """Add roles by groups of providers, by provider, group and team; a role of None takes it away."""
        place = "sign_in.groups"
        for provider, groups in self._level(value, place).items():
            for group, teams in self._level(groups, f"{place}.{provider}").items():
                for team, role in self._level(teams, f"{place}.{provider}.{group}").items():
                    at = f"{place}.{provider}.{group}.{team}"
                    if role is not None and not isinstance(role, str):
                        self._wrong(at, f"{team} must be a role, or null to take it away; not {role!r:.60}.")
                        continue
                    found = self.sign_in.setdefault("groups", {})
                    found[str(provider), str(group), str(team)] = role

    def _level(self, value: Any, place: str) -> Mapping[Any, Any]:
        if value is None:
            return {}
        if isinstance(value, dict):
            return value
        self._wrong(place, f"groups must be {GROUPS}, not {value!r:.60}.")
        return {}


def _below(values: Mapping[str, T], place: str) -> Iterator[tuple[str, T]]:
    """Yield what is at a place or below it, by where it is there."""
    for at, value in values.items():
        if at == place or at.startswith((f"{place}.", f"{place}[")):
            yield at.removeprefix(place).removeprefix("."), value


def compare(
    declared: DeclaredFile,
    *,
    pools: Mapping[str, Json],
    teams: Mapping[str, Json],
    tiers: Mapping[str, Json] = MappingProxyType({}),
    classes: Mapping[str, Json] = MappingProxyType({}),
    narrowed: Mapping[str, Mapping[str, Json]] = MappingProxyType({}),
    sign_in: Json | None = None,
) -> ApplyPlan:
    """Return what must be done so that `pools` and `teams`, by slug, tiers, job classes and sign-in are as declared."""
    plan = ApplyPlan(problems=dict(declared.file.problems))
    for pool in declared.pools:
        _compare_pool(plan, pool, pools.get(pool["slug"]))
    known = {*pools, *(pool["slug"] for pool in declared.pools)}
    above = {None, *teams, *(team["slug"] for team in declared.teams)}
    for team in declared.teams:
        if "teams" in declared.nameless and team.get("parent") not in above:
            continue
        for pool_slug in team["shares"].keys() - known if "pools" not in declared.nameless else ():
            text = f"There is no pool {pool_slug!r}, in which {team['slug']} is to have a share."
            place = f"teams.{team['slug']}.shares.{pool_slug}"
            plan.problems[place] = text + nearest(pool_slug, known)
        there = {pool: share for pool, share in team["shares"].items() if pool in known}
        now = teams.get(team["slug"])
        if now is None and not team.get("parent"):
            slug, near = team["slug"], nearest(team["slug"], teams)
            text = f"There is no team {slug!r} that you may see; to make it, name its parent.{near}"
            plan.problems[f"teams.{slug}"] = text
            continue
        _compare_team(plan, {**team, "shares": there}, now)
        _compare_narrowings(plan, team, narrowed.get(team["slug"], {}))
    _compare_named(plan, "tier", declared.tiers, tiers, plan.tiers)
    _compare_named(plan, "job class", declared.job_classes, classes, plan.job_classes)
    _compare_sign_in(plan, declared.sign_in, sign_in or {})
    return plan


def _compare_sign_in(plan: ApplyPlan, wanted: Json, now: Json) -> None:
    _compare_groups(plan, wanted.get("groups", {}), now.get("groups", {}))
    rule = wanted.get("second_factor")
    if rule is None:
        return
    before = {key: now["second_factor"][key] for key in SECOND_FACTOR_KEYS}
    after = {**before, **rule}
    if after == before:
        return
    plan.sign_in = {**(plan.sign_in or {}), "second_factor": after}
    for key in SECOND_FACTOR_KEYS:
        if before[key] != after[key]:
            plan.note("sign-in", "second factor", key, before[key], after[key])


def _compare_groups(plan: ApplyPlan, wanted: Mapping[Any, str | None], now: Mapping[Any, str]) -> None:
    differing = {key: role for key, role in wanted.items() if now.get(key) != role}
    if not differing:
        return
    keys = ("provider", "group", "team", "role")
    rows = [dict(zip(keys, (*key, role), strict=True)) for key, role in differing.items()]
    plan.sign_in = {**(plan.sign_in or {}), "groups": rows}
    for (provider, group, team), role in differing.items():
        plan.note("sign-in", f"{group} of {provider}", team, now.get((provider, group, team)), role)


def _compare_narrowings(plan: ApplyPlan, team: Json, now: Mapping[str, Json]) -> None:
    """Add what a team says of classes where it differs; of each class all that it says then."""
    for name, item in team["job_classes"].items():
        there = now.get(name, {"own": {}, "version": 0})
        own = {key: value for key, value in there["own"].items() if value is not None}
        differing = {key: value for key, value in item.items() if own.get(key) != value}
        for key, value in differing.items():
            plan.note("team", team["slug"], f"{name} {key}", own.get(key), value)
        if differing:
            values = {**own, **differing}
            entry = {"team": team["slug"], "job_class": name, "version": there["version"], "values": values}
            plan.narrowings.append(entry)


def _compare_named(
    plan: ApplyPlan, kind: str, wanted: Mapping[str, Json], now: Mapping[str, Json], found: dict[str, Json]
) -> None:
    """Add to `found` what of tiers or classes differs."""
    for slug, item in wanted.items():
        before = now.get(slug)
        differing = {key: value for key, value in item.items() if before is None or before.get(key) != value}
        if before is None:
            plan.note(kind, slug, "", None, "new")
        for key, value in differing.items():
            plan.note(kind, slug, key, None if before is None else before.get(key), value)
        if differing or before is None:
            found[slug] = differing


def _compare_pool(plan: ApplyPlan, pool: Json, now: Json | None) -> None:
    slug = pool["slug"]
    if now is None:
        plan.new_pools.append({"name": slug, **pool})
        plan.note("pool", slug, "", None, "new")
        for key in POOL_KEYS:
            if key in pool and key != "policy":
                plan.note("pool", slug, key, None, pool[key])
        for key, value in (pool.get("policy") or {}).items():
            plan.note("pool", slug, f"policy.{key}", None, value)
        return
    body: Json = {}
    for key in POOL_KEYS:
        if key in pool and key != "policy" and not _is_same(key, pool[key], now[key]):
            body[key] = pool[key]
            plan.note("pool", slug, key, now[key], pool[key])
    policy = pool.get("policy") or {}
    differing = {
        key: value for key, value in policy.items() if not _is_same(key, value, now["policy"].get(key))
    }
    for key, value in differing.items():
        plan.note("pool", slug, f"policy.{key}", now["policy"].get(key), value)
    if differing:
        body["policy"] = differing
    if body:
        plan.pools[slug] = body


def _is_same(key: str, wanted: Any, now: Any) -> bool:
    """Return whether a value is as it is to be; `SETS` in whatever order."""
    if key in SETS and isinstance(wanted, list):
        return set(map(str, wanted)) == set(now or ())
    return bool(wanted == now)


def _compare_team(plan: ApplyPlan, team: Json, now: Json | None) -> None:
    slug = team["slug"]
    if now is None:
        made = {key: value for key, value in team.items() if key not in {"shares", "job_classes"}}
        plan.new_teams.append({"name": slug, **made})
        plan.note("team", slug, "", None, f"new, below {team['parent']}")
        for key in LIMIT_KEYS:
            if key in team:
                plan.note("team", slug, key, None, team[key])
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


def _differing_shares(plan: ApplyPlan, team: Json, now: Mapping[str, Json]) -> dict[str, Json]:
    found = {}
    for pool, share in team["shares"].items():
        before = now.get(pool, NEW_SHARE)
        differing = {key: value for key, value in share.items() if value != before[key]}
        for key, value in differing.items():
            plan.note("team", team["slug"], f"{pool} {key}", before[key], value)
        if differing:
            found[pool] = differing
    return found
