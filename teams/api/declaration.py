"""Pools, teams and PriorityClasses as a file of `chamber apply` declares them: changed together or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from django.db import transaction
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chamber.errors import NotAllowed, Refusal, StaleVersion
from teams import actions
from teams.actions import PoolChanges
from teams.api import shapes
from teams.api.pools import policy_over
from teams.api.requests import actor, milli_keys, person, pool_for, team_for, values_of
from teams.api.rules import typed_rules
from teams.api.teams import edit_of
from teams.capacity import NodesMoved, capacity_milli, moved_nodes, oversubscribed
from teams.models import Pool, Team, TeamPolicy
from teams.picture import Picture, lock_tree


class Declared(APIView):
    """What a file declares, as the changes that make it so."""

    @extend_schema(request=shapes.Declaration, responses=shapes.DeclaredShape)
    def post(self, request: Request) -> Response:
        """Make all changes or none; with `dry_run` make none, and refuse what would be refused.

        In this order: pools, new teams, moves, limits and shares, PriorityClasses. A version is that of the row
        before the request; new rows have none.
        """
        values = values_of(request, shapes.Declaration)
        with transaction.atomic():
            lock_tree()
            pools_before, warned = list(Pool.objects.all()), _warnings([])
            _change(request, values)
            nodes = moved_nodes(pools_before, list(Pool.objects.all()))
            warnings = [text for pool, text in _warnings(nodes).items() if warned.get(pool) != text]
            if values["dry_run"]:
                transaction.set_rollback(True)
        body = {"dry_run": values["dry_run"], "nodes": nodes, "warnings": warnings}
        return Response(shapes.DeclaredShape(body).data)


def _warnings(nodes: list[NodesMoved]) -> dict[Any, str]:
    """Return a sentence by the id of each pool of which more is guaranteed than it has once these nodes have moved."""
    capacity = capacity_milli()
    for move in nodes:
        for pool, milli in ((move.before, -move.capacity_milli), (move.after, move.capacity_milli)):
            if pool is not None:
                capacity[pool.pk] += milli
    return oversubscribed(Picture.load(), capacity)


def _change(request: Request, values: dict[str, Any]) -> None:
    """Do it in the order in which one may need the other."""
    _require_versions(request, values)
    by = actor(request)
    for new in values["new_pools"]:
        with _told_of("pool", new["slug"]):
            actions.create_pool(by=by, values=cast("PoolChanges", new))
    for each in values["pools"]:
        with _told_of("pool", slug := each.pop("pool")):
            pool, version = pool_for(request, slug), each.pop("version")
            changes = policy_over(pool, each)
            actions.edit_pool(by=by, pool=pool, version=version, changes=changes)
    for new in values["new_teams"]:
        with _told_of("team", new.get("slug") or new["name"]):
            above = team_for(request, new.pop("parent"), field="parent")
            actions.create_team(by=by, parent=above, **milli_keys(new, "maximum"))
    for each in values["moves"]:
        with _told_of("team", each["team"]):
            team, parent = team_for(request, each["team"]), team_for(request, each["parent"], field="parent")
            actions.move_team(by=by, team=team, parent=parent)
    if values["edits"]:
        # A team that was moved with the one above it has another version by now.
        edits = [
            edit_of(request, {**each, "version": team_for(request, each["team"]).version})
            for each in values["edits"]
        ]
        actions.set_many(by=by, edits=edits)
    if values["priority_classes"] is not None:
        _set_classes(request, **values["priority_classes"])


def _require_versions(request: Request, values: dict[str, Any]) -> None:
    """Raise `StaleVersion` where somebody changed one of the teams since it was read."""
    new = {team.get("slug") for team in values["new_teams"]}
    for each in [*values["moves"], *values["edits"]]:
        if each["team"] in new:
            continue
        with _told_of("team", each["team"]):
            team = team_for(request, each["team"])
            if team.version != each["version"]:
                raise StaleVersion(
                    f"Somebody changed {team.name} since you read it: you edited version {each['version']}, and it is "
                    f"at {team.version} now. Look again and repeat your change."
                )


def _set_classes(request: Request, *, priorities: dict[str, int], version: int) -> None:
    """Replace the root's table; its other rules stay."""
    root = Team.objects.visible_to(person(request)).filter(depth=0).first()
    if root is None:
        raise NotAllowed("Only who sees the whole organisation may declare priority_classes.")
    stored = TeamPolicy.objects.filter(team=root).first()
    own = stored.typed.model_dump() if stored else {}
    rules = typed_rules({**own, "priority_classes": priorities})
    actions.set_rules(by=actor(request), team=root, version=version, rules=rules)


@contextmanager
def _told_of(kind: str, slug: str) -> Iterator[None]:
    """Name in a refusal what was about to be changed, and put it before its fields."""
    try:
        yield
    except Refusal as refusal:
        refusal.message = f"{kind} {slug}: {refusal.message}"
        refusal.fields = {f"{slug}.{key}": text for key, text in refusal.fields.items()}
        raise
