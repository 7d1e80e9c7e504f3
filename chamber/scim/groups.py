"""Groups that an identity provider keeps here, and what becomes of them: the groups of ours that give roles."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from uuid import UUID

from chamber.errors import Conflict, Refusal
from chamber.models import ProvisionedGroup, ProvisionedPerson, User
from chamber.oidc.providers import Provider, providers
from chamber.scim.reading import groups_told
from teams import actions
from teams.models import ProviderGroup


def put(provider: Provider, group: ProvisionedGroup, member_ids: Sequence[str]) -> ProvisionedGroup:
    """Store a group, new or changed, with just these people; called in a transaction that holds the tree."""
    if not group.name:
        raise Refusal("displayName is missing.")
    if ProvisionedGroup.objects.filter(provider=provider.id, name=group.name).exclude(pk=group.pk).exists():
        raise Conflict(f"This provider keeps a group {group.name!r} here already.")
    rows = _people(provider, member_ids)
    is_new = group._state.adding
    before = set() if is_new else set(group.people.values_list("pk", flat=True))
    was = "" if is_new else ProvisionedGroup.objects.values_list("name", flat=True).get(pk=group.pk)
    group.save()
    group.people.set(rows)
    now = {row.pk for row in rows}
    _settle_people(provider, before ^ now if was == group.name else before | now)
    return group


def remove(provider: Provider, group: ProvisionedGroup) -> None:
    """Delete a group; what it gave is taken away."""
    ids = set(group.people.values_list("pk", flat=True))
    group.delete()
    _settle_people(provider, ids)


def settle(provider: Provider, users: Iterable[User]) -> None:
    """Have people be in those of our groups that the provider says, as far as it keeps them here or did."""
    for user in users:
        names = groups_told(provider, user) or set()
        actions.set_provider_groups(provider=provider.id, user=user, names=names)


def fill() -> int:
    """Put people into groups that were given a role since; return how many. Nobody is taken out."""
    filled = 0
    for provider in providers():
        if provider.provisions:
            missing = _missing(provider)
            filled += len(missing)
            settle(provider, missing)
    return filled


def _missing(provider: Provider) -> list[User]:
    """Return who is not in a group that gives a role, and should be (three queries)."""
    groups = {row.name: row.pk for row in ProviderGroup.objects.filter(provider=provider.id)}
    wanted: dict[int, set[UUID]] = defaultdict(set)
    told = ProvisionedGroup.objects.filter(provider=provider.id, name__in=groups, people__is_deleted=False)
    for name, user_id in told.values_list("name", "people__user"):
        wanted[groups[name]].add(user_id)
    now = User.groups.through.objects.filter(group__in=wanted).values_list("group_id", "user_id")
    for group_id, user_id in now:
        wanted[group_id].discard(user_id)
    return list(User.objects.filter(pk__in=set().union(*wanted.values())))


def _settle_people(provider: Provider, ids: Iterable[UUID]) -> None:
    rows = ProvisionedPerson.objects.select_related("user").filter(pk__in=set(ids))
    settle(provider, [row.user for row in rows])


def _people(provider: Provider, ids: Sequence[str]) -> list[ProvisionedPerson]:
    wanted = {found for each in ids if (found := _uuid(each)) is not None}
    rows = list(ProvisionedPerson.objects.filter(provider=provider.id, is_deleted=False, pk__in=wanted))
    known = {str(row.pk) for row in rows}
    unknown = next((each for each in ids if str(_uuid(each)) not in known), None)
    if unknown is not None:
        raise Refusal(
            f"members has {unknown[:80]!r}, who is not kept here by this provider; groups in groups are not taken."
        )
    return rows


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
