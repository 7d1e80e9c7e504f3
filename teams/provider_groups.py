"""Reading which roles the groups of identity providers give."""

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from django.conf import settings
from django.db.models import Count, QuerySet

from chamber.errors import no_such
from teams.models import Binding, ProviderGroup


@dataclass(frozen=True, slots=True)
class GroupMapping:
    """A group of a provider, and the role that it gives on a team; `known`: the provider is in the settings."""

    binding: Binding
    provider: str
    name: str
    size: int
    known: bool


def mappings() -> list[GroupMapping]:
    """Return all, by provider, group and team (one query)."""
    order = ("group__provider_group__provider", "group__provider_group__name", "team__path")
    rows = mapped().select_related("team", "group__provider_group").order_by(*order)
    known = {each.id for each in settings.IDENTITY_PROVIDERS}
    return [_mapping(row, known) for row in rows.annotate(size=Count("group__user"))]


def mapping_of(binding_id: UUID) -> GroupMapping:
    """Return one; raise `NotVisible` where there is none of this id."""
    found = next((each for each in mappings() if each.binding.pk == binding_id), None)
    if found is None:
        raise no_such("role of a provider's group", binding_id)
    return found


def mapped() -> QuerySet[Binding]:
    """Return the roles that groups of providers have."""
    return Binding.objects.filter(group__provider_group__isnull=False)


def is_mapped(provider: str, names: Iterable[str]) -> bool:
    """Return whether one of these groups of a provider gives a role."""
    given = set(names)
    rows = ProviderGroup.objects.filter(provider=provider, group__bindings__isnull=False)
    return any(name in given for name in rows.values_list("name", flat=True))


def _mapping(row: Binding, known: set[str]) -> GroupMapping:
    group = row.group
    if group is None:
        raise ValueError(f"{row} is of no group")
    of = group.provider_group
    return GroupMapping(row, of.provider, of.name, getattr(row, "size", 0), known=of.provider in known)
