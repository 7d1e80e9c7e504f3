"""Pools, teams, job classes, tiers and sign-in as a file of `chamber apply` declares them: together or not at all."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, cast
from uuid import UUID

from django.db import transaction
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chamber import invalid
from chamber.bodies import by_place
from chamber.errors import NotAllowed, Refusal, StaleVersion, refusal_of
from chamber.words import placed
from teams import actions
from teams.actions import PoolChanges
from teams.api import declared_shapes as shapes
from teams.api.pools import policy_over
from teams.api.requests import (
    actor,
    milli_keys,
    pool_among,
    pools_for,
    team_among,
    teams_for,
)
from teams.api.teams import edit_of
from teams.capacity import NodesMoved, capacity_milli, moved_nodes, oversubscribed, unserved_text
from teams.models import Pool, Role, Team
from teams.picture import TreePicture, lock_tree
from teams.values import ShareChanges, TeamChanges, share_problems, team_problems

LONGEST_WHAT = 200
"""Characters of what a refusal says that was about to be changed."""


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

        All that is wrong is told at once. The `errors` are by the places of a file that says it:
        `teams.nlp.shares.main.reservation`, `pools.main.policy.queueing`.


        A dry run needs a token of the scope `read` and the right to see what it names; all else needs `manage`, or
        `admin` where it is more than a lead may.
        At most 500 entries in each list, each thing once. In this order: tiers, job classes, pools, new teams, moves,
        limits and shares, what teams narrow of classes, sign-in. Reservations are compared as they are before and after
        all of it. A version is that of the row before the request; new rows have none.
        """
        values, wrong = _readable(request)
        dry_run: bool = values["dry_run"]
        with transaction.atomic():
            lock_tree()
            before = TreePicture.load()
            changes = _Changes(request, before, wrong, dry_run=dry_run)
            changes.make(values)
            changes.require_none_refused()
            nodes, warnings = ([], []) if changes.not_allowed else _consequences(before, changes.after)
            if dry_run:
                transaction.set_rollback(True)
        not_allowed = changes.not_allowed + (
            _left_by_token(request, asks=bool(changes.not_allowed)) if dry_run else []
        )
        body = {"dry_run": dry_run, "nodes": nodes, "warnings": warnings, "not_allowed": not_allowed}
        return Response(shapes.DeclaredShape(body).data)


def _readable(request: Request) -> tuple[dict[str, Any], "_Unreadable"]:
    """Return what of the body can be read, so that all of it is judged in one go, and what cannot.

    Raises a `ValidationError` where it is no declaration at all.
    """
    asked = shapes.Declaration(data=request.data)
    if asked.is_valid():
        return dict(asked.validated_data), _Unreadable({}, request.data)
    if not isinstance(request.data, Mapping):
        raise serializers.ValidationError(asked.errors)
    wrong = _Unreadable(asked.errors, request.data)
    for body in wrong.remainders():
        rest = shapes.Declaration(data=body)
        if rest.is_valid():
            return dict(rest.validated_data), wrong
    raise serializers.ValidationError(asked.errors)


class _Unreadable:
    """What the serializer refused of a body, by the places of the file that says it."""

    def __init__(self, errors: Mapping[str, Any], body: Any) -> None:
        self._errors, self._body = errors, body
        self._entries: dict[str, dict[int, Any]] = {
            key: found
            for key, found in errors.items()
            if key in shapes.Declaration.NAMED_BY
            and isinstance(found, dict)
            and "non_field_errors" not in found
        }
        """What is wrong with entries of lists; a list that is wrong as a whole is left out as a whole."""

    def remainders(self) -> Iterator[dict[str, Any]]:
        """Yield the body without the values that are wrong, and then without the entries that have some."""
        rest = {key: value for key, value in self._body.items() if key not in self._errors}
        yield rest | {key: _without(self._body[key], found) for key, found in self._entries.items()}
        yield rest | {
            key: [entry for index, entry in enumerate(self._body[key]) if index not in found]
            for key, found in self._entries.items()
        }

    def names(self) -> set[str]:
        """Return the pools and teams of which something is wrong: as `pools.main`, `teams.nlp`."""
        found: set[str] = set()
        for key in self._errors.keys() & shapes.Declaration.NAMED_BY.keys():
            entries = self._body[key] if isinstance(self._body[key], list) else []
            wrong = self._entries.get(key, range(len(entries)))
            found |= {_place_of(key, index, entries[index]) for index in wrong}
        return found

    def by_place(self) -> dict[str, str]:
        """Return the sentences: `teams.nlp.shares.main.reservation`, `pools.main.policy.queueing`."""
        told: dict[str, str] = {}
        for key, found in self._errors.items():
            if key not in self._entries:
                told |= by_place(found, key)
                continue
            for index, errors in found.items():
                entry = self._body[key][index]
                place = _place_of(key, index, entry)
                shares = errors.get("shares") if isinstance(errors, dict) else None
                if not isinstance(shares, dict) or not all(isinstance(number, int) for number in shares):
                    told |= by_place(errors, place)
                    continue
                told |= by_place({name: text for name, text in errors.items() if name != "shares"}, place)
                for number, text in shares.items():
                    share = entry["shares"][number]
                    pool = share.get("pool", number) if isinstance(share, Mapping) else number
                    told |= by_place(text, f"{place}.shares.{pool}")
        return told


def _place_of(key: str, index: int, entry: Any) -> str:
    name = entry.get(shapes.Declaration.NAMED_BY[key]) if isinstance(entry, Mapping) else None
    kind = {"new_pools": "pools", "new_teams": "teams", "moves": "teams", "edits": "teams"}.get(key, key)
    return f"{kind}.{name}" if isinstance(name, str) and name else f"{key}[{index}]"


def _without(value: Any, errors: Any) -> Any:
    """Return a value without the parts that are wrong."""
    if isinstance(value, list):
        kept = [
            (part, errors.get(index)) for index, part in enumerate(value) if not _all_wrong(errors.get(index))
        ]
        return [_without(part, found) if found else part for part, found in kept]
    kept_keys = {key: errors.get(key) for key in value if not _all_wrong(errors.get(key))}
    return {key: _without(value[key], found) if found else value[key] for key, found in kept_keys.items()}


def _all_wrong(errors: Any) -> bool:
    return bool(errors) and (not isinstance(errors, dict) or "non_field_errors" in errors)


def _left_by_token(request: Request, *, asks: bool) -> list[str]:
    """Return a sentence about a token that leaves only a part of what its person may, where that matters."""
    # A session has none: it may do all that its person may.
    scope = str(getattr(request.auth, "scope", "admin"))
    if scope in {"read", "submit"}:
        return [f"The token's scope is {scope!r}; this needs 'manage'."]
    return [f"The token's scope is {scope!r}."] if asks and scope != "admin" else []


def _consequences(before: TreePicture, after: TreePicture) -> tuple[list[NodesMoved], list[str]]:
    """Return which nodes change their pool, and a sentence for each pool that promises more than before,
    or that no cluster may serve any more."""
    in_order = [sorted(picture.pools.values(), key=_order) for picture in (before, after)]
    nodes = moved_nodes(*in_order)
    capacity = capacity_milli()
    warned = oversubscribed(before, capacity)
    for move in nodes:
        for pool, milli in ((move.before, -move.capacity_milli), (move.after, move.capacity_milli)):
            if pool is not None:
                capacity[pool.pk] += milli
    found = oversubscribed(after, capacity)
    warnings = [text for pool, text in found.items() if warned.get(pool) != text]
    unserved = {pool.pk for pool in in_order[0] if not pool.clusters}
    return nodes, warnings + [
        unserved_text(pool) for pool in in_order[1] if not pool.clusters and pool.pk not in unserved
    ]


def _order(pool: Pool) -> tuple[int, UUID]:
    return pool.order, pool.pk


class _Changes:
    """The changes of one declaration, with the tree locked.

    `refused` collects what cannot be, so that all of it is told at once, and `not_allowed` what the asker may not
    change, which is no refusal of a dry run. What could only follow from what was left out is not told.
    """

    def __init__(self, request: Request, before: TreePicture, wrong: _Unreadable, *, dry_run: bool) -> None:
        self._request, self._by = request, actor(request)
        self._dry_run = dry_run
        self._before = self.after = before
        self._teams: dict[str, Team] = {}
        self._failed = wrong.names()
        self.not_allowed: list[str] = []
        self.refused = [
            Refusal(placed(place, text), fields={place: text}, code="invalid")
            for place, text in wrong.by_place().items()
        ]

    def make(self, values: dict[str, Any]) -> None:
        """Do it in the order in which one may need the other."""
        self._teams = teams_for(self._request, _named(values))
        self._require_versions(values)
        self._change_classes(values["tiers"], values["job_classes"])
        self._change_pools(values["new_pools"], values["pools"])
        self._make_teams(values["new_teams"])
        moves = self._move(values["moves"])
        edits = self._edit(values["edits"])
        if not self.refused:
            self.after = TreePicture.load()
            with self._told(in_file=_of_teams):
                actions.refuse_misplaced(
                    by=self._by, before=self._before, after=self.after, edits=edits, moves=moves
                )
        self._narrow(values["narrowings"])
        if values["sign_in"] is not None:
            self._set_sign_in(**values["sign_in"])

    def require_none_refused(self) -> None:
        """Raise all that was refused as one: of the kind of the first, with a sentence for each place."""
        if self.not_allowed and not self._dry_run:
            self.refused.insert(0, NotAllowed(invalid.together(self.not_allowed)))
        if not self.refused:
            return
        first = self.refused[0]
        fields: dict[str, str] = {}
        for refusal in self.refused:
            for place, text in refusal.fields.items():
                fields[place] = invalid.together([*filter(None, [fields.get(place)]), text])
        if self.not_allowed and fields:
            fields["not_allowed"] = " ".join(self.not_allowed)
        first.message = invalid.together([refusal.message for refusal in self.refused])
        first.fields = fields
        raise first

    @contextmanager
    def _told(
        self, what: str = "", place: str = "", in_file: Callable[[str], str] | None = None
    ) -> Iterator[None]:
        """Note a refusal, with `what` was about to be changed; its fields are places of the file.

        They are below `place`, or what `in_file` makes of them.
        """
        try:
            yield
        except Refusal as refusal:
            what = what if len(what) <= LONGEST_WHAT else f"{what[:LONGEST_WHAT]}\u2026"
            refusal.message = f"{what}: {refusal.message}" if what else refusal.message
            if isinstance(refusal, NotAllowed):
                self.not_allowed.append(refusal.message)
                return
            if in_file:
                refusal.fields = {in_file(key): text for key, text in refusal.fields.items()}
            elif place:
                found = refusal.fields.items()
                refusal.fields = {f"{place}.{key}": text for key, text in found} or {place: refusal.message}
                self._failed.add(place)
            self.refused.append(refusal)

    def _require_versions(self, values: dict[str, Any]) -> None:
        """Note where somebody changed one of the teams since it was read."""
        new = {team.get("slug") for team in values["new_teams"]}
        versions = {each["team"]: each["version"] for each in [*values["moves"], *values["edits"]]}
        for slug, version in versions.items():
            if slug in new or self._is_missing(slug):
                continue
            with self._told(f"team {slug}", f"teams.{slug}"):
                team = team_among(self._request, self._teams, slug)
                if team.version != version:
                    raise StaleVersion(
                        f"Somebody changed {team.name} since you read it: you edited version {version}, and "
                        f"it is at {team.version} now. Look again and repeat your change."
                    )

    def _change_classes(self, tiers: list[dict[str, Any]], classes: list[dict[str, Any]]) -> None:
        """Make and change tiers, then classes; of whoever may not, the values are checked by themselves."""
        if not tiers and not classes:
            return
        allowed = False
        with self._told("job classes and tiers"):
            actions.require_classes(self._by)
            allowed = True
        for kind, entries in (("tiers", tiers), ("job_classes", classes)):
            for each in entries:
                slug, version = each.pop("slug"), each.pop("version")
                if f"{kind}.{slug}" in self._failed:
                    continue
                noun = "tier" if kind == "tiers" else "job class"
                with self._told(f"{noun} {slug}", f"{kind}.{slug}"):
                    if allowed:
                        actions.declare_class(by=self._by, kind=kind, slug=slug, version=version, values=each)
                    else:
                        actions.require_class_values(kind, slug, each)

    def _change_pools(self, new: list[dict[str, Any]], changed: list[dict[str, Any]]) -> None:
        slugs = [*(each["slug"] for each in new), *(each["pool"] for each in changed)]
        if not slugs:
            return
        pools, allowed = pools_for(self._request), False
        with self._told(f"{'pool' if len(slugs) == 1 else 'pools'} {', '.join(slugs)}"):
            actions.require_pools(self._by)
            allowed = True
        for each in new:
            slug = each["slug"]
            self._failed.add(f"pools.{slug}")
            with self._told(f"pool {slug}", in_file=partial(_of_pool, slug)):
                values = cast("PoolChanges", each)
                if allowed:
                    actions.insert_pool(self._by, values)
                    self._failed.discard(f"pools.{slug}")
                else:
                    actions.require_pool_values(values)
        for each in changed:
            slug, version = each.pop("pool"), each.pop("version")
            if not allowed and slug not in pools:
                continue
            with self._told(f"pool {slug}", in_file=partial(_of_pool, slug)):
                pool = pool_among(pools, slug)
                values = policy_over(pool, each)
                if allowed:
                    actions.change_pool(self._by, pool, version, values)
                else:
                    actions.require_pool_values(values)

    def _make_teams(self, new: list[dict[str, Any]]) -> None:
        asked = [each["slug"] for each in new if each.get("slug")]
        taken = set(Team.objects.filter(slug__in=asked).values_list("slug", flat=True)) if asked else set()
        for index, each in enumerate(new):
            slug = each.get("slug")
            what = f"team {slug}" if slug else f"the new team {each['name']!r}"
            place = f"teams.{slug}" if slug else f"new_teams[{index}]"
            parent = each.pop("parent")
            changes = cast("TeamChanges", milli_keys(each, "maximum"))
            problems = team_problems(changes)
            with self._told(what, place):
                if problems:
                    raise refusal_of(problems)
            if f"teams.{parent}" in self._failed and parent not in self._teams:
                self._failed.add(place)
                continue
            with self._told(what, place):
                above = team_among(self._request, self._teams, parent, field="parent")
                if not problems:
                    team = actions.insert_below(self._by, above, changes, taken=taken)
                    self._teams[team.slug] = team
                    taken.add(team.slug)
                    continue
            self._failed.add(place)

    def _move(self, asked: list[dict[str, Any]]) -> list[tuple[Team, Team]]:
        """Move teams; return those that were allowed, as they were, each with its new parent."""
        moves = []
        for each in asked:
            slug, above = each["team"], each["parent"]
            if any(self._is_missing(name) for name in (slug, above)):
                continue
            with self._told(f"team {slug}", f"teams.{slug}"):
                team = team_among(self._request, self._teams, slug)
                parent = team_among(self._request, self._teams, above, field="parent")
                actions.require_move(self._by, team, parent)
                moves.append((team, parent))
        if moves and not self.not_allowed and not self.refused:
            with self._told(in_file=_of_teams):
                actions.move_many(by=self._by, moves=moves)
            # Paths, depths and versions, also of the teams below those that were moved.
            self._teams = teams_for(self._request, self._teams)
        return moves

    def _is_missing(self, slug: str) -> bool:
        """Return whether a team is not there because something else about it was refused."""
        return slug not in self._teams and f"teams.{slug}" in self._failed

    def _edit(self, asked: list[dict[str, Any]]) -> list[actions.TeamEdit]:
        """Change limits and shares; return what really changed."""
        if not asked:
            return []
        pools, edits = pools_for(self._request), []
        for each in asked:
            slug = each["team"]
            what, place = f"team {slug}", f"teams.{slug}"
            with self._told(what, place):
                _require_values(each)
            if self._is_missing(slug):
                continue
            each["shares"] = [
                share
                for share in each.get("shares", [])
                if share["pool"] in pools or f"pools.{share['pool']}" not in self._failed
            ]
            with self._told(what, in_file=_of_teams):
                # A team that was moved with the one above it has another version by now.
                team = team_among(self._request, self._teams, slug)
                edit = edit_of(self._request, {**each, "version": team.version}, self._teams, pools)
                edits.append(edit)
                actions.require_edit(self._by, team, team.parent, edit.keys())
        saved: list[actions.TeamEdit] = []
        if edits and not self.refused:
            with self._told(in_file=_of_teams):
                if self.not_allowed:
                    actions.require_values(edits, TreePicture.load())
                else:
                    saved = actions.save_edits(by=self._by, edits=edits, before=TreePicture.load())
        return saved

    def _narrow(self, asked: list[dict[str, Any]]) -> None:
        """Replace what teams say of classes."""
        for each in asked:
            team, name = each["team"], each["job_class"]
            if self._is_missing(team):
                continue
            with self._told(f"team {team}", f"teams.{team}.job_classes.{name}"):
                actions.narrow_class(
                    by=self._by,
                    team=team_among(self._request, self._teams, team),
                    slug=name,
                    version=each["version"],
                    values=each["values"],
                )

    def _set_sign_in(
        self, *, groups: list[dict[str, Any]], version: int, second_factor: dict[str, Any] | None = None
    ) -> None:
        """Replace what is asked of whoever signs in, and the roles of these groups of providers."""
        if second_factor is not None:
            with self._told("sign_in", "sign_in.second_factor"):
                actions.require_second_factor(by=self._by, version=version, **second_factor)
        teams = teams_for(self._request, {each["team"] for each in groups})
        places: set[str] = set()
        for each in groups:
            provider, group, slug, role = (each[key] for key in ("provider", "group", "team", "role"))
            place = f"sign_in.groups.{provider}.{group}.{slug}"
            with self._told("sign_in", place):
                if place in places:
                    raise Refusal(f"{group} of {provider} comes twice for {slug}; name it once.")
                places.add(place)
                if role is not None and role not in Role.values:
                    raise Refusal(invalid.not_among("role", role, Role.values))
                actions.set_provider_role(
                    by=self._by,
                    provider=provider,
                    name=group,
                    team=team_among(self._request, teams, slug),
                    role=None if role is None else Role(role),
                )


def _require_values(each: Mapping[str, Any]) -> None:
    """Refuse values of an edit that can be in no team."""
    problems = team_problems(cast("TeamChanges", milli_keys(dict(each), "maximum")))
    for share in each.get("shares", []):
        changes = cast("ShareChanges", milli_keys(share, "reservation", "maximum"))
        problems |= {f"shares.{share['pool']}.{key}": text for key, text in share_problems(changes).items()}
    if problems:
        raise refusal_of(problems)


def _of_pool(slug: str, key: str) -> str:
    """Return where a file says a pool's value that an action calls `key`."""
    return f"pools.{slug}.{key}"


def _of_teams(key: str) -> str:
    """Return where a file says what an action calls `nlp.maximum` or `nlp.main.reservation`."""
    team, *rest = key.split(".")
    return ".".join(["teams", team, *(["shares"] if len(rest) > 1 else []), *rest])


def _named(values: dict[str, Any]) -> set[str]:
    """Return the slugs of teams that a declaration speaks of."""
    told = [*values["new_teams"], *values["moves"], *values["edits"], *values["narrowings"]]
    return {each[key] for each in told for key in ("team", "parent") if key in each}
