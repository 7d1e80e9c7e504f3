"""What pods have written, kept after their end."""

import zlib
from typing import ClassVar

from django.db import models
from django.db.models import Q

from agentlink.protocol.logs import KEPT_BYTES
from chamber.ids import new_id
from workloads.models import Attempt


class PodLog(models.Model):
    """The last lines of one pod, at most 1 MiB of them, compressed; it goes with its attempt."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="logs", db_index=False)
    pod_index = models.PositiveIntegerField()
    content = models.BinaryField(help_text="The text in UTF-8, compressed with zlib.")
    size_bytes = models.PositiveIntegerField(help_text="Of the text.")
    cut = models.BooleanField(default=False, help_text="Earlier lines are missing.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering: ClassVar = ["attempt", "pod_index"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["attempt", "pod_index"], name="podlog_once_per_pod"),
            models.CheckConstraint(condition=Q(size_bytes__lte=KEPT_BYTES), name="podlog_size_bounded"),
        ]

    def __str__(self) -> str:
        return f"{self.attempt} pod {self.pod_index}"

    @property
    def text(self) -> str:
        """Return the text; nothing where it cannot be read."""
        try:
            return zlib.decompressobj().decompress(bytes(self.content), KEPT_BYTES).decode(errors="replace")
        except zlib.error:
            return ""
