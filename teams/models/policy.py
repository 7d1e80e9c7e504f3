"""What a team's members may ask for; inherited down the tree, the nearer team's word wins key by key."""

import re
from typing import Annotated, ClassVar

from django.db import models
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from teams.models.team import Team


class PriorityRange(BaseModel):
    """Highest priorities of a role: elastic below 100, reserved from 100 up."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    elastic_max: int = Field(ge=0, le=99)
    reserved_max: int | None = Field(default=None, ge=100, le=1_000_000)


_ACCOUNT = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", re.ASCII)
VOLUME_KINDS = frozenset(
    {
        *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "nfs"),
        *("persistentVolumeClaim", "projected", "secret"),
    }
)
"""Kinds of volumes that a policy may allow; a path of the node's own disk is among none of them."""


def _account(name: str) -> str:
    if not _ACCOUNT.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a service account")
    return name


def _volume(kind: str) -> str:
    if kind not in VOLUME_KINDS:
        raise ValueError(f"{kind!r} is none of {', '.join(sorted(VOLUME_KINDS))}")
    return kind


def _sorted(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(set(names)))


Account = Annotated[str, StringConstraints(max_length=253), AfterValidator(_account)]
Volume = Annotated[str, AfterValidator(_volume)]
Accounts = Annotated[tuple[Account, ...], Field(max_length=50), AfterValidator(_sorted)]
Volumes = Annotated[tuple[Volume, ...], Field(max_length=50), AfterValidator(_sorted)]


class TeamRules(BaseModel):
    """The typed content of `TeamPolicy.rules`; an absent key is inherited."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    researcher_priority: PriorityRange | None = None
    lead_priority: PriorityRange | None = None
    largest_workload_milli: int | None = Field(default=None, ge=0)
    longest_time_limit_seconds: int | None = Field(default=None, ge=1)
    # What Jobs created with kubectl in the team's namespaces may name.
    service_accounts: Accounts | None = None
    volumes: Volumes | None = None
    # Whether teams below may be given wider rules than these.
    may_be_widened: bool | None = None


class TeamPolicy(models.Model):
    """The rules set at one team."""

    team = models.OneToOneField(Team, on_delete=models.CASCADE, primary_key=True, related_name="policy")
    rules = models.JSONField(default=dict)
    created_at = models.DateTimeField(auto_now_add=True)
    version = models.PositiveIntegerField(default=1)

    class Meta:
        verbose_name_plural: ClassVar = "team policies"

    def __str__(self) -> str:
        return f"Policy of {self.team}"

    @property
    def typed(self) -> TeamRules:
        """Return the rules, typed."""
        return TeamRules.model_validate(self.rules)
