"""What is taken and can never start as things are: told with the answer to a submission, in words of the reason."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from django.conf import settings
from django.utils.module_loading import import_string

from workloads.models import Workload


def of(workloads: Sequence[Workload]) -> Mapping[UUID, list[str]]:
    """Return warnings about each of these new workloads, mostly none: those of the app above that schedules them."""
    found: Mapping[UUID, list[str]] = import_string(settings.CHAMBER_NEVER_STARTS)(workloads)
    return found
