"""The form of a submission: what it shows, and how what was typed becomes requests."""

import re
from typing import TYPE_CHECKING, Any

from django import forms
from django.http import QueryDict

from chamber import invalid
from chamber.errors import Refusal
from chamber.forms import Form
from teams.actors import Actor
from teams.fields import LongSelect
from teams.job_classes import OrganisationClasses
from teams.models import Pool, Team
from teams.permissions import Permission, paths_where
from teams.querysets import TeamQuerySet
from workloads import known, manifests
from workloads.admissible import completed
from workloads.environments.completing import references_in
from workloads.models import OnDeadline, OnPreemption
from workloads.quantities import gpus_text
from workloads.requests import SubmissionRequest, Unreadable

if TYPE_CHECKING:
    from chamber.models import User

OTHER = "other"
"""The choice beside the tiers: a priority of one's own."""

MOST_TYPES = 8
"""GPU types that the form names."""

LISTS = ("gpu_types", "pools", "tolerations", "depends_on", "credentials", "mounts")
_DETAILS = (
    "min_pods",
    "gpu_memory_mib",
    "cpu",
    "memory_mib",
    "shm_mib",
    "scratch_mib",
    "gpu_types",
    "topology_required",
    "topology_preferred",
    "partition",
    "tolerations",
    "node_selector",
)
PAIRS = ("environment", "node_selector", "labels", "annotations")


def requests_from(data: QueryDict, by: Actor) -> list[SubmissionRequest]:
    """Return what a posted submit form asks for, from its fields or from its manifest.

    Raises a `Refusal` whose `fields` are names of the form's fields.
    """
    if data.get("tab") == "yaml":
        return manifests.parse(data.get("manifest", ""), complete=lambda found: completed(found, by))
    content, lines = _content(data)
    try:
        asked = [SubmissionRequest.parse(content)]
        if lines:
            raise Unreadable([lines], asked)
    except Unreadable as unreadable:
        found = Unreadable([{**lines, **told} for told in unreadable.wrong], unreadable.rest)
        raise completed(found, by) from unreadable
    return asked


def _content(data: QueryDict) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the posted fields as a submission says them, empty ones left to their defaults; and sentences about those
    of which lines cannot be read.
    """
    wrong: dict[str, str] = {}
    content: dict[str, Any] = {
        name: str(data[name]).strip()
        for name in SubmitForm.base_fields
        if name in SubmissionRequest.model_fields and str(data.get(name, "")).strip()
    }
    for name in LISTS:
        if name in content:
            content[name] = [word for word in re.split(r"[,\s]+", content[name]) if word]
    for name in PAIRS:
        if name in content:
            content[name], told = pairs(content[name])
            if told:
                wrong[name] = invalid.together(told)
    if tier := data.get("tier", ""):
        content["priority"] = tier if tier != OTHER else data.get("priority", "")
    if "time_limit_seconds" in data and "time_limit_seconds" not in content:
        content["time_limit_seconds"] = None
    for name in ("hold", "fail_if_impossible", "read_notes"):
        content[name] = bool(data.get(name))
    return content, wrong


def pairs(text: str) -> tuple[dict[str, str], list[str]]:
    """Return the names and values, and a sentence for each line that is none."""
    pairs: dict[str, str] = {}
    wrong = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        name, equals, value = line.partition("=")
        if not equals:
            wrong.append(f"Line {number} is {invalid.shown(line.strip())}; write NAME=value on each line.")
            continue
        pairs[name.strip()] = value.strip()
    return pairs, wrong


def _text(label: str, *, help_text: str = "", required: bool = False, **attributes: Any) -> forms.CharField:
    """Return a field that takes any text: `SubmissionRequest` says what is wrong with it, here as in the
    API.
    """
    field = forms.CharField(label=label, help_text=help_text, required=False, strip=False)
    field.widget.attrs.update(attributes | {"autocomplete": "off"})
    field.widget.attrs.update({"aria-required": "true"} if required else {})
    return field


def _area(label: str, *, rows: int, help_text: str = "", **attributes: Any) -> forms.CharField:
    widget = forms.Textarea(attrs={"rows": rows, "class": "code", "spellcheck": "false", **attributes})
    return forms.CharField(label=label, help_text=help_text, required=False, strip=False, widget=widget)


def _choice(label: str, choices: Any = (), *, help_text: str = "", radio: bool = False) -> forms.CharField:
    widget = forms.RadioSelect(choices=choices) if radio else forms.Select(choices=choices)
    return forms.CharField(label=label, help_text=help_text, required=False, widget=widget)


class SubmitForm(Form):
    """What a person fills in. Names of fields are those of `SubmissionRequest`."""

    name = _text("Name", help_text="For example bert-sweep.", required=True, maxlength=100)
    team = forms.CharField(label="Team", required=False, widget=LongSelect)
    job_class = _choice("Job class", help_text="Proposes limits and priority; reports go by it.")
    runs_in = _choice(
        "Environment", help_text="An image with its settings. What you fill in below is taken in its place."
    )
    image = _text("Image", help_text="With its tag, for example registry.example/train:1.4.", maxlength=300)
    command = _area("Command", rows=3, help_text="Run by sh -c. Empty: what the image runs by itself.")
    working_dir = _text("Working folder", help_text="Such as /workspace. Empty: the image's own.")
    environment = _area("Variables", rows=3, help_text="NAME=value, one on each line.")
    credentials = _text(
        "Credentials",
        help_text="Secrets that its pods get, by their names: your own as hf-token, a team's as nlp/data.",
    )
    mounts = _text(
        "Data",
        help_text="Data sources and where pods have them, as imagenet:/data, or imagenet:/data:rw to write.",
    )
    labels = _area(
        "Labels", rows=2, help_text="name=value, one on each line; its Job and pods in Kubernetes bear them."
    )
    annotations = _area("Annotations", rows=2, help_text="name=value, one on each line.")
    depends_on = _text(
        "Starts after",
        help_text="Workloads or arrays that must complete first, by their names in URLs; afterany: or afternotok: "
        "before a name lets another end do.",
    )

    array = _area(
        "Members",
        rows=3,
        help_text="A range, such as 0-199; a grid, as lr=0.1,0.01 on a line for each parameter; or a CSV with a line "
        "of names. Each member has its parameters as variables.",
    )
    max_parallel = _text(
        "Members at once", help_text="At most so many have GPUs. Empty: any number.", inputmode="numeric"
    )

    pods = _text("Pods", inputmode="numeric")
    gpus = _text("GPUs per pod", help_text="0.25, 0.5, 0.75, or whole ones.", inputmode="decimal")
    min_pods = _text(
        "Starts with at least",
        help_text="Pods. Empty: with all of them at once, or not at all.",
        inputmode="numeric",
    )
    gpu_memory_mib = _text("or memory of one GPU", help_text="For example 10 GiB; instead of GPUs per pod.")
    cpu = _text("CPU cores per pod", help_text="Empty: the pool's default for its GPUs.", inputmode="decimal")
    memory_mib = _text("Memory per pod", help_text="For example 64 GiB. Empty: the pool's default.")
    shm_mib = _text("Shared memory per pod", help_text="A part of its memory. Empty: half of it.")
    scratch_mib = _text("Scratch per pod", help_text="Disk at /scratch while it runs, for example 200 GiB.")
    gpu_types = _text("GPU types", help_text="Best first; empty takes any.")
    pools = _choice("Pool")
    topology_required = _text(
        "Required topology level", help_text="All pods in one, such as rack; else it waits."
    )
    topology_preferred = _text(
        "Preferred topology level", help_text="In one, such as rack, where that can be."
    )
    partition = _text("Partition", help_text="Only for nodes that are kept for one.")
    node_selector = _area("Node labels", rows=2, help_text="name=value, one on each line.")
    tolerations = _text(
        "Tolerations", help_text="Taints, as key or key=value, and :Effect; parted by blanks."
    )
    time_limit_seconds = _text(
        "Time limit", help_text="For example 30m, 4h, 2d. A short one may start sooner. Empty: none."
    )

    tier = _choice(
        "Priority",
        radio=True,
    )
    priority = _text("Other priority", inputmode="numeric")
    on_preemption = _choice("When preempted", OnPreemption.choices)
    max_requeues = _text("Returns to the queue at most", help_text="Times.", inputmode="numeric")
    max_retries = _text("Retries after a failure", help_text="0 to try once only.", inputmode="numeric")
    grace_seconds = _text("Time to write a checkpoint", help_text="Between the notice and the end.")
    start_after = _text(
        "Earliest start", help_text="In 8h, or at 2026-12-01 20:00 Europe/Berlin. Empty: at once."
    )
    deadline = _text("Start deadline", help_text="If it has not started by then, it ends. Empty: none.")
    on_deadline = _choice("After the deadline", OnDeadline.choices)
    hold = forms.BooleanField(label="Hold it until I release it", required=False)
    fail_if_impossible = forms.BooleanField(label="Give up where it can never run", required=False)

    read_notes = forms.BooleanField(label="Read checkpoints and progress in its output", required=False)

    manifest = _area("Manifest", rows=22)
    tab = forms.CharField(required=False, widget=forms.HiddenInput)
    token = forms.CharField(required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, user: "User", classes: OrganisationClasses, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["job_class"].widget.choices = [(each.slug, each.name) for each in classes.taken]
        tiers = [(slug, f"{tier.name} ({tier.priority:,})") for slug, tier in classes.named.items()]
        self.fields["tier"].widget.choices = [*tiers, (OTHER, "Other")]
        teams = teams_to_submit_to(user).values_list("slug", "depth", "name")
        self.fields["team"].widget.choices = [
            (slug, "\u2003" * (depth - 1) + name) for slug, depth, name in teams
        ]
        self._offer_environments(user)
        self.fields["gpu_types"].help_text = gpu_types_help(known.pools())
        pools = [("", "Any pool"), *((pool.slug, pool.name) for pool in Pool.objects.visible_to(user))]
        chosen = str(self["pools"].value() or "")
        if "," in chosen:
            pools.append((chosen, chosen.replace(",", ", then ")))
        self.fields["pools"].widget.choices = pools

    def _offer_environments(self, user: "User") -> None:
        """Offer those that workloads of the chosen team may name; without any an image is needed (2 queries)."""
        teams = teams_to_submit_to(user)
        slug = str(self["team"].value() or "").replace("\x00", "")
        team = teams.filter(slug=slug).first() if slug else teams.first()
        names = references_in(team) if team is not None else []
        chosen = str(self["runs_in"].value() or "")
        if chosen and chosen not in names:
            names.append(chosen)
        self.fields["runs_in"].widget.choices = [
            ("", "None: an image by its name"),
            *((each, each) for each in names),
        ]
        self.needs_image = not names
        if self.needs_image:
            self.fields["image"].widget.attrs["aria-required"] = "true"
        else:
            self.fields["image"].help_text += " Empty: that of the environment."

    @property
    def details(self) -> list[forms.BoundField]:
        """Return what most submissions leave empty of how much they need."""
        return [self[name] for name in _DETAILS]

    @property
    def has_details(self) -> bool:
        """Return whether one of the details was filled in, or is wrong."""
        return any(bound.value() or bound.errors for bound in self.details)

    def refuse(self, refusal: Refusal) -> None:
        """Put the sentences of a refusal beside the fields that they are about."""
        self.is_valid()
        for name, said in refusal.fields.items():
            # Where a sentence begins with the field, it names it as programs do.
            known = name in self.fields and said.startswith(f"{name} ")
            sentence = f"{self.fields[name].label}{said.removeprefix(name)}" if known else said
            if name == manifests.FIELD:
                self.add_error(name, said.splitlines())
                continue
            field = name if name in self.fields else None
            if name == "priority" and self["tier"].value() != OTHER:
                field = "tier"
            self.add_error(field, sentence)
        if not refusal.fields:
            self.add_error(None, refusal.message)


def gpu_types_help(pools: known.KnownPools) -> str:
    """Return which GPU types there are, slices of GPUs apart: they go only to who names them, one to a pod."""
    whole = sorted(pools.gpu_types - pools.slices.keys())
    cut = [f"{each.name} ({gpus_text(each.share_milli)})" for _, each in sorted(pools.slices.items())]
    told = ["Best first; empty takes any GPU." if cut else "Best first; empty takes any."]
    for label, names in (("GPUs", whole), ("Slices of a GPU, one to a pod, only by name", cut)):
        if names:
            more = f" and {len(names) - MOST_TYPES} more" if len(names) > MOST_TYPES else ""
            told.append(f"{label}: {', '.join(names[:MOST_TYPES])}{more}.")
    return " ".join(told)


def teams_to_submit_to(user: "User") -> TeamQuerySet:
    """Return the teams that the user may submit to, in the order of the tree."""
    return Team.objects.active().under_any(paths_where(user, Permission.SUBMIT)).order_by("path")
