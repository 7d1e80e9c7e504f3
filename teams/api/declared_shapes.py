"""What a declaration of the organisation looks like over the wire, and what is answered to one."""

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

from rest_framework import serializers

from teams.api.class_shapes import ClassDeclared, NarrowingDeclared, TierDeclared
from teams.api.shapes import (
    Move,
    NewPool,
    NewTeam,
    PoolPatch,
    SecondFactorRule,
    StrictSerializer,
    TeamInDraft,
)

MAX_DECLARED = 500
"""Entries of each list of a declaration: all of it is checked while nobody else may change the tree."""


class PoolDeclared(PoolPatch):
    """A change of a pool that there is."""

    pool = serializers.CharField(help_text="Its slug.")
    version = serializers.IntegerField(min_value=1)


class TeamMoved(Move):
    """Where a team goes as part of a declaration."""

    team = serializers.CharField(help_text="Its slug.")
    version = serializers.IntegerField(min_value=1)


class GroupRoleDeclared(StrictSerializer):
    """The role that the people of a provider's group have on a team; null: none."""

    provider = serializers.CharField(help_text="Its id.")
    group = serializers.CharField(help_text="As the provider names it.")
    team = serializers.CharField(help_text="Its slug.")
    role = serializers.CharField(allow_null=True)


class SignInDeclared(StrictSerializer):
    """What is asked of whoever signs in, on the version of that, and roles by groups of identity providers."""

    second_factor = SecondFactorRule(required=False)
    version = serializers.IntegerField(min_value=0, default=0, help_text="With second_factor.")
    groups = serializers.ListField(child=GroupRoleDeclared(), default=list, max_length=MAX_DECLARED)


class Declaration(StrictSerializer):
    """Changes of the organisation that are made together or not at all."""

    dry_run = serializers.BooleanField(
        default=False, help_text="Check everything and change nothing; a token of the scope `read` is enough."
    )
    tiers = TierDeclared(many=True, default=list)
    job_classes = ClassDeclared(many=True, default=list)
    new_pools = NewPool(many=True, default=list)
    pools = PoolDeclared(many=True, default=list)
    new_teams = NewTeam(many=True, default=list, help_text="Parents before the teams below them.")
    moves = TeamMoved(many=True, default=list)
    edits = TeamInDraft(many=True, default=list)
    narrowings = serializers.ListField(child=NarrowingDeclared(), default=list, max_length=MAX_DECLARED)
    sign_in = SignInDeclared(default=None, allow_null=True)

    NAMED_BY: ClassVar[Mapping[str, str]] = MappingProxyType({
        "tiers": "slug",
        "job_classes": "slug",
        "new_pools": "slug",
        "pools": "pool",
        "new_teams": "slug",
        "moves": "team",
        "edits": "team",
    })  # fmt: skip

    def to_internal_value(self, data: Any) -> Any:
        """Return the validated values; refuse a list that is too long without looking at its entries, and what is named
        twice in one list: no order of the two would be the right one.
        """
        problems: dict[str, Any] = {}
        if isinstance(data, Mapping):
            lists = {key: data[key] for key in self.NAMED_BY if isinstance(data.get(key), list)}
            for key, entries in lists.items():
                if len(entries) > MAX_DECLARED:
                    text = f"There are {len(entries):,} entries; at most {MAX_DECLARED} are taken in one request."
                    problems[key] = [text]
                elif twice := _named_twice(entries, self.NAMED_BY[key]):
                    problems[key] = twice
            data = {key: value for key, value in data.items() if not isinstance(problems.get(key), list)}
        try:
            values = super().to_internal_value(data)
        except serializers.ValidationError as error:
            if not isinstance(error.detail, dict):
                raise
            for key, found in error.detail.items():
                problems[key] = _merged(problems[key], found) if key in problems else found
        if problems:
            raise serializers.ValidationError(problems)
        return values


def _named_twice(entries: list[Any], name: str) -> dict[int, Any]:
    """Return a sentence for each entry that names what one before it names."""
    names = [each.get(name) if isinstance(each, Mapping) else None for each in entries]
    counts = Counter(each for each in names if isinstance(each, str))
    return {
        index: {"non_field_errors": [f"{slug!r} comes {counts[slug]} times; name it once."]}
        for index, slug in enumerate(names)
        if isinstance(slug, str) and slug in names[:index]
    }


def _merged(before: dict[int, Any], found: Any) -> Any:
    """Return what is wrong with entries of one list, found in two ways; `found` may be about the list as a whole."""
    if not isinstance(found, dict):
        return found
    more = {index: {**errors, **before.get(index, {})} for index, errors in found.items()}
    return {**before, **more}


class NodesMovedShape(serializers.Serializer[Any]):
    """Nodes that another pool picks; null is none."""

    before = serializers.SlugField(source="before.slug", default=None, allow_null=True)
    after = serializers.SlugField(source="after.slug", default=None, allow_null=True)
    nodes = serializers.IntegerField()


class DeclaredShape(serializers.Serializer[Any]):
    """What follows from a declaration beside the changes themselves."""

    dry_run = serializers.BooleanField()
    nodes = NodesMovedShape(many=True)
    warnings = serializers.ListField(
        child=serializers.CharField(),
        help_text="Pools of which more is guaranteed than their nodes have, or that no cluster may serve.",
    )
    not_allowed = serializers.ListField(
        child=serializers.CharField(),
        help_text="Of a dry run: what you, or this token, may not change. Nodes and warnings are then left out where a "
        "role is missing.",
    )
