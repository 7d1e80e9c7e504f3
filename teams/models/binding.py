"""Who has which role on which part of the tree."""

from typing import ClassVar

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models
from django.db.models import Q

from chamber.ids import new_id
from teams.models.team import Team


class Role(models.TextChoices):
    """Roles, inherited downwards. The last three are given at the root only."""

    VIEWER = "viewer", "Viewer"
    RESEARCHER = "researcher", "Researcher"
    LEAD = "lead", "Lead"
    ADMIN = "admin", "Admin"
    ORG_ADMIN = "org-admin", "Organisation admin"
    OPERATOR = "operator", "Operator"
    AUDITOR = "auditor", "Auditor"

    @property
    def only_at_root(self) -> bool:
        """Return whether the role is about the whole organisation."""
        return self in {Role.ORG_ADMIN, Role.OPERATOR, Role.AUDITOR}


class Binding(models.Model):
    """One role of a user or a group on a team and everything below it."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="bindings")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="bindings"
    )
    group = models.ForeignKey(Group, null=True, on_delete=models.CASCADE, related_name="bindings")
    role = models.CharField(max_length=12, choices=Role.choices)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(user__isnull=False, group__isnull=True)
                | Q(user__isnull=True, group__isnull=False),
                name="binding_user_or_group",
            ),
            models.UniqueConstraint(
                fields=["team", "user", "role"], condition=Q(user__isnull=False), name="binding_user_once"
            ),
            models.UniqueConstraint(
                fields=["team", "group", "role"], condition=Q(group__isnull=False), name="binding_group_once"
            ),
            models.CheckConstraint(condition=Q(role__in=Role.values), name="binding_role_known"),
        ]

    def __str__(self) -> str:
        return f"{self.user or self.group}: {self.get_role_display()} of {self.team}"

    @property
    def audit_name(self) -> str:
        """What the audit trail calls it: a person by the user name."""
        holder = self.user.username if self.user else self.group
        return f"{holder}: {self.get_role_display()} of {self.team}"
