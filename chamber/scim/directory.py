"""What one identity provider keeps here, as scim2-server reads and writes it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet
from scim2_models import (
    EnterpriseUser,
    Group,
    NotFoundException,
    NotImplementedException,
    Resource,
    ResourceType,
    ResponseParameters,
    ScimFilter,
    SearchRequest,
)
from scim2_models import User as Person
from scim2_server.storage import ScimStorage, SearchPage

from chamber.models import ProvisionedGroup, ProvisionedPerson
from chamber.oidc.providers import Provider
from chamber.scim import groups, people
from chamber.scim.people import Told, short
from teams.picture import lock_tree

PEOPLE = Person[EnterpriseUser]
NOT_TOLD = ("id", "meta", "groups", "password")
"""Of a person's resource: what the server says itself, or nobody keeps."""
COLUMNS = {
    "User": {"id": "pk", "username": "user_name__iexact", "externalid": "external_id"},
    "Group": {"id": "pk", "displayname": "name__iexact", "externalid": "external_id"},
}
"""By what the database finds those for which a filter asks; else each is looked at."""


class Directory(ScimStorage):
    """The people and groups of one provider. What writes, does so in one transaction that holds the tree."""

    def __init__(self, provider: Provider, *, writes: bool) -> None:
        self._provider = provider
        self._writes = writes

    @contextmanager
    def operation(self) -> Iterator[None]:
        """Enclose a request."""
        if not self._writes:
            yield
            return
        with transaction.atomic():
            lock_tree()
            yield

    def get(
        self,
        resource_type: ResourceType,
        resource_id: str,
        *,
        response_parameters: ResponseParameters[Any] | None = None,  # noqa: ARG002 - the server leaves them out
    ) -> Resource[Any]:
        """Return one; raise `NotFoundException`."""
        return _resource(self._row(resource_type, resource_id))

    def search(
        self,
        resource_types: list[ResourceType],
        search_request: SearchRequest[Any],
        *,
        position: Any = None,  # noqa: ARG002 - pages go by index
    ) -> SearchPage:
        """Return a page of those that a filter finds, the oldest first, and how many there are."""
        if len(resource_types) != 1:
            raise NotImplementedException(detail="Search for Users or for Groups, not for both at once.")
        rows = self._rows(resource_types[0])
        wanted = search_request.filter
        start = search_request.start_index_0 or 0
        end = None if search_request.count is None else start + search_request.count
        if wanted is None:
            return SearchPage(rows.count(), [_resource(row) for row in rows[start:end]])
        narrowed = _narrowed(rows, resource_types[0], wanted)
        found = [each for each in map(_resource, narrowed) if wanted.match(each)]
        return SearchPage(len(found), found[start:end])

    def create(self, resource_type: ResourceType, resource: Resource[Any]) -> Resource[Any]:
        """Take in a new one."""
        if resource_type.name == "User":
            return _resource(people.make(self._provider, Told.of(_told(resource))))
        group = ProvisionedGroup(provider=self._provider.id)
        return _resource(self._put(group, resource))

    def update(
        self,
        resource_type: ResourceType,
        resource: Resource[Any],
        *,
        expected_version: str | None = None,  # noqa: ARG002 - no versions are told
    ) -> Resource[Any]:
        """Make one what the provider tells of it."""
        row = self._row(resource_type, str(resource.id))
        if isinstance(row, ProvisionedPerson):
            return _resource(people.change(self._provider, row, Told.of(_told(resource))))
        return _resource(self._put(row, resource))

    def delete(
        self,
        resource_type: ResourceType,
        resource_id: str,
        *,
        expected_version: str | None = None,  # noqa: ARG002 - no versions are told
    ) -> None:
        """Take one away: a person's account is disabled."""
        row = self._row(resource_type, resource_id)
        if isinstance(row, ProvisionedPerson):
            people.remove(self._provider, row)
        else:
            groups.remove(self._provider, row)

    def _put(self, group: ProvisionedGroup, resource: Resource[Any]) -> ProvisionedGroup:
        told = cast(Group, resource)
        group.name = short(told.display_name, "displayName")
        group.external_id = short(told.external_id, "externalId")
        return groups.put(self._provider, group, [str(each.value) for each in told.members or []])

    def _rows(self, resource_type: ResourceType) -> "QuerySet[Any]":
        if resource_type.name == "User":
            rows = ProvisionedPerson.objects.filter(provider=self._provider.id, is_deleted=False)
            return rows.select_related("user").prefetch_related("groups").order_by("created_at", "pk")
        all_groups = ProvisionedGroup.objects.filter(provider=self._provider.id)
        return all_groups.prefetch_related("people__user").order_by("created_at", "pk")

    def _row(self, resource_type: ResourceType, resource_id: str) -> ProvisionedPerson | ProvisionedGroup:
        try:
            found = self._rows(resource_type).filter(pk=UUID(resource_id)).first()
        except ValueError:
            found = None
        if found is None:
            raise NotFoundException(detail=f"There is no {resource_type.name} {resource_id[:80]!r}.")
        return cast("ProvisionedPerson | ProvisionedGroup", found)


def _narrowed(rows: "QuerySet[Any]", resource_type: ResourceType, wanted: ScimFilter[Any]) -> "QuerySet[Any]":
    """Return those that may match: where one column is asked for by `eq`, those that have it."""
    node = wanted.ast
    column = COLUMNS[str(resource_type.name)].get(
        str(getattr(node, "attr_path", "")).rpartition(":")[2].lower()
    )
    value = getattr(node, "value", None)
    if column is None or getattr(node, "op", None) != "eq" or not isinstance(value, str):
        return rows
    if column == "pk":
        try:
            return rows.filter(pk=UUID(value))
        except ValueError:
            return rows.none()
    return rows.none() if "\x00" in value else rows.filter(**{column: value})


def _told(resource: Resource[Any]) -> dict[str, Any]:
    values: dict[str, Any] = resource.model_dump(mode="json", exclude_none=True, by_alias=True)
    return {key: value for key, value in values.items() if key not in NOT_TOLD}


def _resource(row: ProvisionedPerson | ProvisionedGroup) -> Resource[Any]:
    said: dict[str, Any] = {
        "id": str(row.pk),
        "meta": {
            "resourceType": "User" if isinstance(row, ProvisionedPerson) else "Group",
            "created": row.created_at,
            "lastModified": row.changed_at,
        },
    }
    if row.external_id:
        said["externalId"] = row.external_id
    if isinstance(row, ProvisionedPerson):
        known = [
            {"value": str(each.pk), "display": each.name, "$ref": f"Groups/{each.pk}", "type": "direct"}
            for each in row.groups.all()
        ]
        return PEOPLE.model_validate({**row.told, **said, "active": row.user.is_active, "groups": known})
    members = [
        {"value": str(each.pk), "display": each.user_name, "$ref": f"Users/{each.pk}", "type": "User"}
        for each in row.people.all()
    ]
    return Group.model_validate({"displayName": row.name, "members": members, **said})
