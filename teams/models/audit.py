"""The audit trail: rows are added, never changed; the database refuses anything else."""

from collections.abc import Iterator
from typing import Any, ClassVar

from django.conf import settings
from django.db import models

from chamber.ids import new_id
from teams.querysets import AuditEventQuerySet
from teams.values import gpus

TOLD = 4
"""Changes that a sentence names before it only counts them."""


class AuditEvent(models.Model):
    """Who changed what, from where, and what it was before and after."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    at = models.DateTimeField(db_index=True)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.PROTECT,
        related_name="+",
        help_text="Empty: Chamber itself.",
    )
    actor = models.CharField(max_length=150, help_text="The name at the time.")
    on_behalf_of = models.CharField(max_length=150, blank=True)
    via = models.CharField(max_length=10)
    action = models.CharField(max_length=40, help_text="Object and verb, e.g. team.moved.")
    target_kind = models.CharField(max_length=20)
    target_id = models.CharField(max_length=40)
    target_name = models.CharField(max_length=120)
    team_path = models.CharField(
        max_length=33 * 32 + 1, blank=True, help_text="Where in the tree; for who may read it."
    )
    # None, for a column that may be empty is added on SQLite without making the table anew, which loses its triggers.
    address = models.GenericIPAddressField(null=True, help_text="Of the client; empty where there is none.")
    agent = models.CharField(max_length=200, null=True, help_text="What the client says it is.")  # noqa: DJ001
    mark = models.CharField(  # noqa: DJ001
        max_length=80, null=True, editable=False, help_text="Shows that Chamber wrote the row."
    )
    before = models.JSONField(default=dict)
    after = models.JSONField(default=dict)

    objects = AuditEventQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["-at", "-id"]
        indexes: ClassVar = [
            models.Index(fields=["target_kind", "target_id", "-at"], name="audit_by_target"),
            models.Index(fields=["actor", "-at", "-id"], name="audit_by_actor"),
            models.Index(fields=["-at", "-id"], name="audit_newest_first"),
        ]

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M} {self.actor} {self.action} {self.target_name}"

    @property
    def sentence(self) -> str:
        """What was done, for a page: "NLP: share changed, main reservation 20 GPUs → 25 GPUs"."""
        verb = self.action.partition(".")[2].replace("-", " ") or self.action
        if verb in {"created", "added", "removed"}:
            return f"{self.target_name}: {verb}"
        changes = self.changes
        more = f" and {len(changes) - TOLD} more" if len(changes) > TOLD else ""
        return f"{self.target_name}: {verb}" + (", " + "; ".join(changes[:TOLD]) + more if changes else "")

    @property
    def changes(self) -> list[str]:
        """What was changed, each value as it was and is: "main reservation 20 GPUs → 25 GPUs"."""
        before, after = dict(_flat(self.before)), dict(_flat(self.after))
        one_sided = not (before and after)
        return [
            f"{_label(key)} {_told(key, after.get(key, before.get(key)))}"
            if one_sided
            else f"{_label(key)} {_told(key, before.get(key))} → {_told(key, after.get(key))}"
            for key in {**before, **after}
            if not _is_told_by_parts(key, before, after)
        ]


def _flat(values: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Return nested values with the way to each as its key, by points."""
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def _is_told_by_parts(key: str, before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Return whether a mapping that is empty on one side has parts on the other, which tell the change."""
    empty = {} in (before.get(key), after.get(key))
    return empty and any(each.startswith(f"{key}.") for each in (*before, *after))


def _label(key: str) -> str:
    return key.removesuffix("_milli").replace(".", " ").replace("_", " ")


def _told(key: str, value: Any) -> str:
    if value is None or value in ({}, []):
        return "none"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if key.endswith("_milli") and isinstance(value, int):
        return gpus(value)
    return str(value)
