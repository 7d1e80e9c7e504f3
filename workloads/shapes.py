"""What workloads, attempts and events look like over the wire."""

from typing import Annotated, Any

from drf_spectacular.utils import PolymorphicProxySerializer, extend_schema_field
from pydantic import BaseModel, ConfigDict, Field, RootModel
from rest_framework import serializers

from teams.api.shapes import GpusField
from workloads import known
from workloads.arrays.shapes import SubmittedArrayShape
from workloads.data.written import as_text
from workloads.models import Attempt, EndReason, Event, OnDeadline, Workload
from workloads.requests import MOST_IN_ONE_REQUEST, SubmissionRequest
from workloads.shown_notes import ShownNotes, shown_notes


class WorkloadShape(serializers.ModelSerializer[Workload]):
    """A workload: what was asked for, and where it stands. Quantities are per pod unless they say otherwise."""

    team = serializers.SlugRelatedField[Any](slug_field="slug", read_only=True)
    owner = serializers.SlugRelatedField[Any](slug_field="username", read_only=True)
    pool = serializers.SlugRelatedField[Any](
        slug_field="slug",
        read_only=True,
        help_text="Where it is or was admitted last; null where it never was.",
    )
    pools = serializers.SerializerMethodField(help_text="Acceptable pools by slug, best first; empty = any.")
    priority_class = serializers.SerializerMethodField(help_text="reserved from priority 100, else elastic.")
    gpus = GpusField(source="gpu_milli", read_only=True, allow_null=True)
    total_gpus = GpusField(
        source="size_milli",
        read_only=True,
        allow_null=True,
        help_text="Of all pods; a slice counts as its share of a GPU.",
    )
    placed_pods = serializers.SerializerMethodField(
        help_text="How many of its pods have GPUs now: min_pods to pods of an admitted one; null of another."
    )
    held_gpus = GpusField(
        source="attempt.gpus_milli",
        read_only=True,
        allow_null=True,
        help_text="What its pods that have GPUs hold together; null where it is not admitted.",
    )
    slices = serializers.SerializerMethodField(
        help_text="How many slices it asks for, one a pod; null where it may take whole GPUs."
    )
    cpu = GpusField(source="cpu_milli", read_only=True, help_text="CPU cores.")
    environment = serializers.DictField(
        child=serializers.CharField(allow_null=True),
        read_only=True,
        help_text="Its variables; values are null but to its owner and to who manages the team's workloads.",
    )
    credentials = serializers.SerializerMethodField(help_text="Names of those that its pods get.")
    labels = serializers.SerializerMethodField(help_text="What its pods bear besides Chamber's own labels.")
    annotations = serializers.SerializerMethodField(
        help_text="What its pods bear besides Chamber's own annotations."
    )
    defaults = serializers.SerializerMethodField(
        help_text="Which of cpu and memory were not asked for: they are its pools' defaults for its GPUs."
    )
    on_deadline = serializers.ChoiceField(
        choices=OnDeadline.choices,
        read_only=True,
        allow_blank=True,
        help_text="What becomes of it where it is not Queued by its deadline; empty where it has none.",
    )
    runs_in = serializers.CharField(
        read_only=True,
        allow_null=True,
        help_text="The environment that it names, with its version: TEAM/NAME@NUMBER; null where none.",
    )
    working_dir = serializers.SerializerMethodField(
        help_text="The folder in which it runs; empty where it is the image's own."
    )
    scratch_mib = serializers.IntegerField(
        read_only=True, allow_null=True, help_text="Disk of each pod at /scratch; null where it has none."
    )
    mounts = serializers.SerializerMethodField(
        help_text="The data sources that it mounts, as SOURCE:PATH:ro or SOURCE:PATH:rw."
    )
    read_notes = serializers.SerializerMethodField(
        help_text="Whether its output is read for notes of checkpoints and progress."
    )
    attempt = serializers.SerializerMethodField(help_text="Number of the open attempt.")
    array = serializers.SlugRelatedField[Any](
        slug_field="slug", read_only=True, allow_null=True, help_text="The array that it is a member of."
    )
    adopted_from = serializers.SerializerMethodField(
        help_text="The Job that somebody created with kubectl, as cluster/namespace/name; null where none."
    )

    class Meta:
        model = Workload
        fields = (
            "id",
            "slug",
            "name",
            "team",
            "owner",
            "job_class",
            "priority",
            "priority_class",
            "pods",
            "min_pods",
            "gpus",
            "gpu_memory_mib",
            "total_gpus",
            "placed_pods",
            "held_gpus",
            "slices",
            "cpu",
            "memory_mib",
            "shm_mib",
            "scratch_mib",
            "defaults",
            "gpu_types",
            "node_selector",
            "tolerations",
            "partition",
            "topology_required",
            "topology_preferred",
            "pools",
            "time_limit_seconds",
            "grace_seconds",
            "on_preemption",
            "max_requeues",
            "max_retries",
            "start_after",
            "deadline",
            "on_deadline",
            "fail_if_impossible",
            "read_notes",
            "runs_in",
            "image",
            "working_dir",
            "command",
            "environment",
            "mounts",
            "credentials",
            "labels",
            "annotations",
            "status",
            "status_since",
            "reason_code",
            "reason",
            "held",
            "backoff_until",
            "requeues",
            "failures",
            "pool",
            "attempt",
            "array",
            "array_index",
            "adopted_from",
            "submitted_at",
            "finished_at",
            "version",
        )
        read_only_fields = fields

    def get_adopted_from(self, workload: Workload) -> str | None:
        """Return where it was adopted from, where that was read along with it: what is just submitted was not."""
        relation = Workload._meta.get_field("adopted_job")
        job = relation.get_cached_value(workload, None)
        return str(job) if job is not None else None

    def get_credentials(self, workload: Workload) -> list[str]:
        """Return the credentials that it names, as it names them."""
        found: list[str] = workload.credentials or []
        return found

    def get_placed_pods(self, workload: Workload) -> int | None:
        """Return how many of its pods have GPUs, where that was read along with it."""
        placed: int | None = getattr(workload, "placed_pods", None)
        return placed

    def get_slices(self, workload: Workload) -> int | None:
        """Return how many slices of GPUs it asks for, where it takes nothing else."""
        return None if workload.slices is None else workload.slices.pods

    def get_labels(self, workload: Workload) -> dict[str, str]:
        """Return the labels that were submitted."""
        return workload.labels or {}

    def get_annotations(self, workload: Workload) -> dict[str, str]:
        """Return the annotations that were submitted."""
        return workload.annotations or {}

    def get_defaults(self, workload: Workload) -> list[str]:
        """Return what it has by default: cpu, memory."""
        return workload.defaults or []

    def get_mounts(self, workload: Workload) -> list[str]:
        """Return what it mounts."""
        return [as_text(each) for each in workload.mounts or []]

    def get_working_dir(self, workload: Workload) -> str:
        """Return the folder in which it runs."""
        return workload.working_dir or ""

    def get_read_notes(self, workload: Workload) -> bool:
        """Return whether its output is read for notes."""
        return bool(workload.read_notes)

    def get_pools(self, workload: Workload) -> list[str]:
        """Return the slugs of the acceptable pools."""
        slugs = known.slugs()
        return [slugs[pool] for pool in workload.pool_choice if pool in slugs]

    def get_priority_class(self, workload: Workload) -> str:
        """Return reserved or elastic."""
        return "reserved" if workload.is_reserved else "elastic"

    def get_attempt(self, workload: Workload) -> int | None:
        """Return the number of the open attempt."""
        return workload.attempt.number if workload.attempt is not None else None


class OneWorkloadShape(WorkloadShape):
    """A workload by itself."""

    depends_on = serializers.ListField(
        child=serializers.CharField(),
        read_only=True,
        help_text="Those that it starts after, as far as you may see them.",
    )

    class Meta:
        model = Workload
        fields = (*WorkloadShape.Meta.fields, "depends_on")
        read_only_fields = fields


class SubmittedShape(OneWorkloadShape):
    """A workload that was just submitted."""

    warnings = serializers.ListField(
        child=serializers.CharField(),
        read_only=True,
        help_text="What keeps it from ever starting as things are, whoever else waits; it is taken all the same.",
    )

    class Meta:
        model = Workload
        fields = (*OneWorkloadShape.Meta.fields, "warnings")
        read_only_fields = fields


class NotesShape(serializers.Serializer[Any]):
    """What an attempt said last of checkpoints and progress; null where it never did."""

    checkpointed_at = serializers.DateTimeField(allow_null=True, help_text="When it saved last.")
    step = serializers.IntegerField(allow_null=True, help_text="Of the last checkpoint.")
    checkpoints = serializers.IntegerField(help_text="How many it saved.")
    unsaved_since = serializers.DateTimeField(
        allow_null=True, help_text="From when work is lost if it is stopped now; null where it does not run."
    )
    progress = serializers.SerializerMethodField(help_text="A part of 1.")
    progress_at = serializers.DateTimeField(allow_null=True)
    ends_at = serializers.DateTimeField(
        allow_null=True, help_text="At the pace so far; null where none is known."
    )
    links = serializers.DictField(child=serializers.CharField(), help_text="Addresses by name.")
    refused = serializers.IntegerField(help_text="How many notes were not taken; events say why.")

    def get_progress(self, notes: ShownNotes) -> float | None:
        """Return how far it is."""
        return None if notes.percent is None else round(notes.percent / 100, 6)


class AttemptShape(serializers.ModelSerializer[Attempt]):
    """One try to run a workload."""

    pool = serializers.SlugRelatedField[Any](slug_field="slug", read_only=True)
    gpus = GpusField(source="gpus_milli", read_only=True)
    allocation = serializers.SerializerMethodField(
        help_text="What it is charged to: team (null = burst), gpus."
    )
    end_reason = serializers.ChoiceField(
        choices=EndReason.choices,
        read_only=True,
        allow_blank=True,
        help_text="How it ended; empty while it has not.",
    )
    images = serializers.SerializerMethodField(
        help_text="What its pods' nodes pulled, by digest; several where a tag meant another image meanwhile."
    )
    notes = serializers.SerializerMethodField(
        help_text="What it said of checkpoints and progress; null where it said nothing."
    )
    reason = serializers.SerializerMethodField(
        help_text="Why it ended, as a code: node-lost, drained, exit-code, ...; of an open attempt, why it is about to."
    )

    class Meta:
        model = Attempt
        fields = (
            "id",
            "number",
            "pool",
            "phase",
            "gpus",
            "allocation",
            "queued_at",
            "starting_at",
            "running_at",
            "ended_at",
            "released_at",
            "end_reason",
            "reason",
            "exit_code",
            "end_detail",
            "images",
            "notes",
        )
        read_only_fields = fields

    def get_images(self, attempt: Attempt) -> list[str]:
        """Return what was pulled."""
        found: list[str] = attempt.images or []
        return found

    @extend_schema_field(NotesShape(allow_null=True))
    def get_notes(self, attempt: Attempt) -> dict[str, Any] | None:
        """Return what it said."""
        notes = shown_notes(attempt, self.context["now"])
        return None if notes is None else dict(NotesShape(notes).data)

    def get_reason(self, attempt: Attempt) -> str:
        """Return the cause's code, else how it ended."""
        return str(attempt.end_detail.get("code") or attempt.end_reason)

    def get_allocation(self, attempt: Attempt) -> list[dict[str, Any]]:
        """Return the parts with the slugs of their teams."""
        slugs: dict[str, str] = self.context.get("team_slugs", {})
        return [
            {"team": slugs.get(str(part["team"])) if part["team"] else None, "gpus": part["milli"] / 1000}
            for part in attempt.allocation
        ]


class EventShape(serializers.ModelSerializer[Event]):
    """What happened to a workload."""

    class Meta:
        model = Event
        fields = ("sequence", "at", "kind", "actor", "via", "attempt_number", "message", "data")
        read_only_fields = fields


class SeveralSubmissions(BaseModel):
    """Workloads that are submitted together, all or none."""

    model_config = ConfigDict(extra="forbid")

    workloads: Annotated[list[SubmissionRequest], Field(min_length=1, max_length=MOST_IN_ONE_REQUEST)]
    dry_run: Annotated[bool, Field(description="Check everything and submit nothing.")] = False


class SubmissionBody(RootModel[SubmissionRequest | SeveralSubmissions]):
    """One workload, or several."""


class ManySubmittedShape(serializers.Serializer[Any]):
    """Workloads and arrays that were just submitted together; none of a dry run. Members of arrays are not listed."""

    workloads = SubmittedShape(many=True)
    arrays = SubmittedArrayShape(many=True)


# What the API's document shows of a submission; the words are those of the form and of YAML too.
SUBMISSION = SubmissionBody
SUBMITTED = PolymorphicProxySerializer(
    component_name="Submitted",
    serializers=[SubmittedShape, ManySubmittedShape],
    resource_type_field_name=None,
)
