"""One small form per act. They read values; whether these may be is the actions' to say (`show_refusal`)."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Any, cast

from django import forms
from pydantic import ValidationError

from chamber import invalid
from chamber.errors import Refusal
from chamber.forms import Form
from teams.actions import PoolChanges, ShareEdit, TeamEdit
from teams.fields import (
    DurationField,
    GpusFormField,
    LabelsField,
    LinesField,
    LongSelect,
)
from teams.models import (
    ElasticPreemptionPolicy,
    FairnessPolicy,
    PlacementPolicy,
    Pool,
    PoolPolicy,
    PriorityRange,
    QueueingPolicy,
    Role,
    SharingPolicy,
    Team,
    TeamRules,
)
from teams.tree import Quota
from teams.values import ShareChanges, TeamChanges, share_problems, team_problems

NO_LIMIT = "no limit"
YES_OR_NO = [("", "Inherited"), ("true", "Yes"), ("false", "No")]


def show_refusal(form: forms.Form, refusal: Refusal, names: Mapping[str, str] | None = None) -> None:
    """Put the sentences of a refusal beside the form's fields; what has no field stands at the top.

    `names` maps a refusal's field to the form's where they differ; of `a.b.c` otherwise the last word counts.
    What is not allowed or not visible is no error of the form: it is raised again.
    """
    if refusal.status in {403, 404}:
        raise refusal
    if not refusal.fields:
        form.add_error(None, refusal.message)
    for key, sentence in refusal.fields.items():
        name = (names or {}).get(key, key.rpartition(".")[2])
        form.add_error(name if name in form.fields else None, sentence)


def _refuse(
    form: forms.Form, problems: Mapping[str, str], names: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Put sentences beside the fields that they are about; `names` are those that the form calls otherwise."""
    for key, sentence in problems.items():
        form.add_error(names.get(key, key), sentence)


class RowForm(Form):
    """A team's limits and its share of one pool, edited in its row of the tree."""

    version = forms.IntegerField(widget=forms.HiddenInput)
    share_version = forms.IntegerField(widget=forms.HiddenInput)
    reservation = GpusFormField(label="Reservation", help_text="GPUs, in steps of 0.001")
    pool_maximum = GpusFormField(label="Maximum here", required=False, help_text="GPUs of this pool")
    bursting_priority = forms.IntegerField(label="Bursting priority", help_text="1 to 10")
    burst_limit_percent = forms.IntegerField(
        label="Burst limit", required=False, help_text="% over guarantee"
    )
    maximum = GpusFormField(label="Maximum", required=False, help_text="GPUs of any one pool")

    def __init__(
        self, data: Any = None, *, team: Team, quota: Quota, limits: bool, prefix: str | None = None
    ) -> None:
        initial = {
            "version": team.version,
            "share_version": quota.version,
            "reservation": quota.reservation_milli,
            "pool_maximum": quota.maximum_milli,
            "bursting_priority": team.bursting_priority,
            "burst_limit_percent": team.burst_limit_percent,
            "maximum": team.maximum_milli,
        }
        super().__init__(data, initial=initial, auto_id=f"edit-{team.pk.hex}-%s", prefix=prefix)
        if not data and not prefix:
            self.fields["reservation"].widget.attrs["data-focus"] = True
        for name in ("pool_maximum", "burst_limit_percent", "maximum"):
            self.fields[name].widget.attrs["placeholder"] = NO_LIMIT
            if not limits:
                del self.fields[name]

    def clean(self) -> dict[str, Any]:
        """Refuse values that can be in no team and no share, together with those that cannot be read."""
        _refuse(self, team_problems(self.team_changes()))
        _refuse(self, share_problems(self.share_changes()), {"maximum": "pool_maximum"})
        return self.cleaned_data

    def differs(self) -> bool:
        """Return whether anything entered is not what is stored now."""
        return any(self.cleaned_data[name] != self.initial[name] for name in self.fields)

    def team_changes(self) -> TeamChanges:
        """Return what the form says of the team itself."""
        names = {"bursting_priority": "bursting_priority", "burst_limit_percent": "burst_limit_percent"}
        names["maximum_milli"] = "maximum"
        return cast("TeamChanges", self._present(names))

    def share_changes(self) -> ShareChanges:
        """Return what the form says of the share."""
        names = {"reservation_milli": "reservation", "maximum_milli": "pool_maximum"}
        return cast("ShareChanges", self._present(names))

    def edit(self, team: Team, pool: Pool) -> TeamEdit:
        """Return all that the form says, as an edit of the versions it was made from."""
        values = self.cleaned_data
        share = ShareEdit(pool=pool, version=values["share_version"], changes=self.share_changes())
        return TeamEdit(team=team, version=values["version"], changes=self.team_changes(), shares=(share,))

    def _present(self, names: Mapping[str, str]) -> dict[str, Any]:
        return {key: self.cleaned_data[name] for key, name in names.items() if name in self.cleaned_data}


class OrganisationForm(Form):
    """The name of the organisation, once."""

    name = forms.CharField(label="Name of the organisation", max_length=100)


class TeamForm(Form):
    """A new team."""

    parent = forms.ChoiceField(label="Below", widget=LongSelect)
    name = forms.CharField(label="Name", max_length=100)
    slug = forms.CharField(
        label="Short name",
        max_length=60,
        required=False,
        help_text="For addresses and the command line; made of the name where empty.",
    )
    bursting_priority = forms.IntegerField(
        label="Bursting priority", initial=1, help_text="From 1 to 10: its part of what lies idle."
    )

    def __init__(self, data: Any = None, *, parents: Iterable[tuple[str, str]], **options: Any) -> None:
        super().__init__(data, **options)
        cast("forms.ChoiceField", self.fields["parent"]).choices = list(parents)

    def clean(self) -> dict[str, Any]:
        """Refuse values that can be in no team; an empty short name is made of the name."""
        given = {key: value for key, value in self.cleaned_data.items() if key != "slug" or value}
        _refuse(self, team_problems(cast("TeamChanges", given)))
        return self.cleaned_data


class IdentityForm(Form):
    """A team's names."""

    version = forms.IntegerField(widget=forms.HiddenInput)
    name = forms.CharField(label="Name", max_length=100)
    slug = forms.CharField(label="Short name", max_length=60, help_text="Changing it changes addresses.")

    def __init__(self, data: Any = None, *, team: Team) -> None:
        initial = {"version": team.version, "name": team.name, "slug": team.slug}
        super().__init__(data, initial=initial, auto_id="identity-%s")

    def clean(self) -> dict[str, Any]:
        """Refuse values that can be in no team."""
        _refuse(self, team_problems(cast("TeamChanges", self.cleaned_data)))
        return self.cleaned_data


class MoveForm(Form):
    """Where a team goes."""

    version = forms.IntegerField(widget=forms.HiddenInput)
    parent = forms.ChoiceField(label="Move below", widget=LongSelect)

    def __init__(self, data: Any = None, *, team: Team, parents: Iterable[tuple[str, str]]) -> None:
        super().__init__(data, initial={"version": team.version}, auto_id="move-%s")
        cast("forms.ChoiceField", self.fields["parent"]).choices = [("", "Choose a team"), *parents]


class MemberForm(Form):
    """Whom to give which role."""

    who = forms.CharField(
        label="User name or e-mail address", max_length=254, help_text="Or a group, as group:NAME."
    )
    role = forms.ChoiceField(label="Role")

    def __init__(self, data: Any = None, *, roles: Iterable[Role]) -> None:
        super().__init__(data, auto_id="member-%s", initial={"role": Role.RESEARCHER})
        cast("forms.ChoiceField", self.fields["role"]).choices = [(role.value, role.label) for role in roles]


class GroupForm(Form):
    """A group to be made."""

    name = forms.CharField(max_length=60, help_text="Small letters, digits and hyphens.")

    def __init__(self, data: Any = None) -> None:
        super().__init__(data, auto_id="group-%s")


class GroupMemberForm(Form):
    """Somebody to put into a group."""

    who = forms.CharField(label="User name or e-mail address", max_length=254)

    def __init__(self, data: Any = None) -> None:
        super().__init__(data, auto_id="person-%s")


def _lines(names: tuple[str, ...] | None) -> list[str]:
    return ["none"] if names == () else list(names or ())


def _chosen(value: bool | None) -> str:
    return {None: "", True: "true", False: "false"}[value]


class RulesForm(Form):
    """What a team's members may ask for; an empty field is inherited."""

    version = forms.IntegerField(widget=forms.HiddenInput)
    researcher_elastic = forms.IntegerField(
        label="Researchers, elastic up to", required=False, min_value=0, max_value=99
    )
    researcher_reserved = forms.IntegerField(
        label="Researchers, reserved up to", required=False, min_value=100, max_value=1_000_000
    )
    lead_elastic = forms.IntegerField(label="Leads, elastic up to", required=False, min_value=0, max_value=99)
    lead_reserved = forms.IntegerField(
        label="Leads, reserved up to", required=False, min_value=100, max_value=1_000_000
    )
    largest_workload = GpusFormField(label="Largest workload", required=False, help_text="GPUs")
    longest_hours = forms.DecimalField(
        label="Longest time limit", required=False, min_value=Decimal("0.01"), help_text="Hours"
    )
    service_accounts = LinesField(
        label="Service accounts",
        help_text="That Jobs created with kubectl may name, one a line; none: the word none.",
    )
    volumes = LinesField(
        label="Kinds of volumes",
        help_text="That Jobs created with kubectl may mount, as Kubernetes names them, one a line.",
    )
    secrets = LinesField(
        label="Secrets",
        help_text="That Jobs created with kubectl may read, by variables or volumes, one a line; all: *, none: the "
        "word none.",
    )
    config_maps = LinesField(
        label="ConfigMaps",
        help_text="That Jobs created with kubectl may read, one a line; all: *, none: the word none.",
    )
    cluster_secrets = LinesField(
        label="Secrets of clusters",
        help_text="That credentials may refer to, one a line: NAME, NAMESPACE/NAME or CLUSTER/NAMESPACE/NAME, with * "
        "for any characters; none: the word none.",
    )
    plain_variables = LinesField(
        label="Variables that are no secrets",
        help_text="Though their names look so, one a line, with * for any characters; none: the word none.",
    )
    images = LinesField(
        label="Images",
        help_text="That workloads may run, one a line, such as registry.example.org/nlp/*, with * for any characters; "
        "none: the word none.",
    )
    digest_required = forms.NullBooleanField(
        label="Images by digest only",
        required=False,
        widget=forms.Select(choices=YES_OR_NO),
    )
    may_be_widened = forms.NullBooleanField(
        label="Teams below may be given more",
        required=False,
        widget=forms.Select(choices=YES_OR_NO),
    )

    LISTS = (
        *("service_accounts", "volumes", "secrets", "config_maps"),
        *("cluster_secrets", "plain_variables", "images"),
    )

    def __init__(self, data: Any = None, *, rules: TeamRules, version: int) -> None:
        seconds = rules.longest_time_limit_seconds
        researcher, lead = rules.researcher_priority, rules.lead_priority
        initial = {
            "version": version,
            "researcher_elastic": researcher and researcher.elastic_max,
            "researcher_reserved": researcher and researcher.reserved_max,
            "lead_elastic": lead and lead.elastic_max,
            "lead_reserved": lead and lead.reserved_max,
            "largest_workload": rules.largest_workload_milli,
            "longest_hours": None if seconds is None else f"{seconds / 3600:g}",
            "service_accounts": _lines(rules.service_accounts),
            "volumes": _lines(rules.volumes),
            "secrets": _lines(rules.secrets),
            "config_maps": _lines(rules.config_maps),
            "cluster_secrets": _lines(rules.cluster_secrets),
            "plain_variables": _lines(rules.plain_variables),
            "images": _lines(rules.images),
            "digest_required": _chosen(rules.digest_required),
            "may_be_widened": _chosen(rules.may_be_widened),
        }
        super().__init__(data, initial=initial, auto_id="rules-%s")

    def clean(self) -> dict[str, Any]:
        """Refuse reserved priorities without elastic ones: the two are one rule."""
        for who in ("researcher", "lead"):
            reserved = self.cleaned_data.get(f"{who}_reserved")
            if reserved is not None and self.cleaned_data.get(f"{who}_elastic") is None:
                self.add_error(f"{who}_elastic", "Say the highest elastic priority, too.")
        for field in self.LISTS:
            try:
                TeamRules.model_validate({field: self._names(field)})
            except ValidationError as error:
                self.add_error(field, list(invalid.sentences(error).values()))
        return self.cleaned_data

    def rules(self) -> TeamRules:
        """Return what was entered."""
        hours = self.cleaned_data["longest_hours"]
        return TeamRules(
            researcher_priority=self._range("researcher"),
            lead_priority=self._range("lead"),
            largest_workload_milli=self.cleaned_data["largest_workload"],
            longest_time_limit_seconds=None if hours is None else int(hours * 3600),
            service_accounts=self._names("service_accounts"),
            volumes=self._names("volumes"),
            secrets=self._names("secrets"),
            config_maps=self._names("config_maps"),
            cluster_secrets=self._names("cluster_secrets"),
            plain_variables=self._names("plain_variables"),
            images=self._names("images"),
            digest_required=self.cleaned_data["digest_required"],
            may_be_widened=self.cleaned_data["may_be_widened"],
        )

    def _names(self, field: str) -> tuple[str, ...] | None:
        lines = self.cleaned_data.get(field)
        return () if lines == ["none"] else tuple(lines) if lines else None

    def _range(self, who: str) -> PriorityRange | None:
        elastic, reserved = self.cleaned_data[f"{who}_elastic"], self.cleaned_data[f"{who}_reserved"]
        return None if elastic is None else PriorityRange(elastic_max=elastic, reserved_max=reserved)

    NAMES = {
        "researcher_priority": "researcher_elastic",
        "lead_priority": "lead_elastic",
        "largest_workload_milli": "largest_workload",
        "longest_time_limit_seconds": "longest_hours",
    }


def policy_in_words(policy: PoolPolicy) -> dict[str, str]:
    """Return what was chosen of each rule that has choices, as the form words it, by the rule's name."""
    fields = PoolForm.base_fields.items()
    choices = {
        name: dict(cast("Iterable[tuple[str, str]]", field.choices))
        for name, field in fields
        if isinstance(field, forms.ChoiceField)
    }
    return {name: choices[name][getattr(policy, name)] for name in choices}


class PoolForm(Form):
    """A pool: its names, which nodes it has, and its policy."""

    version = forms.IntegerField(widget=forms.HiddenInput, required=False)
    name = forms.CharField(label="Name", max_length=100)
    slug = forms.CharField(label="Short name", max_length=60)
    order = forms.IntegerField(
        label="Order", initial=0, help_text="A node belongs to the first pool that picks it."
    )
    node_selector = LabelsField(
        label="Node labels", help_text="One name=value a line, all must match; empty picks every node."
    )
    clusters = LinesField(
        label="Clusters",
        help_text="Names of the clusters that may serve it, one a line. Nodes of others are in no pool by its labels.",
    )
    topology = LinesField(label="Topology levels", help_text="One label name a line, outermost first.")
    paused = forms.BooleanField(label="Paused: nothing new is admitted", required=False)
    queueing = forms.ChoiceField(
        label="Queueing policy",
        help_text="What later workloads may do while the first has no place.",
        choices=[
            (QueueingPolicy.BACKFILL, "Backfill: later workloads start if they do not delay the first"),
            (QueueingPolicy.BEST_EFFORT_FIFO, "Best-effort FIFO: later workloads start if they fit"),
            (QueueingPolicy.STRICT_FIFO, "Strict FIFO: later workloads wait"),
        ],
    )
    elastic_preemption = forms.ChoiceField(
        label="Elastic preemption",
        help_text="Which elastic workloads an elastic workload may preempt. Reserved work preempts any of them.",
        choices=[
            (ElasticPreemptionPolicy.PRIORITY, "By priority, then by fair share"),
            (ElasticPreemptionPolicy.FAIR_SHARE, "By fair share only, across teams"),
            (ElasticPreemptionPolicy.NEVER, "None"),
        ],
    )
    placement = forms.ChoiceField(
        label="Placement",
        choices=[
            (PlacementPolicy.BINPACK, "Binpack: fill nodes one after the other"),
            (PlacementPolicy.SPREAD, "Spread: fill nodes evenly"),
        ],
    )
    fairness = forms.ChoiceField(
        label="Fairness",
        choices=[
            (FairnessPolicy.ENTITLEMENT, "Share: lowest use of entitlement first"),
            (FairnessPolicy.USAGE, "Usage: least recent use first"),
        ],
    )
    sharing = forms.ChoiceField(
        label="GPU sharing",
        choices=[
            (SharingPolicy.FRACTIONS, "Fractions of a GPU allowed"),
            (SharingPolicy.NONE, "Whole GPUs only"),
        ],
    )
    usage_half_life_seconds = DurationField(
        low=60, label="Usage half-life", help_text="For example 7d: past use counts half after this time."
    )
    min_runtime_seconds = DurationField(
        low=0,
        label="Minimum runtime before preemption",
        help_text="For example 30m after it started running; 0s: none. Reserved work may preempt earlier.",
    )
    max_preemptions = forms.IntegerField(
        label="Preemptions in 24 h, at most", required=False, help_text="Empty: no limit."
    )
    default_time_limit_seconds = DurationField(
        low=1,
        label="Default time limit",
        required=False,
        help_text="For example 2h: assumed in planning for workloads without one.",
    )
    cpu_per_gpu = forms.FloatField(
        label="CPU cores per GPU",
        required=False,
        min_value=0,
        max_value=1000,
        help_text="For workloads that request none. Empty: three quarters of what the nodes have; 0: none.",
    )
    memory_mib_per_gpu = forms.IntegerField(
        label="Memory per GPU (MiB)",
        required=False,
        min_value=0,
        help_text="For workloads that request none. Empty: three quarters of what the nodes have; 0: none.",
    )

    peak_hours = LinesField(
        label="Peak hours",
        help_text="For example mon-fri 08:00-18:00, one entry a line: then large elastic workloads wait. Empty: none.",
    )
    peak_zone = forms.CharField(
        label="Time zone of the peak hours",
        max_length=60,
        required=False,
        empty_value="UTC",
        help_text="For example Europe/Berlin. Empty: UTC.",
    )
    peak_max_gpus = forms.FloatField(
        label="GPUs of a workload in peak hours, at most",
        required=False,
        min_value=0,
        help_text="Larger elastic workloads wait for their end. Empty: no limit.",
    )
    peak_classes = LinesField(
        label="Job classes that wait in peak hours", help_text="One name a line; elastic workloads only."
    )

    POLICY = (
        "queueing",
        "elastic_preemption",
        "placement",
        "fairness",
        "sharing",
        "usage_half_life_seconds",
        "min_runtime_seconds",
        "max_preemptions",
        "default_time_limit_seconds",
        "cpu_per_gpu",
        "memory_mib_per_gpu",
        "peak_hours",
        "peak_zone",
        "peak_max_gpus",
        "peak_classes",
    )

    def __init__(self, data: Any = None, *, pool: Pool) -> None:
        initial: dict[str, Any] = {
            name: getattr(pool, name)
            for name in (
                "version",
                "name",
                "slug",
                "order",
                "node_selector",
                "clusters",
                "topology",
                "paused",
            )
        }
        super().__init__(data, initial=initial | pool.rules.model_dump(mode="json"))

    @property
    def always_shown(self) -> list[forms.BoundField]:
        """Return the fields but those of peak hours, which most pools leave empty."""
        return [field for field in self.visible_fields() if not field.name.startswith("peak_")]

    @property
    def of_peak_hours(self) -> list[forms.BoundField]:
        """Return the fields of peak hours."""
        return [field for field in self.visible_fields() if field.name.startswith("peak_")]

    @property
    def has_peak_hours(self) -> bool:
        """Return whether peak hours were entered, or something of them is wrong."""
        return bool(self["peak_hours"].value()) or any(field.errors for field in self.of_peak_hours)

    def changes(self) -> PoolChanges:
        """Return what was entered."""
        own = {name: value for name, value in self.cleaned_data.items() if name not in self.POLICY}
        own.pop("version")
        return cast("PoolChanges", own | {"policy": {name: self.cleaned_data[name] for name in self.POLICY}})
