"""What arrays look like over the wire."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils import timezone
from rest_framework import serializers

from workloads.arrays import counts
from workloads.models import Status, Workload, WorkloadArray


class MembersByStatusShape(serializers.Serializer[Any]):
    """How many members are in each status."""

    def get_fields(self) -> dict[str, Any]:
        """Return a field for each status."""
        return {status.value: serializers.IntegerField(read_only=True) for status in Status}


class ArrayShape(serializers.ModelSerializer[WorkloadArray]):
    """An array, and how its members stand."""

    team = serializers.SlugRelatedField[Any](slug_field="slug", read_only=True)
    owner = serializers.SlugRelatedField[Any](slug_field="username", read_only=True)
    parameters = serializers.ListField(
        child=serializers.CharField(), read_only=True, help_text="Names of its parameters."
    )
    members = MembersByStatusShape(
        source="members_by_status", read_only=True, help_text="How many members are in each status."
    )
    percent = serializers.IntegerField(read_only=True, help_text="How much of it has ended.")
    ends_at = serializers.DateTimeField(
        read_only=True,
        allow_null=True,
        help_text="When the rest has ended at the pace so far; null where that is not known.",
    )

    class Meta:
        model = WorkloadArray
        fields = (
            "id",
            "slug",
            "name",
            "team",
            "owner",
            "size",
            "max_parallel",
            "parameters",
            "members",
            "percent",
            "ends_at",
            "submitted_at",
            "version",
        )
        read_only_fields = fields


class SubmittedArrayShape(ArrayShape):
    """An array that was just submitted."""

    warnings = serializers.ListField(
        child=serializers.CharField(),
        read_only=True,
        help_text="What keeps its members from ever starting as things are; it is taken all the same.",
    )

    class Meta:
        model = WorkloadArray
        fields = (*ArrayShape.Meta.fields, "warnings")
        read_only_fields = fields


def shown(arrays: Sequence[WorkloadArray], *, now: datetime | None = None) -> list[dict[str, Any]]:
    """Return arrays as the API shows them (1 query; team and owner must be loaded)."""
    now = now or timezone.now()
    found = counts.of_arrays([array.pk for array in arrays])
    told = []
    for array in arrays:
        each = found[array.pk]
        left = each.left(now)
        vars(array).update(
            members_by_status={status.value: each.of(status) for status in Status},
            percent=each.percent,
            ends_at=None if left is None else now + left,
        )
        told.append(dict(ArrayShape(array).data))
    return told


def submitted(
    arrays: Sequence[WorkloadArray], firsts: Iterable[Workload], told: Mapping[UUID, Sequence[str]]
) -> list[dict[str, Any]]:
    """Return arrays that were just submitted, each with the warnings about its first member."""
    warnings = {first.array_id: told.get(first.pk, ()) for first in firsts}
    return [
        {**shape, "warnings": list(warnings.get(array.pk, ()))}
        for array, shape in zip(arrays, shown(arrays), strict=True)
    ]
