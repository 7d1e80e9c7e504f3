"""Forms of job classes, priority tiers and what teams narrow. What values may be is the actions' to say."""

from typing import Any

from django import forms

from chamber.forms import Form
from teams.durations import duration_text
from teams.fields import LinesField
from teams.job_classes import ClassDefaults, OrganisationClasses
from teams.models import ClassNarrowing, DeviceSharing, JobClass, OnPreemption, PriorityTier, Role
from teams.models.job_class import TIER_ROLES

AS_ABOVE = [("", "As above")]


def _limit(label: str, help_text: str) -> forms.CharField:
    field = forms.CharField(label=label, required=False, help_text=help_text)
    field.widget.attrs.update({"autocomplete": "off", "spellcheck": "false"})
    return field


class TierForm(Form):
    """A priority tier."""

    version = forms.IntegerField(widget=forms.HiddenInput, required=False)
    name = forms.CharField(label="Name")
    slug = forms.CharField(label="Short name", help_text="What submissions call it, for example high.")
    priority = forms.IntegerField(
        label="Priority",
        help_text="0 to 99 is elastic, 100 to 1,000,000 reserved. It covers those up to the next tier's.",
    )
    least_role = forms.ChoiceField(
        label="Least role that may use it", choices=[(role, Role(role).label) for role in TIER_ROLES]
    )
    priority_classes = LinesField(
        label="PriorityClasses", help_text="Of Jobs made with kubectl that have its priority, one a line."
    )

    def __init__(self, data: Any = None, *, tier: PriorityTier | None) -> None:
        names = [name for name in self.base_fields if name not in {"version", "slug"}]
        initial = {name: getattr(tier, name) for name in (*names, "version")} if tier else {}
        super().__init__(data, initial=initial)
        if tier is not None:
            del self.fields["slug"]

    def changes(self) -> dict[str, Any]:
        """Return what was entered, as `TierValues` has it."""
        return {key: value for key, value in self.cleaned_data.items() if key not in {"version", "slug"}}


class ClassForm(Form):
    """A job class."""

    version = forms.IntegerField(widget=forms.HiddenInput, required=False)
    name = forms.CharField(label="Name")
    slug = forms.CharField(label="Short name", help_text="What submissions call it, for example training.")
    tier = forms.ChoiceField(label="Priority tier", help_text="From 100 up it is reserved, below elastic.")
    time_limit_seconds = _limit("Time limit", "For example 30m, 24h, 2d. Empty: none.")
    max_retries = forms.IntegerField(label="Retries after a failure", initial=0, help_text="0 to 100.")
    on_preemption = forms.ChoiceField(label="When preempted", choices=OnPreemption.choices)
    sharing = forms.ChoiceField(
        label="Parts of a GPU shared by",
        choices=DeviceSharing.choices,
        initial=DeviceSharing.ELASTIC,
        help_text="Whose pods, where they ask for a part of a GPU, may have it together with others.",
    )
    order = forms.IntegerField(label="Place in lists", initial=0)
    is_default = forms.BooleanField(label="Default: of submissions that name no class", required=False)

    def __init__(self, data: Any = None, *, row: JobClass | None, tiers: list[PriorityTier]) -> None:
        initial: dict[str, Any] = {}
        if row is not None:
            names = [name for name in self.base_fields if name not in {"slug", "tier"}]
            initial = {name: getattr(row, name) for name in names}
            initial |= {"tier": row.tier.slug, "time_limit_seconds": duration_text(row.time_limit_seconds)}
        super().__init__(data, initial=initial)
        if row is not None:
            del self.fields["slug"]
        kept = [row.tier] if row is not None and row.tier.is_retired else []
        choices = [(tier.slug, f"{tier.name} ({tier.priority:,})") for tier in [*tiers, *kept]]
        self.fields["tier"].choices = choices  # type: ignore[attr-defined]  # a ChoiceField's

    def changes(self) -> dict[str, Any]:
        """Return what was entered, as `ClassValues` has it."""
        return {key: value for key, value in self.cleaned_data.items() if key not in {"version", "slug"}}


class NarrowingForm(Form):
    """What a team says of one class; what is empty is as above."""

    version = forms.IntegerField(widget=forms.HiddenInput)
    tier = forms.ChoiceField(label="Priority tier", required=False)
    time_limit_seconds = _limit("Time limit", "Empty: as above.")
    max_retries = forms.IntegerField(
        label="Retries after a failure", required=False, help_text="Empty: as above."
    )
    sharing = forms.ChoiceField(
        label="Parts of a GPU shared by", required=False, choices=[*AS_ABOVE, *DeviceSharing.choices]
    )

    def __init__(
        self,
        data: Any = None,
        *,
        above: ClassDefaults,
        own: ClassNarrowing | None,
        known: OrganisationClasses,
    ) -> None:
        initial: dict[str, Any] = {"version": 0}
        if own is not None:
            initial = {"version": own.version, "max_retries": own.max_retries, "sharing": own.sharing}
            initial["time_limit_seconds"] = duration_text(own.time_limit_seconds)
            initial["tier"] = own.tier.slug if own.tier else ""
        super().__init__(data, initial=initial, prefix=above.slug, auto_id="narrow-%s")
        lower = [tier for tier in known.named.values() if tier.priority <= above.tier.priority]
        tiers = [(tier.slug, f"{tier.name} ({tier.priority:,})") for tier in lower]
        self.fields["tier"].choices = [*AS_ABOVE, *tiers]  # type: ignore[attr-defined]  # a ChoiceField's

    def values(self) -> dict[str, Any]:
        """Return what was entered, as `NarrowingValues` has it."""
        entered = {key: value for key, value in self.cleaned_data.items() if key != "version"}
        return {key: None if value == "" else value for key, value in entered.items()}
