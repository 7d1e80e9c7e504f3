"""What the organisation asks of whoever signs in."""

from datetime import datetime, timedelta
from typing import ClassVar

from django.db import models
from django.db.models import Q

from teams.models.team import Team

LONGEST_GRACE_DAYS = 90


class SignInPolicy(models.Model):
    """One row, of the root: whether everybody needs a second factor, and how long they have to set one up."""

    team = models.OneToOneField(
        Team, on_delete=models.CASCADE, primary_key=True, related_name="sign_in_policy"
    )
    required_since = models.DateTimeField(
        null=True, help_text="When second factors began to be required; empty: they are not."
    )
    grace_days = models.PositiveSmallIntegerField(
        default=14, help_text="For so long after that people are only told."
    )
    told_at = models.DateTimeField(
        null=True, help_text="When open pages of those who lack one were told that the days are over."
    )
    created_at = models.DateTimeField(auto_now_add=True)
    version = models.PositiveIntegerField(default=1)

    class Meta:
        verbose_name_plural: ClassVar = "sign-in policies"
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(grace_days__range=(0, LONGEST_GRACE_DAYS)), name="signinpolicy_grace_0_to_90_days"
            ),
        ]

    def __str__(self) -> str:
        return "Sign-in"

    @property
    def required_from(self) -> datetime | None:
        """From when on who lacks a second factor can only set one up; None where none is required."""
        if self.required_since is None:
            return None
        return self.required_since + timedelta(days=self.grace_days)
