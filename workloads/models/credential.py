"""Credentials, and which workloads name them."""

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q

from chamber.ids import new_id
from teams.models import Team
from workloads.models.workload import Workload


class CredentialKind(models.TextChoices):
    """What a credential is: `workloads.credentials.kinds` says what each has and what pods get of it."""

    TOKEN = "token", "Token"
    S3 = "s3", "S3"
    REGISTRY = "registry", "Registry"
    GIT = "git", "Git"
    VARIABLES = "variables", "Variables"
    FILES = "files", "Files"
    SECRET = "secret", "Secret of the cluster"


class Credential(models.Model):
    """A secret of a person, or of a team for whoever submits to it or below. Its values are encrypted, and never shown.

    `details` are what is no secret (a host, a user name), `parts` are the names of what is.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    name = models.CharField(max_length=40)
    kind = models.CharField(max_length=12, choices=CredentialKind.choices)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="credentials"
    )
    team = models.ForeignKey(Team, null=True, on_delete=models.CASCADE, related_name="credentials")
    details = models.JSONField(default=dict)
    parts = models.JSONField(default=list)
    encrypted = models.TextField(help_text="Its values, with the row's id and whose it is.")
    made_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+", db_index=False
    )
    created_at = models.DateTimeField(auto_now_add=True)
    replaced_at = models.DateTimeField(help_text="When its values were last given.")
    last_used_at = models.DateTimeField(null=True, help_text="When a cluster was last handed it.")
    version = models.PositiveIntegerField(default=1)

    class Meta:
        ordering: ClassVar = ["name", "id"]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(owner__isnull=False, team__isnull=True)
                | Q(owner__isnull=True, team__isnull=False),
                name="credential_of_person_or_team",
            ),
            models.CheckConstraint(condition=Q(kind__in=CredentialKind.values), name="credential_kind_known"),
            models.UniqueConstraint(
                fields=["owner", "name"], condition=Q(team__isnull=True), name="credential_once_a_person"
            ),
            models.UniqueConstraint(
                fields=["team", "name"], condition=Q(owner__isnull=True), name="credential_once_a_team"
            ),
        ]

    def __str__(self) -> str:
        return self.reference

    @property
    def reference(self) -> str:
        """Return how workloads name it: `NAME` of one's own, `TEAM/NAME` of a team. The team must be loaded."""
        return self.name if self.team is None else f"{self.team.slug}/{self.name}"


class NamedCredential(models.Model):
    """A workload names a credential, at this place of its `credentials`; None once that was deleted."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    # No index of its own: the constraint's begins with it.
    workload = models.ForeignKey(
        Workload, on_delete=models.CASCADE, related_name="named_credentials", db_index=False
    )
    position = models.PositiveSmallIntegerField()
    credential = models.ForeignKey(Credential, null=True, on_delete=models.SET_NULL, related_name="named_by")

    class Meta:
        ordering: ClassVar = ["workload", "position"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["workload", "position"], name="namedcredential_once"),
        ]

    def __str__(self) -> str:
        return f"{self.workload} names {self.credential or 'a credential that was deleted'}"
