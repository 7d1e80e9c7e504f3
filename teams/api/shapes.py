"""What goes over the wire: GPUs are numbers in GPUs, and a key that nobody knows is refused."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, ClassVar

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from chamber.bodies import Body
from teams.models import (
    VOLUME_KINDS,
    ElasticPreemptionPolicy,
    FairnessPolicy,
    PlacementPolicy,
    QueueingPolicy,
    Role,
    SharingPolicy,
)

MAX_NUMBER = 10**9


def in_gpus(milli: int | None) -> float | int | None:
    """Return milli-GPUs as JSON shows them: 4, 0.25, null."""
    if milli is None:
        return None
    return milli // 1000 if milli % 1000 == 0 else milli / 1000


@extend_schema_field(OpenApiTypes.NUMBER)
class GpusField(serializers.Field[int, Any, Any, Any]):
    """A number of GPUs outside, an integer of milli-GPUs inside."""

    wrong = "{field} is {given}; it must be a number of GPUs of at most 1,000,000, in steps of 0.001."
    default_error_messages: ClassVar = {"invalid": "This is no number of GPUs."}

    def to_representation(self, value: int) -> float | int | None:
        """Return the number of GPUs."""
        return in_gpus(value)

    def to_internal_value(self, data: Any) -> int:
        """Return the milli-GPUs; refuse what is no number, or finer than a thousandth of a GPU.

        Slices of GPUs and shares of memory count in thousandths, so a team may be guaranteed any number of them.
        """
        if isinstance(data, bool) or not isinstance(data, int | float) or not abs(data) <= MAX_NUMBER:
            self.fail("invalid")
        milli = Decimal(str(data)) * 1000
        if abs(milli) > MAX_NUMBER or milli != int(milli):
            self.fail("invalid")
        return int(milli)


class StrictSerializer(Body):
    """Refuses keys it does not know: a misspelt limit must not be taken for none."""

    refuses_unknown = True

    def to_internal_value(self, data: Any) -> Any:
        """Return the validated values; a key outside the fields is an error beside its own name."""
        unknown = {}
        if isinstance(data, Mapping):
            writable = [name for name, field in self.fields.items() if not field.read_only]
            known = ", ".join(writable)
            unknown = {
                str(key): [f"There is no {key!r} here; known are {known}."]
                for key in data
                if key not in writable
            }
        try:
            values = super().to_internal_value(data)
        except serializers.ValidationError as error:
            if not unknown or not isinstance(error.detail, dict):
                raise
            raise serializers.ValidationError({**unknown, **error.detail}) from error
        if unknown:
            raise serializers.ValidationError(unknown)
        return values


class EntitledShape(serializers.Serializer[Any]):
    """What a team may have of one pool."""

    pool = serializers.SlugField()
    reservation = GpusField()
    maximum = GpusField(allow_null=True)
    guarantee = GpusField(help_text="The larger of the reservation and what the teams below are guaranteed.")
    own_part = GpusField(help_text="What of the guarantee is not given to the teams below.")
    ceiling = GpusField(allow_null=True, help_text="Its own; those of the teams above apply too.")
    version = serializers.IntegerField(help_text="Of the share; 0 where none was set.")


class TeamShape(serializers.Serializer[Any]):
    """A team."""

    id = serializers.UUIDField()
    slug = serializers.SlugField()
    name = serializers.CharField()
    # The framework calls its own attribute `parent`, but takes declared fields out of the class.
    parent = serializers.SlugField(  # type: ignore[assignment]
        allow_null=True, help_text="Null also where you may not see it."
    )
    depth = serializers.IntegerField()
    archived_at = serializers.DateTimeField(allow_null=True)
    bursting_priority = serializers.IntegerField()
    burst_limit_percent = serializers.IntegerField(allow_null=True)
    maximum = GpusField(allow_null=True)
    version = serializers.IntegerField()
    pools = EntitledShape(many=True)


class TeamPatch(StrictSerializer):
    """What may be changed of a team in place."""

    name = serializers.CharField(max_length=200, required=False)
    slug = serializers.CharField(max_length=200, required=False)
    bursting_priority = serializers.IntegerField(required=False)
    burst_limit_percent = serializers.IntegerField(required=False, allow_null=True, max_value=MAX_NUMBER)
    maximum = GpusField(required=False, allow_null=True)


class NewTeam(TeamPatch):
    """A team to be made."""

    name = serializers.CharField(max_length=200)
    parent = serializers.CharField(help_text="The slug of the team above.")  # type: ignore[assignment]


class Move(StrictSerializer):
    """Where a team goes."""

    parent = serializers.CharField(help_text="The slug of the new team above.")  # type: ignore[assignment]


class SharePatch(StrictSerializer):
    """What may be changed of a share."""

    reservation = GpusField(required=False)
    maximum = GpusField(required=False, allow_null=True)


class ShareInDraft(SharePatch):
    """A change of a share as part of a draft."""

    pool = serializers.CharField()
    version = serializers.IntegerField(min_value=0)


class TeamInDraft(TeamPatch):
    """A change of a team and its shares as part of a draft."""

    team = serializers.CharField(help_text="Its slug.")
    version = serializers.IntegerField(min_value=1)
    shares = ShareInDraft(many=True, required=False)


class Draft(StrictSerializer):
    """Edits that are saved together or not at all."""

    edits = TeamInDraft(many=True, allow_empty=False)


class ShareShape(EntitledShape):
    """A share, with a sentence where the pool's guarantees are above its capacity."""

    warning = serializers.CharField(allow_null=True)


class MemberShape(serializers.Serializer[Any]):
    """A role somebody has on a team, by their own binding or a group's, there or above."""

    id = serializers.UUIDField()
    username = serializers.CharField(allow_null=True)
    name = serializers.CharField()
    group = serializers.CharField(allow_null=True)
    role = serializers.ChoiceField(choices=Role.choices)
    team = serializers.SlugField()
    inherited = serializers.BooleanField()


class NewMember(StrictSerializer):
    """Whom to give which role."""

    who = serializers.CharField(max_length=254, help_text="A user name, an e-mail address, or group:NAME.")
    role = serializers.ChoiceField(choices=Role.choices)


class NewGroup(StrictSerializer):
    """A group to be made."""

    name = serializers.CharField(max_length=60)


class NewPerson(StrictSerializer):
    """Whom to put into a group."""

    who = serializers.CharField(max_length=254, help_text="A user name or an e-mail address.")


class GroupRoleShape(serializers.Serializer[Any]):
    """A role of a group."""

    team = serializers.SlugField()
    role = serializers.ChoiceField(choices=Role.choices)


class GroupShape(serializers.Serializer[Any]):
    """A group; its roles as far as you may see their teams. `people` are user names, of one group only."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    size = serializers.IntegerField()
    roles = GroupRoleShape(many=True)
    people = serializers.ListField(child=serializers.CharField(), required=False)


class RolePatch(StrictSerializer):
    """Another role."""

    role = serializers.ChoiceField(choices=Role.choices)


class PriorityRangeShape(StrictSerializer):
    """Highest priorities of a role."""

    elastic_max = serializers.IntegerField(min_value=0, max_value=99)
    reserved_max = serializers.IntegerField(min_value=100, max_value=1_000_000, allow_null=True)


class RulesShape(StrictSerializer):
    """What members may ask for; null inherits (own rules) or is no limit (effective ones)."""

    researcher_priority = PriorityRangeShape(required=False, allow_null=True)
    lead_priority = PriorityRangeShape(required=False, allow_null=True)
    largest_workload = GpusField(required=False, allow_null=True)
    longest_time_limit_seconds = serializers.IntegerField(required=False, allow_null=True, min_value=1)
    service_accounts = serializers.ListField(
        child=serializers.CharField(max_length=253), required=False, allow_null=True, max_length=50
    )
    volumes = serializers.ListField(
        child=serializers.ChoiceField(choices=sorted(VOLUME_KINDS)), required=False, allow_null=True
    )
    secrets = serializers.ListField(
        child=serializers.CharField(max_length=253),
        required=False,
        allow_null=True,
        max_length=200,
        help_text="Secrets that Jobs made with kubectl may read, by variables or volumes; `*` is all. Built in: none.",
    )
    config_maps = serializers.ListField(
        child=serializers.CharField(max_length=253),
        required=False,
        allow_null=True,
        max_length=200,
        help_text="ConfigMaps that they may read; `*` is all. Built in: all.",
    )
    cluster_secrets = serializers.ListField(
        child=serializers.CharField(max_length=759),
        required=False,
        allow_null=True,
        max_length=200,
        help_text="Secrets of clusters that credentials may refer to: NAME, NAMESPACE/NAME or CLUSTER/NAMESPACE/NAME, "
        "`*` for any characters. Built in: none.",
    )
    plain_variables = serializers.ListField(
        child=serializers.CharField(max_length=253),
        required=False,
        allow_null=True,
        max_length=200,
        help_text="Variables of workloads that look like secrets by their names and are none, `*` for any characters.",
    )
    may_be_widened = serializers.BooleanField(required=False, allow_null=True)


class TeamRulesShape(serializers.Serializer[Any]):
    """A team's own rules, and what holds there."""

    own = RulesShape()
    effective = RulesShape()
    version = serializers.IntegerField()


class PolicyShape(StrictSerializer):
    """A pool's policy; in a change, absent keys stay as they are."""

    queueing = serializers.ChoiceField(choices=[item.value for item in QueueingPolicy], required=False)
    elastic_preemption = serializers.ChoiceField(
        choices=[item.value for item in ElasticPreemptionPolicy], required=False
    )
    placement = serializers.ChoiceField(choices=[item.value for item in PlacementPolicy], required=False)
    fairness = serializers.ChoiceField(choices=[item.value for item in FairnessPolicy], required=False)
    sharing = serializers.ChoiceField(choices=[item.value for item in SharingPolicy], required=False)
    usage_half_life_seconds = serializers.IntegerField(required=False)
    min_runtime_seconds = serializers.IntegerField(required=False)
    max_preemptions = serializers.IntegerField(required=False, allow_null=True)
    default_time_limit_seconds = serializers.IntegerField(required=False, allow_null=True)
    cpu_per_gpu = serializers.FloatField(
        required=False,
        allow_null=True,
        help_text="CPU cores with each GPU where a workload names none; null = by what the nodes have, 0 = none.",
    )
    memory_mib_per_gpu = serializers.IntegerField(
        required=False,
        allow_null=True,
        help_text="MiB with each GPU where a workload names none; null = by what the nodes have, 0 = none.",
    )
    peak_hours = serializers.ListField(
        child=serializers.CharField(max_length=60),
        required=False,
        max_length=50,
        help_text="Hours of the week, such as mon-fri 08:00-18:00, in which some elastic workloads are not admitted.",
    )
    peak_zone = serializers.CharField(max_length=60, required=False, help_text="Time zone of the peak hours.")
    peak_max_gpus = serializers.FloatField(
        required=False, allow_null=True, help_text="More GPUs are not admitted then; null = of any size are."
    )
    peak_classes = serializers.ListField(
        child=serializers.CharField(max_length=60),
        required=False,
        max_length=50,
        help_text="Job classes that are not admitted then.",
    )


class PoolPatch(StrictSerializer):
    """What may be changed of a pool."""

    name = serializers.CharField(max_length=200, required=False)
    slug = serializers.CharField(max_length=200, required=False)
    order = serializers.IntegerField(required=False)
    node_selector = serializers.DictField(child=serializers.CharField(max_length=253), required=False)
    clusters = serializers.ListField(
        child=serializers.CharField(max_length=60),
        required=False,
        help_text="Names of the clusters that may serve it, whatever labels others give their nodes. Of a new pool "
        "that says none: the cluster that its selector names; of the first pool, all that there are.",
    )
    topology = serializers.ListField(
        child=serializers.CharField(max_length=253), required=False, max_length=8
    )
    policy = PolicyShape(required=False)
    paused = serializers.BooleanField(required=False)


class NewPool(PoolPatch):
    """A pool to be made."""

    name = serializers.CharField(max_length=200)
    slug = serializers.CharField(max_length=200)


class SecondFactorRule(StrictSerializer):
    """Whether everybody needs a second factor, and for how many days they are only told."""

    required = serializers.BooleanField()  # type: ignore[assignment]  # a field's own attribute
    grace_days = serializers.IntegerField(default=14, help_text="0 to 90, from when it began to be required.")


class PoolShape(serializers.Serializer[Any]):
    """A capacity pool."""

    id = serializers.UUIDField()
    slug = serializers.SlugField()
    name = serializers.CharField()
    order = serializers.IntegerField()
    node_selector = serializers.DictField(child=serializers.CharField())
    clusters = serializers.ListField(child=serializers.CharField())
    topology = serializers.ListField(child=serializers.CharField())
    policy = PolicyShape()
    paused = serializers.BooleanField()
    version = serializers.IntegerField()
    capacity = GpusField(
        help_text="Devices of nodes that are ready and not cordoned, a slice by its share of a GPU."
    )
    slices = serializers.IntegerField(
        help_text="How many devices of the capacity are slices: of MIG, or replicas."
    )
    slice_gpus = GpusField(help_text="What the slices count as, in GPUs.")
    guaranteed = GpusField()
    warning = serializers.CharField(allow_null=True)


class AuditShape(serializers.Serializer[Any]):
    """Who changed what; quantities in `before` and `after` are as stored, in milli-GPUs."""

    id = serializers.UUIDField()
    at = serializers.DateTimeField()
    actor = serializers.CharField()
    on_behalf_of = serializers.CharField()
    via = serializers.CharField()
    action = serializers.CharField()
    target_kind = serializers.CharField()
    target_id = serializers.CharField()
    target_name = serializers.CharField()
    address = serializers.IPAddressField(
        allow_null=True, help_text="Of the client; null where there is none."
    )
    agent = serializers.CharField(allow_null=True, help_text="What the client says it is.")
    before = serializers.DictField()
    after = serializers.DictField()


class AuditChainShape(serializers.Serializer[Any]):
    """The chain of the audit trail: its ends, and what the last check found."""

    number = serializers.IntegerField(source="chain.number", help_text="Of the last row that is sealed.")
    digest = serializers.CharField(source="chain.digest", help_text="Of that row; with its number, the head.")
    deleted_up_to = serializers.IntegerField(
        source="chain.anchor_number",
        help_text="The number of the last row that was deleted because of its age.",
    )
    unsealed = serializers.IntegerField(source="waiting", help_text="Rows that are not sealed yet.")
    holds = serializers.BooleanField(
        help_text="Whether all rows that were checked fit; false before a check."
    )
    fault = serializers.CharField(
        source="check.fault", default="", help_text="The first row that does not fit."
    )
    known_breaks = serializers.ListField(
        child=serializers.CharField(),
        source="known.sentences",
        help_text="Faults that an operator accepted: what, by whom, when and why.",
    )
    checked_up_to = serializers.IntegerField(source="check.number", default=0)
    checked_at = serializers.DateTimeField(source="check.at", default=None, allow_null=True)
    whole_checked_at = serializers.DateTimeField(
        source="check.whole_at", default=None, allow_null=True, help_text="When every row was last checked."
    )
