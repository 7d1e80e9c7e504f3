"""What a cluster should run, from the tables, as messages: the full set, or what changed since a generation.

What cannot be told (its row holds what no message may) keeps no other from being told: it is left out, logged,
counted with the cluster's rejected messages, and its attempt ends with that as its reason.
"""

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.urls import reverse
from django.utils import timezone
from pydantic import ValidationError

from agentlink import protocol
from agentlink.assignments import LINK
from agentlink.data import DataMissing, Mounting
from agentlink.handing import CannotHand, HandedTo, Handing
from agentlink.models import AdoptedJob, Assignment, BoundNamespace, Cluster, Hold, Placement
from agentlink.protocol import (
    MAX_SENTENCE,
    NOTICE_FROM_SECONDS,
    NOTICE_SECONDS,
    Adopted,
    AssignedMount,
    AssignedPod,
    AssignedShare,
    Desired,
    StopNotice,
    StopOrder,
)
from chamber.collecting import without_collecting
from teams.models.job_class import RESERVED_FROM
from workloads import lifecycle, reasons
from workloads.attempt_tokens import token_of
from workloads.models import AttemptNotes, EndReason

logger = logging.getLogger(__name__)

HELD = (Hold.PROMISED, Hold.HELD)

RowKey = tuple[int, str]


class WentBack(Exception):  # noqa: N818 - an outcome that the session expects
    """The tables are behind what an agent was told: they were restored from a backup."""


def full_set(cluster_id: UUID, connection: UUID) -> list[Desired]:
    """Return all that the cluster should run or must stop (four queries, or five)."""
    cluster = _told_cluster(cluster_id)
    current = Assignment.objects.filter(Q(wanted=True) | Q(gone=False), cluster=cluster_id)
    with without_collecting():
        return _messages(_ordered(current), cluster, connection=connection, base=None)


def since(cluster_id: UUID, base: int, connection: UUID) -> list[Desired]:
    """Return what changed after generation `base`; nothing where nothing did (four queries or five, else one).

    Raises `WentBack` where the cluster never had that generation.
    """
    cluster = _told_cluster(cluster_id)
    if cluster.generation < base:
        raise WentBack
    if cluster.generation == base:
        return []
    changed = Assignment.objects.filter(
        cluster=cluster_id, generation__gt=base, generation__lte=cluster.generation
    )
    return _messages(_ordered(changed), cluster, connection=connection, base=base)


class _ToldCluster(NamedTuple):
    """The cluster that is told, and up to which change the set goes."""

    generation: int
    name: str
    agent_version: str
    id: UUID


def _told_cluster(cluster_id: UUID) -> _ToldCluster:
    """Return it as it is now: read first and in no transaction with the set, which would wait for writers.

    What changes while the set is read comes again with the next delta.
    """
    columns = ("desired_generation", "name", "agent_version", "pk")
    return _ToldCluster(*Cluster.objects.values_list(*columns).get(pk=cluster_id))


class _Row(NamedTuple):
    """What a message needs of an assignment, its attempt and its workload: whole rows of all three cost three times."""

    cluster_id: UUID
    placed_at: datetime
    wanted: bool
    gone: bool
    let_go: bool
    reported: int
    attempt_id: UUID
    number: int
    workload_id: UUID
    team_id: UUID
    team: str
    owner: str
    end_reason: str
    end_detail: dict[str, Any]
    ended_at: datetime | None
    slug: str
    pods: int
    tolerations: list[str]
    image: str
    command: list[str]
    environment: dict[str, str]
    cpu_milli: int
    memory_mib: int
    grace_seconds: int
    time_limit_seconds: int | None
    name: str
    job_class: str
    min_pods: int
    labels: dict[str, str] | None
    annotations: dict[str, str] | None
    shm_mib: int | None
    read_notes: bool | None
    priority: int
    credentials: list[str] | None
    working_dir: str | None
    scratch_mib: int | None
    mounts: list[dict[str, Any]] | None


_COLUMNS = (
    *(
        "cluster",
        "created_at",
        "wanted",
        "gone",
        "let_go",
        "report_sequence",
        "attempt",
        "attempt__number",
        "attempt__workload",
        "attempt__workload__team",
        "attempt__workload__team__slug",
        "attempt__workload__owner__username",
        "attempt__end_reason",
        "attempt__end_detail",
        "attempt__ended_at",
    ),
    *(f"attempt__workload__{name}" for name in _Row._fields[15:]),
)


def _ordered(rows: QuerySet[Assignment]) -> list[_Row]:
    return [_Row(*row) for row in rows.order_by("attempt").values_list(*_COLUMNS)]


def _messages(
    rows: list[_Row], cluster: _ToldCluster, *, connection: UUID, base: int | None
) -> list[Desired]:
    wanted = [row for row in rows if row.wanted]
    pods = _pods([row.attempt_id for row in wanted])
    spaces = _Spaces(wanted)
    steps = _resumed_from(wanted)
    handing = Handing(
        (row.workload_id for row in wanted if row.credentials and row.let_go),
        cluster=cluster.name,
        agent_version=cluster.agent_version,
    )
    mounting = Mounting(
        [(row.workload_id, row.team_id) for row in wanted if row.mounts],
        cluster_id=cluster.id,
        cluster=cluster.name,
        agent_version=cluster.agent_version,
    )
    told: list[protocol.DesiredAttempt] = []
    untold: dict[UUID, str] = {}
    unhanded: dict[UUID, CannotHand | DataMissing] = {}
    for row in wanted:
        try:
            mounts = _mounts(row, spaces, mounting)
            step = steps.get(row.attempt_id)
            told.append(_assignment(row, pods[row.attempt_id], spaces, handing, step, mounts=mounts))
        except (CannotHand, DataMissing) as error:
            unhanded[row.attempt_id] = error
        except ValueError as error:
            untold[row.attempt_id] = _without_values(error)
    if untold:
        _refuse(rows[0].cluster_id, untold)
    if unhanded:
        _put_back(unhanded)
    handing.note_use()
    return list(
        protocol.desired_in_parts(
            connection=connection,
            generation=cluster.generation,
            base=base,
            assignments=told,
            stop=[_stop_order(row) for row in rows if not row.wanted and not row.gone],
            forget=[row.attempt_id for row in rows if row.gone],
        )
    )


def _mounts(row: _Row, spaces: "_Spaces", mounting: Mounting) -> tuple[AssignedMount, ...]:
    """Return what an attempt's pods mount; raise `DataMissing` where they cannot have all that they ask for."""
    asks = {
        "has a working folder": row.working_dir,
        "has scratch": row.scratch_mib,
        "mounts data": row.mounts,
    }
    later = [told for told, value in asks.items() if value]
    to = HandedTo(row.workload_id, row.team_id, spaces.namespace(row), is_begun=row.reported > 0)
    return mounting.of(to, row.mounts or (), later=later)


def _without_values(error: ValueError) -> str:
    """Return what is wrong with an assignment; of where pydantic quotes values, which may be secrets, the places."""
    if isinstance(error, ValidationError):
        places = (".".join(map(str, each["loc"])) for each in error.errors(include_input=False))
        return f"{', '.join(places)[:400]} cannot be written."
    return " ".join(str(error).split())[:500]


def _put_back(unhanded: Mapping[UUID, "CannotHand | DataMissing"]) -> None:
    """Put attempts back in the queue that cannot be handed what they name, or have what they mount, with reasons."""
    for attempt_id, why in unhanded.items():
        logger.info("Attempt %s is not handed what it names: %s", attempt_id, why.message)
    refusals = {key: reasons.of_refusal(why.code, why.message) for key, why in unhanded.items()}
    with transaction.atomic():
        lifecycle.refuse_many(refusals, by=LINK, at=timezone.now())


def _refuse(cluster_id: UUID, untold: dict[UUID, str]) -> None:
    """End attempts that no agent can be told of; what was not begun goes back to the queue, after a pause."""
    Cluster.objects.filter(pk=cluster_id).update(rejected_messages=F("rejected_messages") + len(untold))
    for attempt_id, why in untold.items():
        logger.error("Attempt %s cannot be told to the agent of cluster %s: %s", attempt_id, cluster_id, why)
    now = timezone.now()
    message = "What it asks for cannot be written as a message to the cluster's agent."
    try:
        with transaction.atomic():
            refused = lifecycle.refuse_many(
                dict.fromkeys(untold, reasons.of_refusal("cannot-be-told", message)), by=LINK, at=now
            )
            ended = [
                lifecycle.Ended(attempt_id, None, now, "cannot-be-told", message)
                for attempt_id in untold.keys() - refused
            ]
            lifecycle.finish_many(ended, by=LINK, at=now)
    except Exception:
        logger.exception("They could not be ended either, and are left out.")


def _pods(attempt_ids: list[UUID]) -> dict[UUID, tuple[AssignedPod, ...]]:
    """Return where the pods of these attempts lie, in the order of their indexes."""
    shares: dict[UUID, dict[RowKey, list[AssignedShare]]] = defaultdict(lambda: defaultdict(list))
    rows = Placement.objects.filter(attempt__in=attempt_ids, hold__in=HELD).order_by(
        "pod_index", "device__index"
    )
    fields = ("attempt", "pod_index", "device__node__name", "device__index", "share_milli")
    for attempt_id, pod_index, node, index, share in rows.values_list(*fields):
        shares[attempt_id][pod_index, node].append(AssignedShare(index=index, share_milli=share))
    return defaultdict(
        tuple,
        {
            attempt_id: tuple(
                AssignedPod(index=pod_index, node=node, devices=tuple(devices))
                for (pod_index, node), devices in pods.items()
            )
            for attempt_id, pods in shares.items()
        },
    )


class _Spaces:
    """In which namespaces attempts run, and which Jobs they are (one query, two where a team has a namespace)."""

    def __init__(self, rows: Sequence[_Row]) -> None:
        bound = BoundNamespace.objects.filter(cluster__in={row.cluster_id for row in rows}).order_by()
        self._of_team = {
            team_id: (namespace, since)
            for team_id, namespace, since in bound.values_list("team", "namespace", "since")
        }
        workloads = [row.workload_id for row in rows if row.team_id in self._of_team]
        jobs = AdoptedJob.objects.filter(workload__in=workloads).order_by()
        self._jobs = {
            workload_id: Adopted(namespace=namespace, name=name, uid=uid)
            for workload_id, namespace, name, uid in jobs.values_list("workload", "namespace", "name", "uid")
        }

    def adopted(self, row: _Row) -> Adopted | None:
        """Return the Job that the workload is; None where the agent makes one."""
        return self._jobs.get(row.workload_id)

    def namespace(self, row: _Row) -> str:
        """Return the namespace of the attempt, the same for all its life; "" where it is the agent's own."""
        if row.workload_id in self._jobs:
            return self._jobs[row.workload_id].namespace
        namespace, since = self._of_team.get(row.team_id, ("", row.placed_at))
        return namespace if row.placed_at >= since else ""


def _resumed_from(rows: Sequence[_Row]) -> dict[UUID, int]:
    """Return at which step the attempts go on that are not the first of their workload (1 query, none without any)."""
    later = {row.workload_id: row for row in rows if row.number > 1}
    if not later:
        return {}
    saved = AttemptNotes.objects.filter(attempt__workload__in=later, step__isnull=False)
    steps: dict[UUID, int] = {}
    fields = ("attempt__workload", "attempt__number", "step")
    for workload_id, number, step in saved.order_by("attempt__number").values_list(*fields):
        if number < later[workload_id].number and step is not None:
            steps[later[workload_id].attempt_id] = step
    return steps


def _assignment(
    row: _Row,
    pods: tuple[AssignedPod, ...],
    spaces: _Spaces,
    handing: Handing,
    resumed_from: int | None,
    *,
    mounts: tuple[AssignedMount, ...],
) -> protocol.DesiredAttempt:
    """Return the assignment as it is told; raise `ValueError` where it does not fit the protocol, and `CannotHand`."""
    namespace = spaces.namespace(row)
    given = None
    if row.credentials and row.let_go:
        given = handing.of(HandedTo(row.workload_id, row.team_id, namespace, is_begun=row.reported > 0))
    assignment = protocol.DesiredAttempt(
        name=row.name,
        owner=row.owner,
        job_class=row.job_class,
        least_pods=row.min_pods,
        labels=row.labels or {},
        annotations=row.annotations or {},
        shm_mib=row.shm_mib,
        read_notes=bool(row.read_notes),
        resumed_from=resumed_from,
        **_notes_door(row.attempt_id),
        reserved=row.priority >= RESERVED_FROM,
        workload=row.workload_id,
        slug=row.slug,
        attempt=row.attempt_id,
        number=row.number,
        pods=pods,
        let_go=row.let_go,
        most_pods=row.pods,
        team=row.team,
        namespace=namespace,
        adopted=spaces.adopted(row),
        tolerations=tuple(row.tolerations),
        image=row.image,
        command=tuple(row.command),
        environment=row.environment,
        cpu_milli=row.cpu_milli,
        memory_mib=row.memory_mib,
        grace_seconds=row.grace_seconds,
        time_limit_seconds=row.time_limit_seconds,
        reported=row.reported,
        credentials=given,
        working_dir=row.working_dir or "",
        scratch_mib=row.scratch_mib or 0,
        mounts=mounts,
    )
    protocol.check_size(assignment)
    return assignment


def _notes_door(attempt_id: UUID) -> dict[str, str]:
    """Return where pods of an attempt say what they saved, and by which token; nothing where they reach no server."""
    if not settings.POD_URL:
        return {}
    path = reverse("api-attempt-notes", kwargs={"attempt_id": attempt_id})
    return {"notes_url": f"{settings.POD_URL}{path}", "notes_token": token_of(attempt_id)}


def _stop_order(row: _Row) -> StopOrder:
    return StopOrder(
        workload=row.workload_id,
        attempt=row.attempt_id,
        number=row.number,
        reported=row.reported,
        notice=_notice(row),
    )


def _notice(row: _Row) -> StopNotice | None:
    """Return what pods are told before their signal: those that are preempted, where they were granted long enough."""
    if (
        row.end_reason != EndReason.PREEMPTED
        or row.grace_seconds < NOTICE_FROM_SECONDS
        or row.ended_at is None
    ):
        return None
    return StopNotice(
        why=str(row.end_detail.get("message") or "It is preempted.")[:MAX_SENTENCE],
        signal_at=row.ended_at + timedelta(seconds=NOTICE_SECONDS),
        grace_seconds=row.grace_seconds - NOTICE_SECONDS,
    )
