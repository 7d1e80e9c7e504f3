"""What is taken and can never start as things are: told with the answer to a submission, in words of the reason."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from django.conf import settings
from django.utils.module_loading import import_string

from workloads.models import Workload
from workloads.quantities import gpus_text
from workloads.requests import SubmissionRequest


def of_sharing(workload: Workload, asked: SubmissionRequest) -> list[str]:
    """Return that a workload has whole GPUs where it asked for parts of them, if so."""
    if asked.gpu_milli is None or asked.gpu_milli == workload.gpu_milli:
        return []
    kind = "reserved work" if workload.is_reserved else "work"
    return [
        f"Each pod has a GPU of its own in place of {gpus_text(asked.gpu_milli)}: {kind} of the class "
        f"{workload.job_class} shares none with others."
    ]


def of(workloads: Sequence[Workload]) -> Mapping[UUID, list[str]]:
    """Return warnings about each of these new workloads, mostly none: those of the app above that schedules them."""
    found: Mapping[UUID, list[str]] = import_string(settings.CHAMBER_NEVER_STARTS)(workloads)
    return found
