"""When a submission may start and by when it must: how the two agree with each other and with now."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from django.utils import timezone

from workloads.models import Workload
from workloads.moments import moment, moment_text


def start_after(value: object) -> datetime | None:
    """Return the moment before which a workload is not to start; None where nothing is said."""
    return None if value is None else moment(value, timezone.now())


def deadline(value: object, earliest: datetime | None) -> datetime | None:
    """Return the moment by which a workload is to be Queued; refuse one that is past, or not after the `earliest`."""
    if value is None:
        return None
    now = timezone.now()
    found = moment(value, now)
    if found <= now:
        raise ValueError(
            f"The deadline {moment_text(found)} has passed: it is {moment_text(now)}. Give a later one."
        )
    if earliest is not None and found <= earliest:
        raise ValueError(
            f"The deadline {moment_text(found)} is not after the earliest start, {moment_text(earliest)} "
            "(start_after): it could never start. Give a later deadline or an earlier start."
        )
    return found


def asked(workload: Workload) -> Mapping[str, Any]:
    """Return what a submission says again of a workload's times; what has passed is left out."""
    now = timezone.now()
    due = workload.deadline if workload.deadline and workload.deadline > now else None
    earliest = workload.start_after if workload.start_after and workload.start_after > now else None
    return {
        "start_after": earliest and _written(earliest),
        "deadline": due and _written(due),
        "on_deadline": str(workload.on_deadline or "fail") if due else "fail",
    }


def _written(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
