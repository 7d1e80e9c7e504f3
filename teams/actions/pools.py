"""Capacity pools: creating them, and changing their policy, order, selector and pause."""

import re
from collections.abc import Collection, Mapping
from typing import Any, TypedDict, cast

from django.apps import apps
from django.db import transaction
from django.db.models import F, Max
from pydantic import ValidationError

from chamber import invalid, live
from chamber.errors import NotAllowed, Refusal, StaleVersion, refusal_of
from chamber.words import as_name, nearest, unfit_for_name
from teams import audit
from teams.actors import Actor
from teams.models import CLUSTER_LABEL, JobClass, Pool, PoolPolicy, Team
from teams.permissions import Permission, may
from teams.picture import lock_tree
from teams.values import MAX_NAME, slug_problem

MAX_ORDER = 10_000
MAX_CLUSTERS = 1000
NODE_LEVEL = "node"
CLUSTER_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,58}[a-z0-9])?", re.ASCII)


class PoolChanges(TypedDict, total=False):
    """What may be changed of a pool; absent keys stay as they are. `policy` replaces the stored one."""

    name: str
    slug: str
    order: int
    node_selector: dict[str, str]
    clusters: list[str]
    topology: list[str]
    policy: dict[str, Any]
    paused: bool


def create_pool(*, by: Actor, values: PoolChanges) -> Pool:
    """Return a new pool; `name` and `slug` are needed, the rest has defaults.

    Without an order it picks its nodes last, so that it takes none from the pools that there are. Without `clusters` it
    may be served by the one that its selector names; else, if it is the first pool, by all that there are.
    """
    with transaction.atomic():
        lock_tree()
        require_pools(by)
        return insert_pool(by, values)


def insert_pool(by: Actor, values: PoolChanges) -> Pool:
    """Return a new pool; the caller has locked the tree and asked whether the actor may."""
    last = Pool.objects.aggregate(last=Max("order"))["last"]
    order = 0 if last is None else min(last + 1, MAX_ORDER)
    named = values.get("node_selector", {}).get(CLUSTER_LABEL)
    clusters = [named] if named else cluster_names() if last is None else []
    values = _checked({"name": "", "slug": "", "order": order, "clusters": clusters, **values}, None)
    pool = Pool.objects.create(**values)
    audit.record(by=by, action="pool.created", target=pool, after=described(pool))
    _tell(pool)
    return pool


def edit_pool(*, by: Actor, pool: Pool, version: int, changes: PoolChanges) -> Pool:
    """Change a pool; return it as it is then. The next cycle works by it."""
    with transaction.atomic():
        lock_tree()
        require_pools(by)
        return change_pool(by, Pool.objects.get(pk=pool.pk), version, changes)


def change_pool(by: Actor, stored: Pool, version: int, changes: PoolChanges) -> Pool:
    """Change a pool, given as it is stored; the caller has locked the tree and asked whether the actor may."""
    new = _differing(stored, version, changes)
    if not new:
        return stored
    row = Pool.objects.filter(pk=stored.pk, version=version)
    if not row.update(**new, version=F("version") + 1):
        raise _stale(stored)
    changed = Pool.objects.get(pk=stored.pk)
    before, after = described(stored), described(changed)
    audit.record(by=by, action="pool.edited", target=changed, before=before, after=after)
    _tell(changed)
    return changed


def bind_cluster(
    *, by: Actor, cluster: str, bind: Collection[Pool] = (), unbind: Collection[Pool] = ()
) -> None:
    """Have a cluster, by its name, serve some pools and no longer serve others."""
    with transaction.atomic():
        lock_tree()
        require_pools(by)
        wanted = dict.fromkeys([pool.pk for pool in unbind], False) | dict.fromkeys(
            [pool.pk for pool in bind], True
        )
        for pool in Pool.objects.filter(pk__in=wanted):
            if (cluster in pool.clusters) != wanted[pool.pk]:
                others = set(pool.clusters) - {cluster}
                clusters = sorted(others | {cluster} if wanted[pool.pk] else others)
                change_pool(by, pool, pool.version, {"clusters": clusters})


def cluster_names() -> list[str]:
    """Return the names of all clusters. They belong to a higher room, so that their table is asked for by its name."""
    clusters = apps.get_model("agentlink", "Cluster")._default_manager
    return list(clusters.order_by("name").values_list("name", flat=True))


def review_pool(*, by: Actor, pool: Pool, version: int, changes: PoolChanges) -> PoolChanges:
    """Return what would change of a pool, without the values that are stored already; nothing is written or locked.

    Raises what `edit_pool` would refuse it with.
    """
    require_pools(by)
    return _differing(Pool.objects.get(pk=pool.pk), version, changes)


def _differing(stored: Pool, version: int, changes: PoolChanges) -> PoolChanges:
    """Return what differs from the stored pool; raise where any of it may not be."""
    if stored.version != version:
        raise _stale(stored)
    held = {**vars(stored), "policy": stored.rules.model_dump(mode="json")}
    new = {key: value for key, value in _checked(changes, stored).items() if held[key] != value}
    return cast("PoolChanges", new)


def require_pools(by: Actor) -> None:
    """Raise `NotAllowed` for whoever may not change pools."""
    root = Team.objects.filter(depth=0).first()
    if root is None:
        raise Refusal("There is no organisation yet; set it up first.")
    if by.user is not None and not may(by.user, Permission.MANAGE_POOLS, root):
        raise NotAllowed("Your role does not let you change pools.")


def _checked(changes: PoolChanges, stored: Pool | None) -> PoolChanges:
    """Return the changes with the policy complete and typed; refuse all wrong values at once."""
    values = changes.copy()
    if "name" in values:
        values["name"] = as_name(values["name"])
        if stored is not None and values["name"] == as_name(stored.name):
            del values["name"]  # one of before the rule may stay
    problems = _problems(values)
    if unfit := unfit_for_name(values.get("name", "")):
        problems.setdefault("name", unfit)
    if wrong := _unknown_classes(values.get("policy", {}).get("peak_classes", []), stored):
        problems.setdefault("policy.peak_classes", wrong)
    if slug := values.get("slug"):
        taken = Pool.objects.filter(slug=slug).exclude(slug=stored.slug if stored else "").exists()
        if taken:
            problems.setdefault("slug", f"The short name {slug!r} is taken by another pool.")
    if problems:
        raise refusal_of(problems)
    if "policy" in values:
        values["policy"] = PoolPolicy.model_validate(values["policy"]).model_dump(mode="json")
    if "clusters" in values:
        values["clusters"] = sorted(values["clusters"])
    return values


def _unknown_classes(named: list[str], stored: Pool | None) -> str:
    """Return a sentence about the first job class that is none; those that a pool names already may stay."""
    known = {*JobClass.objects.values_list("slug", flat=True)} if named else set()
    kept = set(stored.rules.peak_classes) if stored is not None else set()
    unknown = next((name for name in named if name not in known | kept), None)
    if unknown is None:
        return ""
    there = ", ".join(sorted(known)) or "none"
    return f"There is no job class {unknown!r}.{nearest(unknown, known) or f' There are: {there}.'}"


def require_pool_values(changes: PoolChanges) -> None:
    """Refuse values that can be in no pool; nothing stored is looked at."""
    if problems := _problems(changes):
        raise refusal_of(problems)


def _problems(values: PoolChanges) -> dict[str, str]:
    found: dict[str, str] = {}
    if "name" in values and not 1 <= len(values["name"].strip()) <= MAX_NAME:
        found["name"] = f"A name has 1 to {MAX_NAME} characters, not {len(values['name'].strip())}."
    if "slug" in values and (problem := slug_problem(values["slug"])):
        found["slug"] = problem
    if not 0 <= values.get("order", 0) <= MAX_ORDER:
        found["order"] = f"An order is from 0 to {MAX_ORDER:,}, not {values['order']}."
    found |= _labels_problem(values.get("node_selector", {}), values.get("topology", []))
    found |= _clusters_problem(values.get("clusters", []))
    if "policy" in values:
        try:
            PoolPolicy.model_validate(values["policy"])
        except ValidationError as error:
            found |= {f"policy.{key}": text for key, text in policy_problems(error).items()}
    return found


def _labels_problem(selector: Mapping[str, str], topology: list[str]) -> dict[str, str]:
    found = {}
    if any(not isinstance(part, str) or not part for pair in selector.items() for part in pair):
        found["node_selector"] = (
            f"A selector is a list of labels, each with a name and a value; {invalid.shown(dict(selector))} is not."
        )
    if len(set(topology)) < len(topology) or not all(topology):
        found["topology"] = (
            "The levels of a topology are different label names, outermost first; "
            f"{invalid.shown(list(topology))} are not."
        )
    elif NODE_LEVEL in topology:
        found["topology"] = f'"{NODE_LEVEL}" is always the innermost level and not listed.'
    return found


def _clusters_problem(clusters: list[str]) -> dict[str, str]:
    wrong = [name for name in clusters if not CLUSTER_NAME.fullmatch(name)]
    if wrong:
        text = f"{wrong[0]!r} is no name of a cluster: those have up to 60 small letters, digits and hyphens."
    elif len(set(clusters)) < len(clusters):
        text = f"Name each cluster once; {invalid.shown(clusters)} does not."
    elif len(clusters) > MAX_CLUSTERS:
        text = f"A pool names at most {MAX_CLUSTERS:,} clusters, not {len(clusters):,}."
    else:
        return {}
    return {"clusters": text}


def policy_problems(error: ValidationError) -> dict[str, str]:
    """Return a sentence for each key of a policy that cannot be, with the value and what is allowed."""
    found = invalid.sentences(error)
    for key in found.keys() - PoolPolicy.model_fields.keys():
        found[key] = f"A policy has no {key!r}; it has {', '.join(PoolPolicy.model_fields)}."
    return found


def described(pool: Pool) -> dict[str, Any]:
    """Return what the audit trail has of a pool."""
    keys = ("name", "slug", "order", "node_selector", "clusters", "topology", "paused")
    policy = pool.rules.model_dump(mode="json")
    return {key: getattr(pool, key) for key in keys} | {
        f"policy.{key}": value for key, value in policy.items()
    }


def _stale(pool: Pool) -> StaleVersion:
    return StaleVersion(f"Somebody changed {pool.name} since you read it. Look again and repeat your change.")


def _tell(pool: Pool) -> None:
    live.announce("pools", "teams", f"queue:{pool.slug}")
    live.ring()
