"""What a submission asks for where it says nothing itself: by its job class, in its team.

Every way in is resolved here: form, YAML, API, command line, Jobs made with kubectl, and what is submitted again.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from chamber.words import nearest
from teams.job_classes import ClassDefaults, OrganisationClasses
from teams.models import Team
from teams.models.job_class import RESERVED_FROM
from workloads.requests import SubmissionRequest

WHOLE_MILLI = 1000
NORMAL_PRIORITY = 50
"""Stands in where the priority asked for cannot be told."""


@dataclass(frozen=True, slots=True)
class ResolvedRequest:
    """A submission with what it has by its class. `problems` are sentences by field about names that are not there;
    `by_class` the fields that it left to its class.
    """

    job_class: str
    priority: int
    time_limit_seconds: int | None
    max_retries: int
    on_preemption: str
    class_name: str = ""
    shares_devices: bool = True
    by_class: frozenset[str] = frozenset()
    problems: dict[str, str] = field(default_factory=dict)


def resolve(
    request: SubmissionRequest,
    team: Team | None,
    known: OrganisationClasses,
    *,
    longest_seconds: int | None = None,
) -> ResolvedRequest:
    """Return the submission as its class and team complete it; without a team as the organisation has it.

    A time limit that is the class's is never longer than the team's rules allow.
    """
    slug = known.default if request.job_class is None else request.job_class
    found = known.of(team, slug) if team is not None else known.classes.get(slug)
    problems = _unknown(slug, found, known)
    priority = _priority(request, found, known, problems)
    limit, by_class = request.time_limit_seconds, set()
    if "time_limit_seconds" not in request.model_fields_set:
        by_class.add("time_limit_seconds")
        limit = shortest(found.time_limit_seconds if found else None, longest_seconds)
    if request.priority is None:
        by_class.add("priority")
    return ResolvedRequest(
        job_class=slug,
        priority=priority,
        time_limit_seconds=limit,
        max_retries=_or(request.max_retries, found.max_retries if found else 0),
        on_preemption=str(request.on_preemption or (found.on_preemption if found else "requeue")),
        class_name=found.name if found else "",
        shares_devices=found.shares(priority) if found else True,
        by_class=frozenset(by_class),
        problems=problems,
    )


def on_devices_of_its_own(request: SubmissionRequest, full: ResolvedRequest) -> SubmissionRequest:
    """Return the request with a whole GPU for each pod where it asks for a part of one that it may not share.

    Nobody else may use the rest of it then, so that it counts as what it takes: in quotas as on the device.
    """
    milli = request.gpu_milli
    if full.shares_devices or milli is None or milli >= WHOLE_MILLI:
        return request
    return request.model_copy(update={"gpus": 1})


def no_memory_of_its_own(request: SubmissionRequest, full: ResolvedRequest) -> str:
    """Return why memory of a GPU cannot be asked for, where it may not be shared; "" where it can."""
    if full.shares_devices or request.gpu_memory_mib is None:
        return ""
    return (
        f"{whose_devices(full)} shares no GPU with others, so that each pod has one of its own: give gpus 1 in "
        f"place of {request.gpu_memory_mib:,} MiB of one, and name GPU types where its memory matters."
    )


def whose_devices(full: ResolvedRequest) -> str:
    """Return in words what shares no GPU."""
    return (
        f"Reserved work of the class {full.class_name}"
        if full.priority >= RESERVED_FROM
        else (f"Work of the class {full.class_name}")
    )


def shortest(*limits: int | None) -> int | None:
    """Return the shortest of time limits; None is none."""
    return min((limit for limit in limits if limit is not None), default=None)


def _or(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value


def _unknown(slug: str, found: ClassDefaults | None, known: OrganisationClasses) -> dict[str, str]:
    taken = [each.slug for each in known.taken]
    if found is None and not known.classes:
        return {"job_class": "There is no job class yet: an organisation admin makes one in Settings."}
    if found is None:
        hint = nearest(slug, taken) or _there_are(taken)
        return {"job_class": f"There is no job class {slug!r}.{hint}"}
    if found.is_retired:
        return {"job_class": f"The job class {slug!r} is retired and takes nothing new.{_there_are(taken)}"}
    return {}


def _priority(
    request: SubmissionRequest,
    found: ClassDefaults | None,
    known: OrganisationClasses,
    problems: dict[str, str],
) -> int:
    asked = request.priority
    if asked is None:
        return found.tier.priority if found else NORMAL_PRIORITY
    if isinstance(asked, int):
        return asked
    if asked in known.named:
        return known.named[asked].priority
    hint = nearest(asked, known.named) or _there_are(known.named)
    problems["priority"] = (
        f"There is no priority tier {asked!r}; give one, or a whole number from 0 to 1,000,000.{hint}"
    )
    return NORMAL_PRIORITY


def _there_are(names: Iterable[str]) -> str:
    return f" There are: {', '.join(names) or 'none'}."
