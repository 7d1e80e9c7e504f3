"""Groups of an identity provider, as far as somebody gave them roles."""

from typing import ClassVar

from django.contrib.auth.models import Group
from django.db import models


class ProviderGroup(models.Model):
    """A group whose people the provider names: whoever signs in by it is in those that it says, and in no other.

    Its roles are bindings of the group, like those of any; so what the provider gives stays apart from what is given by
    hand.
    """

    group = models.OneToOneField(
        Group, on_delete=models.CASCADE, primary_key=True, related_name="provider_group"
    )
    provider = models.CharField(max_length=30, help_text="Its id in the settings.")
    name = models.CharField(max_length=255, help_text="As the provider writes it.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering: ClassVar = ["provider", "name"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["provider", "name"], name="providergroup_once"),
        ]

    def __str__(self) -> str:
        return f"{self.name} of {self.provider}"
