"""Groups that identity providers name, whether they give a role here or not, and who is in them."""

from collections import defaultdict
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from allauth.socialaccount.models import SocialAccount

from chamber.errors import no_such
from chamber.models import ProvisionedGroup, ProvisionedPerson, User
from chamber.oidc.providers import providers
from teams.models import Binding, ProviderGroup
from teams.provider_groups import mapped
from teams.sign_in import policy_for

Key = tuple[str, str]
"""A provider's id, and the group as it names that."""


@dataclass(slots=True)
class NamedGroup:
    """A group of a provider: kept over SCIM, or told at sign-ins and syncs; `people` are user names.

    `known`: the provider is in the settings.
    """

    provider: str
    name: str
    known: bool
    by_scim: bool = False
    people: set[str] = field(default_factory=set)
    roles: list[Binding] = field(default_factory=list)

    @property
    def id(self) -> str:
        """Its id in addresses, which its name may not be fit for."""
        return sha256(f"{self.provider}\n{self.name}".encode()).hexdigest()[:16]

    @property
    def size(self) -> int:
        """How many people are in it."""
        return len(self.people)


def named_groups(reader: User) -> list[NamedGroup]:
    """Return all, by provider and name (six queries at most); refuse who does not see how people sign in.

    Of who is kept here over SCIM the groups of SCIM count, as for roles; of others those that were told last.
    """
    policy_for(reader)
    known = {each.id for each in providers()}
    found: dict[Key, NamedGroup] = {}

    def at(provider: str, name: str) -> NamedGroup:
        return found.setdefault((provider, name), NamedGroup(provider, name, provider in known))

    for provider, name in ProvisionedGroup.objects.values_list("provider", "name"):
        at(provider, name).by_scim = True
    members = ProvisionedGroup.objects.filter(people__is_deleted=False)
    for provider, name, username in members.values_list("provider", "name", "people__user__username"):
        at(provider, name).people.add(username)
    for provider, name, username in _told():
        at(provider, name).people.add(username)
    for (provider, name), roles in _roles().items():
        at(provider, name).roles = roles
    return [found[key] for key in sorted(found)]


def named_group(reader: User, group_id: str) -> NamedGroup:
    """Return one; raise `NotVisible` where no provider names one of this id."""
    found = next((each for each in named_groups(reader) if each.id == group_id), None)
    if found is None:
        raise no_such("group of an identity provider", group_id)
    return found


def matching(groups: list[NamedGroup], text: str) -> list[NamedGroup]:
    """Return those that have this in their name, in any case."""
    wanted = text.strip().casefold()
    return [each for each in groups if wanted in each.name.casefold()]


def _told() -> list[tuple[str, str, str]]:
    """Return provider, group and user name of all that was told at sign-ins and syncs (two queries)."""
    provisioning = [each.id for each in providers() if each.provisions]
    kept = set(
        ProvisionedPerson.objects.filter(provider__in=provisioning, is_deleted=False).values_list(
            "provider", "user__username"
        )
    )
    rows = SocialAccount.objects.values_list("provider", "user__username", "extra_data")
    return [
        (provider, name, username)
        for provider, username, told in rows
        if (provider, username) not in kept
        for name in _names(told)
    ]


def _names(told: Any) -> list[str]:
    names = told.get("groups", []) if isinstance(told, dict) else []
    return [name for name in names if isinstance(name, str)]


def _roles() -> dict[Key, list[Binding]]:
    """Return what groups give, those without a role too, where one was given before (two queries)."""
    found: dict[Key, list[Binding]] = defaultdict(list)
    for row in ProviderGroup.objects.all():
        found[row.provider, row.name] = []
    for binding in mapped().select_related("team", "group__provider_group").order_by("team__path"):
        if binding.group is not None:
            of = binding.group.provider_group
            found[of.provider, of.name].append(binding)
    return found
