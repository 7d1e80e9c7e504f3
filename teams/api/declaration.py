"""Pools, teams and PriorityClasses as a file of `chamber apply` declares them: changed together or not at all."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast
from uuid import UUID

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
from teams.api.requests import (
    actor,
    milli_keys,
    person,
    pool_among,
    pools_for,
    team_among,
    teams_for,
    values_of,
)
from teams.api.rules import typed_rules
from teams.api.teams import edit_of
from teams.capacity import NodesMoved, capacity_milli, moved_nodes, oversubscribed
from teams.models import Pool, Team, TeamPolicy
from teams.picture import Picture, lock_tree
from teams.values import TeamChanges


class Declared(APIView):
    """What a file declares, as the changes that make it so."""

    @property
    def token_scope(self) -> str:
        """The scope that a token needs: a dry run changes nothing, so it is a read.

        Only the JSON `true` counts here. Whatever else the body may mean by `dry_run` needs `manage`.
        """
        body = self.request.data
        dry_run = isinstance(body, Mapping) and body.get("dry_run") is True
        return "read" if dry_run else "manage"

    @extend_schema(request=shapes.Declaration, responses=shapes.DeclaredShape)
    def post(self, request: Request) -> Response:
        """Make all changes or none; with `dry_run` make none, refuse what would be refused, say what is not allowed.

        A dry run needs a token of the scope `read` and the right to see what it names; all else needs `manage`.
        At most 500 entries in each list, each thing once. In this order: pools, new teams, moves, limits and shares,
        PriorityClasses. Reservations are compared as they are before and after all of it. A version is that of the
        row before the request; new rows have none.
        """
        values = values_of(request, shapes.Declaration)
        dry_run: bool = values["dry_run"]
        with transaction.atomic():
            lock_tree()
            before = Picture.load()
            changes = _Changes(request, before, dry_run=dry_run)
            changes.make(values)
            nodes, warnings = ([], []) if changes.not_allowed else _consequences(before, changes.after)
            if dry_run:
                transaction.set_rollback(True)
        not_allowed = [*changes.not_allowed, *(_token_too_small(request) if dry_run else [])]
        body = {"dry_run": dry_run, "nodes": nodes, "warnings": warnings, "not_allowed": not_allowed}
        return Response(shapes.DeclaredShape(body).data)


def _token_too_small(request: Request) -> list[str]:
    # A session has none: it may do all that its person may.
    scope = getattr(request.auth, "scope", "manage")
    return [] if scope == "manage" else [f"The token's scope is {scope!r}; this needs 'manage'."]


def _consequences(before: Picture, after: Picture) -> tuple[list[NodesMoved], list[str]]:
    """Return which nodes change their pool, and a sentence for each pool that promises more than before."""
    in_order = [sorted(picture.pools.values(), key=_order) for picture in (before, after)]
    nodes = moved_nodes(*in_order)
    capacity = capacity_milli()
    warned = oversubscribed(before, capacity)
    for move in nodes:
        for pool, milli in ((move.before, -move.capacity_milli), (move.after, move.capacity_milli)):
            if pool is not None:
                capacity[pool.pk] += milli
    found = oversubscribed(after, capacity)
    return nodes, [text for pool, text in found.items() if warned.get(pool) != text]


def _order(pool: Pool) -> tuple[int, UUID]:
    return pool.order, pool.pk


class _Changes:
    """The changes of one declaration, with the tree locked.

    In a dry run `not_allowed` collects what the asker may not change. What is refused after that may only follow from
    what was left out, and is not told.
    """

    def __init__(self, request: Request, before: Picture, *, dry_run: bool) -> None:
        self._request, self._by = request, actor(request)
        self._dry_run = dry_run
        self._before = self.after = before
        self._teams: dict[str, Team] = {}
        self.not_allowed: list[str] = []

    def make(self, values: dict[str, Any]) -> None:
        """Do it in the order in which one may need the other."""
        self._teams = teams_for(self._request, _named(values))
        self._require_versions(values)
        self._change_pools(values["new_pools"], values["pools"])
        self._make_teams(values["new_teams"])
        moves = self._move(values["moves"])
        edits = self._edit(values["edits"])
        self.after = Picture.load()
        with self._told():
            actions.refuse_misplaced(
                by=self._by, before=self._before, after=self.after, edits=edits, moves=moves
            )
        if values["priority_classes"] is not None:
            with self._told():
                self._set_classes(**values["priority_classes"])

    @contextmanager
    def _told(self, what: str = "", place: str = "") -> Iterator[None]:
        """Name in a refusal `what` was about to be changed, and put its `place` before its fields."""
        try:
            yield
        except Refusal as refusal:
            refusal.message = f"{what}: {refusal.message}" if what else refusal.message
            if place:
                refusal.fields = {f"{place}.{key}": text for key, text in refusal.fields.items()}
            if self._dry_run and isinstance(refusal, NotAllowed):
                self.not_allowed.append(refusal.message)
            elif not self.not_allowed:
                raise

    def _require_versions(self, values: dict[str, Any]) -> None:
        """Raise `StaleVersion` where somebody changed one of the teams since it was read."""
        new = {team.get("slug") for team in values["new_teams"]}
        for each in [*values["moves"], *values["edits"]]:
            slug = each["team"]
            if slug in new:
                continue
            with self._told(f"team {slug}", slug):
                team = team_among(self._teams, slug)
                if team.version != each["version"]:
                    raise StaleVersion(
                        f"Somebody changed {team.name} since you read it: you edited version {each['version']}, and "
                        f"it is at {team.version} now. Look again and repeat your change."
                    )

    def _change_pools(self, new: list[dict[str, Any]], changed: list[dict[str, Any]]) -> None:
        slugs = [*(each["slug"] for each in new), *(each["pool"] for each in changed)]
        if not slugs:
            return
        pools, allowed = pools_for(self._request), False
        with self._told(f"{'pool' if len(slugs) == 1 else 'pools'} {', '.join(slugs)}"):
            actions.require_pools(self._by)
            allowed = True
        if not allowed:
            return
        for each in new:
            with self._told(f"pool {each['slug']}", each["slug"]):
                actions.insert_pool(self._by, cast("PoolChanges", each))
        for each in changed:
            with self._told(f"pool {each['pool']}", slug := each.pop("pool")):
                pool, version = pool_among(pools, slug), each.pop("version")
                actions.change_pool(self._by, pool, version, policy_over(pool, each))

    def _make_teams(self, new: list[dict[str, Any]]) -> None:
        asked = [each["slug"] for each in new if each.get("slug")]
        taken = set(Team.objects.filter(slug__in=asked).values_list("slug", flat=True)) if asked else set()
        for index, each in enumerate(new):
            slug = each.get("slug")
            what = f"team {slug}" if slug else f"the new team {each['name']!r}"
            with self._told(what, slug or f"new_teams[{index}]"):
                above = team_among(self._teams, each.pop("parent"), field="parent")
                values = {**each, "name": each["name"].strip()}
                changes = cast("TeamChanges", milli_keys(values, "maximum"))
                team = actions.insert_below(self._by, above, changes, taken=taken)
                self._teams[team.slug] = team
                taken.add(team.slug)

    def _move(self, asked: list[dict[str, Any]]) -> list[tuple[Team, Team]]:
        """Move teams; return those that were allowed, as they were, each with its new parent."""
        moves = []
        for each in asked:
            with self._told(f"team {each['team']}", each["team"]):
                team = team_among(self._teams, each["team"])
                parent = team_among(self._teams, each["parent"], field="parent")
                actions.require_move(self._by, team, parent)
                moves.append((team, parent))
        if moves and not self.not_allowed:
            actions.move_many(by=self._by, moves=moves)
            # Paths, depths and versions, also of the teams below those that were moved.
            self._teams = teams_for(self._request, self._teams)
        return moves

    def _edit(self, asked: list[dict[str, Any]]) -> list[actions.TeamEdit]:
        """Change limits and shares; return what really changed."""
        if not asked:
            return []
        pools, edits = pools_for(self._request), []
        for each in asked:
            with self._told(f"team {each['team']}"):
                # A team that was moved with the one above it has another version by now.
                team = team_among(self._teams, each["team"])
                edit = edit_of({**each, "version": team.version}, self._teams, pools)
                actions.require_edit(self._by, team, team.parent, edit.keys())
                edits.append(edit)
        saved: list[actions.TeamEdit] = []
        if not self.not_allowed:
            with self._told():
                saved = actions.save_edits(by=self._by, edits=edits, before=Picture.load())
        return saved

    def _set_classes(self, *, priorities: dict[str, int], version: int) -> None:
        """Replace the root's table; its other rules stay."""
        root = Team.objects.visible_to(person(self._request)).filter(depth=0).first()
        if root is None:
            raise NotAllowed("Only who sees the whole organisation may declare priority_classes.")
        stored = TeamPolicy.objects.filter(team=root).first()
        own = stored.typed.model_dump() if stored else {}
        rules = typed_rules({**own, "priority_classes": priorities})
        actions.set_rules(by=self._by, team=root, version=version, rules=rules)


def _named(values: dict[str, Any]) -> set[str]:
    """Return the slugs of teams that a declaration speaks of."""
    told = [*values["new_teams"], *values["moves"], *values["edits"]]
    return {each[key] for each in told for key in ("team", "parent") if key in each}
