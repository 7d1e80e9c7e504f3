"""Capacity pools, their policy, and each team's share of them."""

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar

from django.core.exceptions import ValidationError as DjangoValidationError
from django.db import models
from django.db.models import Q
from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from chamber import invalid
from chamber.ids import new_id
from teams import peak_hours
from teams.models.team import Team
from teams.querysets import PoolQuerySet
from teams.time_zones import is_time_zone

MOST_PEAK_HOURS = 50
"""Lines of hours, or job classes, of one pool."""


class QueueingPolicy(StrEnum):
    """What happens behind the first workload that finds no place."""

    STRICT_FIFO = "strict-fifo"
    BEST_EFFORT_FIFO = "best-effort-fifo"
    BACKFILL = "backfill"


class ElasticPreemptionPolicy(StrEnum):
    """Which elastic workloads may preempt elastic workloads."""

    PRIORITY = "priority"
    FAIR_SHARE = "fair-share"
    NEVER = "never"


class PlacementPolicy(StrEnum):
    """How nodes are filled."""

    BINPACK = "binpack"
    SPREAD = "spread"


class FairnessPolicy(StrEnum):
    """What makes one team come before another at equal priority."""

    ENTITLEMENT = "entitlement"
    USAGE = "usage"


class SharingPolicy(StrEnum):
    """Whether pods may ask for a part of a device."""

    FRACTIONS = "fractions"
    NONE = "none"


class PoolPolicy(BaseModel):
    """The typed content of `Pool.policy`. Durations are seconds.

    `cpu_per_gpu` and `memory_mib_per_gpu` are what a pod gets of CPU and memory with each of its GPUs where its
    workload does not say: 0 gives none, None goes by what the pool's nodes have (`workloads.defaults`).

    In its `peak_hours`, of the `peak_zone`, elastic workloads of more than `peak_max_gpus` GPUs (None: of no size), or
    of one of the `peak_classes`, are not admitted.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    queueing: QueueingPolicy = QueueingPolicy.BACKFILL
    elastic_preemption: ElasticPreemptionPolicy = ElasticPreemptionPolicy.PRIORITY
    placement: PlacementPolicy = PlacementPolicy.BINPACK
    fairness: FairnessPolicy = FairnessPolicy.ENTITLEMENT
    usage_half_life_seconds: int = Field(default=7 * 86400, ge=60, le=10 * 365 * 86400)
    min_runtime_seconds: int = Field(default=0, ge=0, le=10 * 365 * 86400)
    max_preemptions: int | None = Field(default=None, ge=0, le=1000)
    default_time_limit_seconds: int | None = Field(default=None, ge=1, le=10 * 365 * 86400)
    sharing: SharingPolicy = SharingPolicy.FRACTIONS
    cpu_per_gpu: float | None = Field(default=None, ge=0, le=1000, allow_inf_nan=False)
    memory_mib_per_gpu: int | None = Field(default=None, ge=0, le=16 * 1024 * 1024)
    peak_hours: list[str] = Field(default_factory=list, max_length=MOST_PEAK_HOURS)
    peak_zone: str = "UTC"
    peak_max_gpus: float | None = Field(default=None, ge=0, le=1_000_000, allow_inf_nan=False)
    # Looked at last, also where it is not said: hours have to keep something out.
    peak_classes: list[str] = Field(default_factory=list, max_length=MOST_PEAK_HOURS, validate_default=True)

    @property
    def peak_max_milli(self) -> int | None:
        """`peak_max_gpus` in milli-GPUs."""
        return None if self.peak_max_gpus is None else round(self.peak_max_gpus * 1000)

    @field_validator("peak_hours")
    @classmethod
    def _hours(cls, value: list[str]) -> list[str]:
        for text in value:
            if peak_hours.minutes_of(text) is None:
                raise ValueError(
                    f"{invalid.shown(text)} are no hours: write days and times such as mon-fri 08:00-18:00, or "
                    "sat 22:00-06:00."
                )
        if not peak_hours.leaves_some_open(value):
            raise ValueError("Peak hours leave a part of the week; these leave none.")
        return list(dict.fromkeys(value))

    @field_validator("peak_zone")
    @classmethod
    def _zone(cls, value: str) -> str:
        if not is_time_zone(value):
            raise ValueError(
                f"{invalid.shown(value)} is no time zone: write one such as UTC or Europe/Berlin."
            )
        return value

    @field_validator("peak_max_gpus")
    @classmethod
    def _of_thousandths(cls, value: float | None) -> float | None:
        if value is not None and abs(value * 1000 - round(value * 1000)) > 1e-6:
            raise ValueError(f"{invalid.shown(value)} GPUs cannot be: write a number in steps of 0.001.")
        return value

    @field_validator("peak_classes")
    @classmethod
    def _keeps_something_out(cls, value: list[str], info: ValidationInfo) -> list[str]:
        # A number that cannot be is none of `info.data`: it is told by itself.
        if info.data.get("peak_hours") and not value and info.data.get("peak_max_gpus", 0) is None:
            raise ValueError("Peak hours keep nothing out without a number of GPUs or a job class: give one.")
        return sorted(set(value))


CLUSTER_LABEL = "chamber.internal/cluster"
"""A label that each node has here, whatever it says itself: pools and workloads may name a cluster by it."""


class Pool(models.Model):
    """GPUs shared under one policy: the nodes that its selector picks and no pool before it picked.

    Labels are what a cluster says of its nodes. `clusters` is an operator's word: only nodes of these are picked.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    slug = models.SlugField(max_length=60, unique=True)
    name = models.CharField(max_length=100)
    order = models.PositiveIntegerField(
        default=0, help_text="A node belongs to the first pool that picks it."
    )
    node_selector = models.JSONField(
        default=dict, blank=True, help_text="Node labels that must match; empty = every node."
    )
    clusters = models.JSONField(
        default=list,
        db_default=models.Value([], models.JSONField()),
        blank=True,
        help_text="Names of the clusters that may serve it; of no other it has nodes.",
    )
    topology = models.JSONField(
        default=list, blank=True, help_text="Label keys of the levels, outermost first."
    )
    policy = models.JSONField(default=dict, blank=True)
    paused = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)
    version = models.PositiveIntegerField(default=1)

    objects = PoolQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["order", "id"]

    def __str__(self) -> str:
        return self.name

    @property
    def rules(self) -> PoolPolicy:
        """Return the policy, typed; keys that are absent have their defaults."""
        return PoolPolicy.model_validate(self.policy)

    def clean(self) -> None:
        """Refuse a policy with unknown keys or values."""
        try:
            PoolPolicy.model_validate(self.policy)
        except ValidationError as error:
            raise DjangoValidationError({"policy": list(invalid.sentences(error).values())}) from error

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Return whether a node with these labels matches the selector."""
        return all(labels.get(key) == value for key, value in self.node_selector.items())


class Share(models.Model):
    """What one team is guaranteed of one pool, and at most may hold of it. Milli-GPUs."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="shares")
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="shares")
    reservation_milli = models.PositiveBigIntegerField(default=0)
    maximum_milli = models.PositiveBigIntegerField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    version = models.PositiveIntegerField(default=1)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["team", "pool"], name="share_pair_once"),
            models.CheckConstraint(
                condition=Q(reservation_milli__gte=0), name="share_reservation_not_negative"
            ),
            models.CheckConstraint(
                condition=Q(maximum_milli__isnull=True) | Q(maximum_milli__gte=0),
                name="share_maximum_not_negative",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.team} in {self.pool}"
