"""What job classes, priority tiers and what teams narrow of classes look like over the wire."""

from typing import Any

from rest_framework import serializers

from teams.actions.class_values import LONGEST_CLASS, LONGEST_NAME, LONGEST_TIER, MOST_ORDER
from teams.api.shapes import StrictSerializer
from teams.models import DeviceSharing, OnPreemption
from teams.models.job_class import LONGEST_LIMIT_SECONDS, MOST_PRIORITY, MOST_RETRIES, TIER_ROLES
from teams.models.policy import MOST_CLASSES, MOST_NAME

LIMIT: dict[str, Any] = {"min_value": 1, "max_value": LONGEST_LIMIT_SECONDS, "allow_null": True}
SHARING = "Whose parts of a GPU share one with others: always, elastic work only, or never."


class TierPatch(StrictSerializer):
    """What of a tier is to be another; absent keys stay."""

    name = serializers.CharField(required=False, max_length=LONGEST_NAME)
    priority = serializers.IntegerField(required=False, min_value=0, max_value=MOST_PRIORITY)
    least_role = serializers.ChoiceField(
        required=False, choices=TIER_ROLES, help_text="The least role on a team that may use it."
    )
    priority_classes = serializers.ListField(
        child=serializers.CharField(max_length=MOST_NAME),
        required=False,
        max_length=MOST_CLASSES,
        help_text="PriorityClasses of Jobs made with kubectl that have its priority.",
    )
    retired = serializers.BooleanField(required=False, help_text="Whether submissions may name it no longer.")


class NewTier(TierPatch):
    """A tier that is to be made."""

    slug = serializers.CharField(max_length=LONGEST_TIER, help_text="What submissions call it.")
    priority = serializers.IntegerField(min_value=0, max_value=MOST_PRIORITY)


class TierShape(serializers.Serializer[Any]):
    """A priority tier."""

    slug = serializers.SlugField()
    name = serializers.CharField()
    priority = serializers.IntegerField()
    least_role = serializers.ChoiceField(choices=TIER_ROLES)
    priority_classes = serializers.ListField(child=serializers.CharField())
    retired = serializers.BooleanField()
    version = serializers.IntegerField()


class ClassPatch(StrictSerializer):
    """What of a job class is to be another; absent keys stay."""

    name = serializers.CharField(required=False, max_length=LONGEST_NAME)
    order = serializers.IntegerField(required=False, min_value=0, max_value=MOST_ORDER)
    tier = serializers.CharField(required=False, max_length=LONGEST_TIER, help_text="Its slug.")
    time_limit_seconds = serializers.IntegerField(required=False, help_text="Null: no limit.", **LIMIT)
    max_retries = serializers.IntegerField(required=False, min_value=0, max_value=MOST_RETRIES)
    on_preemption = serializers.ChoiceField(required=False, choices=OnPreemption.choices)
    sharing = serializers.ChoiceField(required=False, choices=DeviceSharing.choices, help_text=SHARING)
    is_default = serializers.BooleanField(
        required=False, help_text="Whether submissions that name no class are of it."
    )
    retired = serializers.BooleanField(required=False, help_text="Whether submissions may name it no longer.")


class NewJobClass(ClassPatch):
    """A job class that is to be made."""

    slug = serializers.CharField(max_length=LONGEST_CLASS, help_text="What submissions call it.")
    tier = serializers.CharField(max_length=LONGEST_TIER, help_text="Its slug.")


class JobClassShape(serializers.Serializer[Any]):
    """A job class: what its workloads have where their submissions say nothing."""

    slug = serializers.SlugField()
    name = serializers.CharField()
    order = serializers.IntegerField()
    tier = serializers.SlugField()
    priority = serializers.IntegerField(help_text="Of its tier.")
    time_limit_seconds = serializers.IntegerField(allow_null=True)
    max_retries = serializers.IntegerField()
    on_preemption = serializers.ChoiceField(choices=OnPreemption.choices)
    sharing = serializers.ChoiceField(choices=DeviceSharing.choices, help_text=SHARING)
    is_default = serializers.BooleanField()
    retired = serializers.BooleanField()
    version = serializers.IntegerField()


class NarrowingEdit(StrictSerializer):
    """All that a team says of a class; what is absent or null is as above. Empty: nothing."""

    tier = serializers.CharField(required=False, allow_null=True, max_length=LONGEST_TIER)
    time_limit_seconds = serializers.IntegerField(required=False, **LIMIT)
    max_retries = serializers.IntegerField(
        required=False, allow_null=True, min_value=0, max_value=MOST_RETRIES
    )
    sharing = serializers.ChoiceField(required=False, allow_null=True, choices=DeviceSharing.choices)


class NarrowingShape(serializers.Serializer[Any]):
    """What a team says of a class itself; null is as above."""

    tier = serializers.SlugField(allow_null=True)
    time_limit_seconds = serializers.IntegerField(allow_null=True)
    max_retries = serializers.IntegerField(allow_null=True)
    sharing = serializers.ChoiceField(allow_null=True, choices=DeviceSharing.choices)


class TeamClassShape(serializers.Serializer[Any]):
    """What holds of a job class in a team, and what the team says itself."""

    slug = serializers.SlugField()
    name = serializers.CharField()
    tier = serializers.SlugField()
    priority = serializers.IntegerField()
    time_limit_seconds = serializers.IntegerField(allow_null=True)
    max_retries = serializers.IntegerField()
    on_preemption = serializers.ChoiceField(choices=OnPreemption.choices)
    sharing = serializers.ChoiceField(choices=DeviceSharing.choices)
    retired = serializers.BooleanField()
    own = NarrowingShape()
    version = serializers.IntegerField(help_text="Of what the team says; 0: nothing.")


class NarrowingDeclared(StrictSerializer):
    """All that a team says of a class, on the version of what it said; 0: nothing."""

    team = serializers.CharField(max_length=60)
    job_class = serializers.CharField(max_length=LONGEST_CLASS)
    version = serializers.IntegerField(min_value=0, default=0)
    values = serializers.DictField(
        help_text="tier, time_limit_seconds, max_retries, sharing; null is as above."
    )


class TierDeclared(TierPatch):
    """A tier as a file declares it, on the version that was read; a new one has none."""

    slug = serializers.CharField(max_length=LONGEST_TIER)
    version = serializers.IntegerField(min_value=0, default=0, help_text="0: it is new.")


class ClassDeclared(ClassPatch):
    """A job class as a file declares it, on the version that was read; a new one has none."""

    slug = serializers.CharField(max_length=LONGEST_CLASS)
    version = serializers.IntegerField(min_value=0, default=0, help_text="0: it is new.")
