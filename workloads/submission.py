"""The one way in: the form, the API and the command line all submit through here."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from django.db import IntegrityError, transaction
from django.utils import timezone

from chamber import limits, live
from chamber.bulk import insert_each
from chamber.errors import Conflict, Refusal
from chamber.ids import new_ids, unique_slug
from chamber.transactions import keep
from chamber.words import count
from teams.actors import Actor
from teams.models import Team
from teams.permissions import Permission, require
from workloads import defaults, warnings
from workloads.admissible import SubmissionContext, check, refusal_by
from workloads.arrays import members
from workloads.arrays.members import NewArray
from workloads.credentials import naming
from workloads.defaults import PerGpu
from workloads.lifecycle import lines
from workloads.lifecycle.journal import announce
from workloads.models import (
    Credential,
    DataSource,
    Dependency,
    Environment,
    Event,
    EventKind,
    MountedSource,
    NamedCredential,
    SubmissionKey,
    Workload,
    WorkloadArray,
)
from workloads.requests import SubmissionRequest

if TYPE_CHECKING:
    from chamber.models import User

KEY_KEPT = timedelta(hours=24)
LONGEST_KEY = 200
TRIES = 3
NEEDS = ("id", "workload", "needs", "needs_array", "kind", "created_at")


@dataclass(frozen=True, slots=True)
class Submitted:
    """What was submitted, in the order of the requests: workloads that are no members, and arrays.

    `firsts` are the first members of the arrays, where these were made just now.
    """

    workloads: list[Workload] = field(default_factory=list)
    arrays: list[WorkloadArray] = field(default_factory=list)
    firsts: list[Workload] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.workloads or self.arrays)


def submit(
    *,
    by: Actor,
    requests: Sequence[SubmissionRequest],
    key: str | None = None,
    body_sha256: str = "",
    owner: "User | None" = None,
    message: str = "Submitted.",
) -> list[Workload]:
    """Do what `submit_all` does; return the workloads that are no members of arrays."""
    return submit_all(
        by=by, requests=requests, key=key, body_sha256=body_sha256, owner=owner, message=message
    ).workloads


def submit_all(
    *,
    by: Actor,
    requests: Sequence[SubmissionRequest],
    key: str | None = None,
    body_sha256: str = "",
    owner: "User | None" = None,
    message: str = "Submitted.",
) -> Submitted:
    """Create the workloads and arrays, all or none, Pending; return them in the order of the requests.

    They are the actor's, unless Chamber itself submits for an `owner`. `message` is what their first event says.

    With an idempotency `key` of the last 24 hours and the same body, return what was created then; another
    body is
    a `Conflict`. Raises a `Refusal` with a sentence per field where a request cannot be taken.
    """
    owner = owner or _owner(by)
    if key is not None and not 1 <= len(key) <= LONGEST_KEY:
        raise Refusal(f"The Idempotency-Key has {len(key)} characters; 1 to {LONGEST_KEY} are allowed.")
    # What an agent submits, of Jobs that people made, is bounded where these are made.
    with limits.spent(limits.SUBMISSIONS, by.user, by=sum(each.size for each in requests)) as spent:
        made, again = _submit(by, requests, key, body_sha256, owner=owner, message=message)
        spent.for_nothing = again
    return made


def _submit(
    by: Actor,
    requests: Sequence[SubmissionRequest],
    key: str | None,
    body_sha256: str,
    *,
    owner: "User",
    message: str,
) -> tuple[Submitted, bool]:
    """Return what there is now, and whether it was submitted before with the same key."""
    for _ in range(TRIES):
        try:
            with transaction.atomic():
                if answer := _replay(by, key, body_sha256):
                    return answer, True
                return _create(by, owner, requests, key, body_sha256, message=message), False
        except IntegrityError:
            # Another request with the same key committed between our look and our insert: its answer is ours. Or
            # chance gave a slug twice: the next try has others.
            if answer := _replay(by, key, body_sha256):
                return answer, True
    with transaction.atomic():
        return _create(by, owner, requests, key, body_sha256, message=message), False


def _refuse_too_many_open(by: Actor, owner: "User", more: int) -> None:
    """Refuse a person who would have more open workloads than they may (one query)."""
    most = limits.most_open("open", "open_workloads", owner) if by.user is not None else 0
    if not most:
        return
    held = Workload.objects.open().filter(owner=owner).order_by()[: most + 1].count()
    if held + more > most:
        adds = f", and this would add {count(more, 'more', 'more')}" if held < most or more > 1 else ""
        raise limits.exceeded(
            "open",
            most,
            f"You have {count(held, 'open workload')} of at most {most:,}{adds}. Cancel some, or wait until some have "
            "ended.",
        )


def _owner(by: Actor) -> "User":
    if by.user is None:
        raise Refusal("A workload needs an owner: it is submitted by a person.")
    return by.user


def _replay(by: Actor, key: str | None, body_sha256: str) -> Submitted:
    if key is None:
        return Submitted()
    kept = SubmissionKey.objects.filter(
        owner=by.user, key=key, created_at__gt=timezone.now() - KEY_KEPT
    ).first()
    if kept is None:
        return Submitted()
    if kept.body_sha256 != body_sha256:
        raise Conflict(
            f"The Idempotency-Key {key!r} was used with another body within the last 24 hours: "
            "send the same body, or a new key.",
            code="idempotency-key-used",
        )
    found = Workload.objects.select_related("team", "owner").in_bulk(
        [UUID(text) for text in kept.workload_ids]
    )
    rows = [found[UUID(text)] for text in kept.workload_ids]
    keys = [UUID(text) for text in kept.array_ids or ()]
    arrays = WorkloadArray.objects.select_related("team", "owner").in_bulk(keys) if keys else {}
    told = Submitted(rows, [arrays[key] for key in keys])
    # Who may not see them any more, or not with this token, is answered as to a new key.
    for team in [row.team for row in rows] + [array.team for array in told.arrays]:
        require(by, Permission.VIEW_WORKLOADS, team)
    return told


def _create(
    by: Actor,
    owner: "User",
    requests: Sequence[SubmissionRequest],
    key: str | None,
    body_sha256: str,
    *,
    message: str,
) -> Submitted:
    now = timezone.now()
    # Teams are not archived or moved, and workloads that are needed not deleted, between our look and our commit.
    keep(Team.objects.filter(slug__in={request.team for request in requests}))
    if needed := {need.name for request in requests for need in request.needs}:
        keep(Workload.objects.filter(slug__in=needed))
        keep(WorkloadArray.objects.filter(slug__in=needed))
    setting = SubmissionContext.read(by, requests)
    keep(DataSource.objects.filter(pk__in=setting.sources.ids()))
    keep(Environment.objects.filter(pk__in=setting.environments.ids()))
    keep(Credential.objects.filter(pk__in={row.pk for row in setting.credentials.named.values()}))
    prepared = prepare(by=by, requests=requests, setting=setting, at=now, owner=owner)
    taken = [setting.settled(request) for request in requests]
    _refuse_too_many_open(by, owner, sum(request.size for request in requests))
    stored = list(zip(prepared, requests, taken, strict=True))
    single = [(workload, asked, request) for workload, asked, request in stored if request.array is None]
    workloads = [workload for workload, _, _ in single]
    Workload.objects.bulk_create(workloads)
    Event.objects.bulk_create(
        _first_event(workload, asked, by, now, message) for workload, asked, _ in single
    )
    NamedCredential.objects.bulk_create(
        row
        for workload, _, request in single
        for row in naming.rows_of(workload, setting.credentials.of(request.credentials))
    )
    MountedSource.objects.bulk_create(
        row for workload, _, request in single for row in setting.sources.rows_of(workload, request)
    )
    for workload, request, _ in single:
        vars(workload)["waits_for_others"] = bool(request.depends_on)
    arrays = [
        _array(workload, request, setting, by=by, at=now, message=_first_words(workload, asked, message))
        for workload, asked, request in stored
        if request.array is not None
    ]
    _write_needs(prepared, requests, arrays, setting)
    if key is not None:
        SubmissionKey.objects.filter(owner=owner, key=key, created_at__lte=now - KEY_KEPT).delete()
        SubmissionKey.objects.create(
            owner=owner,
            key=key,
            body_sha256=body_sha256,
            workload_ids=[str(w.pk) for w in workloads],
            array_ids=[str(new.array.pk) for new in arrays] or None,
        )
    announce([*workloads, *(new.first for new in arrays)])
    told = [lines.JournalLine(workload.slug, None, f"{message} By {by.name}.") for workload in workloads]
    told += [
        lines.JournalLine(new.array.slug, None, f"{message} An array of {new.array.size:,}. By {by.name}.")
        for new in arrays
    ]
    lines.tell(told)
    live.ring()
    return Submitted(workloads, [new.array for new in arrays], [new.first for new in arrays])


def _array(
    template: Workload,
    request: SubmissionRequest,
    setting: SubmissionContext,
    *,
    by: Actor,
    at: datetime,
    message: str,
) -> NewArray:
    """Store an array with all that its members have."""
    assert request.array is not None  # noqa: S101 - told apart by the caller
    new = members.create(template, request.array, request.max_parallel, by=by, at=at, message=message)
    members.name_credentials(new, setting.credentials.of(request.credentials))
    found = (setting.sources.source(mount, template.team) for mount in request.mounts)
    members.mount(new, [source for source in found if source is not None])
    return new


def _write_needs(
    prepared: Sequence[Workload],
    requests: Sequence[SubmissionRequest],
    arrays: Sequence[NewArray],
    setting: SubmissionContext,
) -> None:
    """Store what each workload, and each member of an array, starts after; others of the request are there by now."""
    known, left = setting.needed, iter(arrays)
    new = [None if request.array is None else next(left) for request in requests]
    rows: list[tuple[UUID, UUID | None, UUID | None, str]] = []
    for workload, request, of in zip(prepared, requests, new, strict=True):
        for need in request.needs:
            one, array = known.workloads.get(need.name), known.arrays.get(need.name)
            if one is None and array is None:
                place = known.beside[need.name][0]
                beside = new[place]
                one, array = (prepared[place].pk, None) if beside is None else (None, beside.array.pk)
            rows += [(key, one, array, need.kind) for key in ([workload.pk] if of is None else of.ids)]
    at = timezone.now()
    insert_each(Dependency, NEEDS, [(pk, *row, at) for pk, row in zip(new_ids(len(rows)), rows, strict=True)])


def prepare(
    *,
    by: Actor,
    requests: Sequence[SubmissionRequest],
    setting: SubmissionContext | None = None,
    at: datetime | None = None,
    owner: "User | None" = None,
) -> list[Workload]:
    """Return the workloads that `submit` would store, unsaved, after all its checks; for previews. For an array that is
    one row, which has what all members have in common.

    Raises `NotAllowed` for the team, and else one `Refusal` with everything that is wrong, `NotVisible` where a team is
    not there.
    """
    owner = owner or _owner(by)
    setting = setting or SubmissionContext.read(by, requests)
    requests = [setting.settled(request) for request in requests]
    wrong = [request.as_written(check(request, setting)) for request in requests]
    if any(wrong):
        setting = setting.looked_at_again()
        wrong = [request.as_written(check(request, setting)) for request in requests]
    if any(wrong):
        raise refusal_by(wrong, setting)
    slugs = _different_slugs([request.name for request in requests])
    now = at or timezone.now()
    return [_row(request, slug, owner, setting, now) for request, slug in zip(requests, slugs, strict=True)]


def _amounts(request: SubmissionRequest, setting: SubmissionContext) -> tuple[PerGpu, list[str]]:
    """Return CPU and memory of each pod, and which of them are defaults of the pools that it accepts."""
    accepted = request.pools or setting.pools.by_slug
    gpu_milli = setting.pools.least_milli(request.gpu_milli, request.gpu_types)
    default = defaults.of(accepted, setting.pools.per_gpu, gpu_milli)
    cpu_milli, memory_mib, given = round(request.cpu * 1000), request.memory_mib, []
    if "cpu" not in request.model_fields_set and default.cpu_milli:
        cpu_milli, given = default.cpu_milli, [defaults.CPU]
    if "memory_mib" not in request.model_fields_set and default.memory_mib:
        # Shared memory counts as memory.
        memory_mib, given = max(default.memory_mib, request.shm_mib or 0), [*given, defaults.MEMORY]
    return PerGpu(cpu_milli, memory_mib), given


def _row(
    request: SubmissionRequest, slug: str, owner: "User", setting: SubmissionContext, now: datetime
) -> Workload:
    amounts, given = _amounts(request, setting)
    full = setting.resolved(request)
    return Workload(
        slug=slug,
        name=request.name,
        owner=owner,
        team=setting.teams[request.team],
        job_class=full.job_class,
        priority=full.priority,
        pods=request.pods,
        min_pods=request.starting_pods,
        gpu_milli=request.gpu_milli,
        gpu_memory_mib=request.gpu_memory_mib,
        cpu_milli=amounts.cpu_milli,
        memory_mib=amounts.memory_mib,
        shm_mib=request.shm_mib,
        labels=request.labels or None,
        annotations=request.annotations or None,
        defaults=given or None,
        gpu_types=request.gpu_types,
        node_selector=request.node_selector,
        tolerations=request.tolerations,
        partition=request.partition,
        topology_required=request.topology_required,
        topology_preferred=request.topology_preferred,
        pool_choice=[str(setting.pools.by_slug[pool].pk) for pool in dict.fromkeys(request.pools)],
        time_limit_seconds=full.time_limit_seconds,
        grace_seconds=request.grace_seconds,
        on_preemption=full.on_preemption,
        max_requeues=request.max_requeues,
        max_retries=full.max_retries,
        start_after=request.start_after,
        deadline=request.deadline,
        on_deadline=request.on_deadline if request.deadline else "",
        fail_if_impossible=request.fail_if_impossible,
        read_notes=request.read_notes or None,
        runs_in=request.runs_in or None,
        environment_version=setting.environments.version(request, setting.teams[request.team]),
        working_dir=request.working_dir or None,
        scratch_mib=request.scratch_mib,
        mounts=[mount.model_dump() for mount in request.mounts] or None,
        image=request.image,
        command=request.command,
        environment=request.environment,
        credentials=request.credentials or None,
        status_since=now,
        submitted_at=now,
        held=request.hold,
        last_event=1,
    )


def _first_words(workload: Workload, request: SubmissionRequest, message: str) -> str:
    """Return what the first event says."""
    held = ["Held until somebody releases it."] if workload.held else []
    return " ".join([message, *warnings.of_sharing(workload, request), *held])


def _first_event(
    workload: Workload, request: SubmissionRequest, by: Actor, now: datetime, message: str
) -> Event:
    return Event(
        workload=workload,
        sequence=1,
        at=now,
        kind=EventKind.SUBMITTED,
        user=by.user,
        actor=by.name,
        via=by.via,
        message=_first_words(workload, request, message),
        data={"status": workload.status},
    )


def _different_slugs(names: Sequence[str]) -> list[str]:
    """Return a slug for each name, none of them twice; that no other workload has one is for the database to say."""
    slugs: dict[str, None] = {}
    for name in names:
        slug = unique_slug(name)
        while slug in slugs:
            slug = unique_slug(name)
        slugs[slug] = None
    return list(slugs)
