"""What a team's members may ask for; inherited down the tree, the nearer team's word wins key by key."""

from typing import ClassVar

from django.db import models
from pydantic import BaseModel, ConfigDict, Field

from teams.models.team import Team


class PriorityRange(BaseModel):
    """Highest priorities of a role: elastic below 100, reserved from 100 up."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    elastic_max: int = Field(ge=0, le=99)
    reserved_max: int | None = Field(default=None, ge=100, le=1_000_000)


class TeamRules(BaseModel):
    """The typed content of `TeamPolicy.rules`; an absent key is inherited."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    researcher_priority: PriorityRange | None = None
    lead_priority: PriorityRange | None = None
    largest_workload_milli: int | None = Field(default=None, ge=0)
    longest_time_limit_seconds: int | None = Field(default=None, ge=1)
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
