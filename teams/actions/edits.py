"""Editing teams and their shares in place: one, or many as one audited change, all or nothing."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast
from uuid import UUID

from django.db import transaction
from django.db.models import F

from chamber import live
from chamber.errors import Conflict, Refusal, StaleVersion, refusal_of
from chamber.words import as_name, unfit_for_name
from teams import audit
from teams.actions.authority import bounded_at, refuse_raised, require_edit
from teams.actors import Actor
from teams.models import Pool, Share, Team
from teams.picture import TreePicture, envelopes_exceeded, lock_teams
from teams.tree import maximum_of
from teams.values import ShareChanges, TeamChanges, gpus, share_problems, team_problems

MAX_EDITS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareEdit:
    """A change of a team's share of a pool. `version` is the share's; 0 where there was no row."""

    pool: Pool
    version: int
    changes: ShareChanges


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamEdit:
    """A change of a team and its shares; `version` is the team's, looked at where `changes` has any."""

    team: Team
    version: int
    changes: TeamChanges = field(default_factory=TeamChanges)
    shares: tuple[ShareEdit, ...] = ()

    def keys(self) -> set[str]:
        """Return the names of everything it sets."""
        return {*self.changes, *(key for share in self.shares for key in share.changes)}


def edit_team(*, by: Actor, team: Team, version: int, changes: TeamChanges) -> Team:
    """Change a team's name, slug, bursting priority or limits; return it as it is then."""
    edit = TeamEdit(team=team, version=version, changes=changes)
    with _fields_by_last_word():
        set_many(by=by, edits=[edit], action="team.edited")
    return Team.objects.get(pk=team.pk)


def set_share(*, by: Actor, team: Team, pool: Pool, version: int, changes: ShareChanges) -> Share:
    """Change what a team is guaranteed of a pool, or at most may hold of it; return the share."""
    share = ShareEdit(pool=pool, version=version, changes=changes)
    edit = TeamEdit(team=team, version=team.version, shares=(share,))
    with _fields_by_last_word():
        set_many(by=by, edits=[edit], action="team.share-changed")
    return Share.objects.filter(team=team, pool=pool).first() or Share(team=team, pool=pool, version=0)


def set_many(*, by: Actor, edits: Sequence[TeamEdit], action: str = "teams.edited") -> None:
    """Save a draft: every edit, or none of them where one is refused. Writes one audit row.

    The fields of a refusal are `<team slug>.<field>` and `<team slug>.<pool slug>.<field>`. Raises
    `StaleVersion` where somebody else was quicker with any of the rows.
    """
    with transaction.atomic():
        before = TreePicture.locked()
        changes = _checked(by, edits, before)
        _refuse_misplaced(by, changes, before)
        _save(by, changes, before, action)


def save_edits(*, by: Actor, edits: Sequence[TeamEdit], before: TreePicture) -> list[TeamEdit]:
    """Save edits as `set_many` does, but for what `refuse_misplaced` refuses; return what really changed.

    The caller has locked the tree, read `before` since, and compares the whole of what it changes in the end.
    """
    changes = _checked(by, edits, before)
    _save(by, changes, before, "teams.edited")
    return [change.edit for change in changes]


def _save(by: Actor, changes: "Sequence[_Change]", before: TreePicture, action: str) -> None:
    if not changes:
        return
    lock_teams(Team.objects.filter(pk__in=[change.team.pk for change in changes if "slug" in change.fields]))
    for change in changes:
        change.write()
    _record(by, changes, before, action)
    live.announce("teams", "pools")
    live.ring()


def review_many(*, by: Actor, edits: Sequence[TeamEdit]) -> list[TeamEdit]:
    """Return what a draft would change, without the values that are stored already; nothing is written or locked.

    Raises what `set_many` would refuse the draft with.
    """
    before = TreePicture.load()
    changes = _checked(by, edits, before)
    _refuse_misplaced(by, changes, before)
    return [change.edit for change in changes]


def _checked(by: Actor, edits: Sequence[TeamEdit], before: TreePicture) -> "list[_Change]":
    """Return what really changes; raise where any of it may not be."""
    if len(edits) > MAX_EDITS:
        raise Refusal(f"A draft has at most {MAX_EDITS} edits, not {len(edits)}.")
    if len({edit.team.pk for edit in edits}) < len(edits):
        raise Refusal("A draft names each team once.")
    for edit in edits:
        if len({share.pool.pk for share in edit.shares}) < len(edit.shares):
            raise Refusal(
                f"A draft names each pool of {edit.team.name} once.", field=f"{edit.team.slug}.shares"
            )
    stored = Team.objects.select_related("parent").in_bulk([edit.team.pk for edit in edits])
    for edit in edits:
        require_edit(by, stored[edit.team.pk], stored[edit.team.pk].parent, edit.keys())
    return _valid(edits, stored, before)


def require_values(edits: Sequence[TeamEdit], before: TreePicture) -> None:
    """Raise where a value of these edits could not be saved by anybody; whether the actor may is not asked.

    The names of other teams are not looked at, and neither are the guarantees of the teams above and below: who only
    reads may not see them.
    """
    stored = Team.objects.select_related("parent").in_bulk([edit.team.pk for edit in edits])
    unnamed = [
        replace(
            edit,
            changes=cast("TeamChanges", {key: value for key, value in edit.changes.items() if key != "slug"}),
        )
        for edit in edits
    ]
    _valid(unnamed, stored, before)


def _valid(edits: Sequence[TeamEdit], stored: Mapping[UUID, Team], before: TreePicture) -> "list[_Change]":
    every = [_Change.of(edit, stored[edit.team.pk], before) for edit in edits]
    changes = [change for change in every if change.fields or change.shares]
    if changes:
        _check_values(changes)
        _refuse_above_maximum(changes, _after(changes, before))
    return changes


@contextmanager
def _fields_by_last_word() -> Iterator[None]:
    try:
        yield
    except Refusal as refusal:
        refusal.fields = {key.rpartition(".")[2]: text for key, text in refusal.fields.items()}
        raise


@dataclass(frozen=True, slots=True)
class _Change:
    """What an edit really changes of the stored rows."""

    team: Team
    fields: TeamChanges
    shares: tuple[ShareEdit, ...]

    @classmethod
    def of(cls, edit: TeamEdit, team: Team, before: TreePicture) -> "_Change":
        """Return what differs; raise `StaleVersion` where the edit was made on older rows."""
        if team.is_archived:
            raise Conflict(f"{team.name} is archived. Restore it before you change it.")
        if edit.changes:
            _require_version(team.name, edit.version, team.version)
        asked = edit.changes.copy()
        if "name" in asked:
            name = as_name(asked["name"])
            asked["name"] = (
                team.name if name == as_name(team.name) else name
            )  # one of before the rule may stay
        fields = {key: value for key, value in asked.items() if getattr(team, key) != value}
        shares = []
        for share in edit.shares:
            quota = before.quota(share.pool.pk, team.pk)
            _require_version(f"{team.name}'s share of {share.pool.name}", share.version, quota.version)
            new = {key: value for key, value in share.changes.items() if getattr(quota, key) != value}
            if new:
                shares.append(replace(share, changes=cast("ShareChanges", new)))
        return cls(team, cast("TeamChanges", fields), tuple(shares))

    @property
    def edit(self) -> TeamEdit:
        """Return it as an edit of the stored team."""
        return TeamEdit(team=self.team, version=self.team.version, changes=self.fields, shares=self.shares)

    def write(self) -> None:
        """Save it by filtered updates, so that nobody's edit is lost even without the lock of the tree."""
        if self.fields:
            row = Team.objects.filter(pk=self.team.pk, version=self.team.version)
            if not row.update(**self.fields, version=F("version") + 1):
                raise _stale(self.team.name)
        for share in self.shares:
            if share.version == 0:
                Share.objects.create(team=self.team, pool=share.pool, **share.changes)
                continue
            held = Share.objects.filter(team=self.team, pool=share.pool, version=share.version)
            if not held.update(**share.changes, version=F("version") + 1):
                raise _stale(f"{self.team.name}'s share of {share.pool.name}")


def _require_version(what: str, given: int, stored: int) -> None:
    if given != stored:
        raise _stale(what, f": you edited version {given}, and it is at {stored} now")


def _stale(what: str, numbers: str = "") -> StaleVersion:
    return StaleVersion(
        f"Somebody changed {what} since you read it{numbers}. Look again and repeat your change."
    )


def _check_values(changes: Sequence[_Change]) -> None:
    """Refuse values that cannot be, all at once."""
    problems: dict[str, str] = {}
    wanted = [change.fields["slug"] for change in changes if "slug" in change.fields]
    slugs = set(Team.objects.filter(slug__in=wanted).values_list("slug", flat=True)) if wanted else set()
    for change in changes:
        slug = change.team.slug
        problems |= {f"{slug}.{key}": text for key, text in team_problems(change.fields).items()}
        if unfit := unfit_for_name(change.fields.get("name", "")):
            problems.setdefault(f"{slug}.name", unfit)
        if new := change.fields.get("slug"):
            if new in slugs:
                problems.setdefault(f"{slug}.slug", f"The short name {new!r} is taken by another team.")
            slugs.add(new)
        for share in change.shares:
            place = f"{slug}.{share.pool.slug}"
            problems |= {f"{place}.{key}": text for key, text in share_problems(share.changes).items()}
    if problems:
        raise refusal_of(problems)


def _after(changes: Sequence[_Change], before: TreePicture) -> TreePicture:
    for change in changes:
        before = before.with_team(change.team.pk, change.fields)
        for share in change.shares:
            before = before.with_share(share.pool.pk, change.team.pk, share.changes)
    return before


def _refuse_misplaced(by: Actor, changes: Sequence[_Change], before: TreePicture) -> None:
    edits = [change.edit for change in changes]
    refuse_misplaced(by=by, before=before, after=_after(changes, before), edits=edits)


def refuse_misplaced(
    *,
    by: Actor,
    before: TreePicture,
    after: TreePicture,
    edits: Sequence[TeamEdit] = (),
    moves: Sequence[tuple[Team, Team]] = (),
) -> None:
    """Refuse numbers that do not fit the teams above and below, and guarantees that the actor may not raise.

    Only the whole of the edits and moves counts, by the pictures before and after them. `moves` are teams as they
    were, each with its new parent.
    """
    if not edits and not moves:
        return
    problems: dict[str, str] = {}
    for excess in envelopes_exceeded(before, after):
        # The first of each pool: the others may only follow from it.
        problems.setdefault(_blamed(edits, moves, excess.pool_id), excess.sentence)
    if problems:
        raise refusal_of(problems, code="envelope-exceeded")
    places = [(edit.team, edit.team.parent) for edit in edits if edit.shares]
    places += [(team, place) for team, parent in moves for place in (team.parent, parent)]
    if bounds := bounded_at(by, places):
        refuse_raised(before, after, bounds, _blamed(edits, moves, None))


def _refuse_above_maximum(changes: Sequence[_Change], after: TreePicture) -> None:
    problems: dict[str, str] = {}
    for change in changes:
        node = after.nodes[change.team.pk]
        shared = {share.pool.pk for share in change.shares}
        for pool_id in after.pools if "maximum_milli" in change.fields else shared:
            pool, quota = after.pools[pool_id], after.quota(pool_id, node.id)
            maximum = maximum_of(node, quota)
            if maximum is not None and quota.reservation_milli > maximum:
                sentence = (
                    f"{node.name}'s reservation of {gpus(quota.reservation_milli)} in {pool.name} "
                    f"is above its maximum of {gpus(maximum)}."
                )
                key = f"{pool.slug}.reservation" if pool_id in shared else "maximum"
                problems.setdefault(f"{change.team.slug}.{key}", sentence)
    if problems:
        raise refusal_of(problems)


def _blamed(edits: Sequence[TeamEdit], moves: Sequence[tuple[Team, Team]], pool_id: Any) -> str:
    """Return the field of the last reservation of the draft, in the pool where one is named, else of the last move."""
    for edit in reversed(edits):
        for share in edit.shares:
            if pool_id in {None, share.pool.pk}:
                return f"{edit.team.slug}.{share.pool.slug}.reservation"
    return f"{moves[-1][0].slug}.parent" if moves else f"{edits[-1].team.slug}.reservation"


def _record(by: Actor, changes: Sequence[_Change], before: TreePicture, action: str) -> None:
    """Write one audit row: of the team, or of the organisation with a part for each team."""
    old, new = {}, {}
    for change in changes:
        past: dict[str, Any] = {key: getattr(change.team, key) for key in change.fields}
        future: dict[str, Any] = dict(change.fields)
        for share in change.shares:
            quota = before.quota(share.pool.pk, change.team.pk)
            past[share.pool.slug] = {key: getattr(quota, key) for key in share.changes}
            future[share.pool.slug] = dict(share.changes)
        old[change.team.slug], new[change.team.slug] = past, future
    if len(changes) == 1:
        [change] = changes
        slug = change.team.slug
        audit.record(by=by, action=action, target=change.team, before=old[slug], after=new[slug])
        return
    common = _common_team(changes)
    audit.record(by=by, action=action, target=common, before=old, after=new)


def _common_team(changes: Sequence[_Change]) -> Team:
    """Return the lowest team that all changed teams lie in."""
    ways = [change.team.ancestor_ids() for change in changes]
    shared = [ids[0] for ids in zip(*ways, strict=False) if len(set(ids)) == 1]
    return Team.objects.get(pk=shared[-1])
