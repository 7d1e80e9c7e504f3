"""What the page of one workload shows, gathered in a constant number of queries."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.urls import reverse
from django.utils import timezone

from chamber.words import span
from teams.actors import Actor, Via
from teams.models import Pool, Team
from workloads import advice, chains, known, manifests, variables
from workloads.actions import may_control
from workloads.models import Attempt, Event, EventKind, Status, Workload
from workloads.models.workload import ADMITTED
from workloads.quantities import gpus_text
from workloads.reasons import of_displaced
from workloads.shown_notes import shown_notes, unsaved_since

if TYPE_CHECKING:
    from chamber.models import User

EVENTS_SHOWN = 200
WAITING = (Status.PENDING, Status.QUEUED)


@dataclass(frozen=True, slots=True)
class Other:
    """A workload that this one preempted, or the one that preempted it; `workload` only where the viewer may
    see it.
    """

    event: Event
    team: str
    priority: int | None
    gpus_milli: int | None
    rule: str
    level: str
    workload: Workload | None
    lost_gpu_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Charge:
    """A part of an allocation: to whose guarantee it is charged; `team` is empty for what bursts."""

    team: str
    milli: int


def of(workload: Workload, user: "User") -> dict[str, Any]:
    """Return the context of the page: five queries, a few more where it depends on others or somebody was preempted.

    The workload's team and owner must be loaded, and on whom it depends (`with_dependence`).
    """
    pools = {str(pool.pk): pool for pool in Pool.objects.all()}
    attempts = list(workload.attempts.select_related("pool", "notes").order_by("-number"))
    events = list(workload.events.select_related(None).order_by("-sequence")[:EVENTS_SHOWN])
    told = _preemptions(workload, events)
    visible = _visible(told, user)
    last = attempts[0] if attempts else None
    now = timezone.now()
    slugs = {pool_id: pool.slug for pool_id, pool in pools.items()}
    after, awaited = (
        bool(getattr(workload, "waits_for_others", True)),
        bool(getattr(workload, "is_awaited", True)),
    )
    needs = chains.needs_of(workload, user) if after else []
    return {
        "workload": workload,
        "waits": workload.status in WAITING,
        "ended_reason": _ended_reason(workload, last, user),
        "attempts": attempts,
        "notes": shown_notes(last, now),
        "unsaved": span((now - since).total_seconds()) if (since := unsaved_since(last)) else "",
        "pending_since": _pending_since(workload, events),
        "last": last if last is not None and workload.status != Status.PENDING else None,
        "pools": [pools[str(chosen)] for chosen in workload.pool_choice if str(chosen) in pools],
        "charges": _charges(workload),
        "nodes": nodes_of(workload, attempts),
        "events": events,
        "more_events": workload.last_event > EVENTS_SHOWN,
        "preempted_by": [_by(event, visible) for event in told if event.kind == EventKind.STATUS],
        "preempted": [
            o for event in told if event.kind == EventKind.PREEMPTED_OTHERS for o in _victims(event, visible)
        ],
        "needs": needs,
        "chain": chains.chain_of(workload, user) if after or awaited else [],
        "manifest": manifests.to_yaml(manifests.content_of(workload, slugs, user=user, needs=needs)),
        "environment_address": _environment_address(workload),
        "values_hidden": bool(workload.environment) and not variables.sees_values(user, workload),
        "may_control": may_control(Actor.person(user, Via.PAGE), workload),
    }


def _environment_address(workload: Workload) -> str:
    """Return where its environment is shown; "" where it names none, or that was deleted."""
    if not workload.runs_in or workload.environment_version_id is None:
        return ""
    team, _, name = workload.runs_in.partition("@")[0].partition("/")
    return reverse("chamber:environment", args=[team, name])


def _pending_since(workload: Workload, events: Sequence[Event]) -> datetime:
    """Return when it last came to the queue; `events` are its events, newest first."""
    returned = (event.at for event in events if event.data.get("status") == Status.PENDING)
    return next(returned, workload.submitted_at)


def _ended_reason(workload: Workload, last: Attempt | None, user: "User") -> dict[str, str] | None:
    """Return the stored reason of an end, or of one that is about to come, in the words of the reason card."""
    displaced = of_displaced(last)
    if displaced is None and (workload.is_open or not workload.reason):
        return None
    reason = displaced.as_json() if displaced is not None else workload.reason
    step = reason.get("next_step", "")
    if not advice.is_for(step, workload, user):
        reason = {**reason, "next_step": advice.of_others(step, workload)}
    return {**reason, "sentence": reason.get("message", ""), "code": reason.get("code", workload.reason_code)}


def _preemptions(workload: Workload, newest: Sequence[Event]) -> list[Event]:
    """Return the events of its preemptions, both ways, newest first (one query where there are more events than the
    newest, which are given).
    """
    events: Iterable[Event] = newest
    if workload.last_event > len(newest):
        kinds = (EventKind.STATUS, EventKind.PREEMPTED_OTHERS)
        events = workload.events.filter(kind__in=kinds).order_by("-sequence")
    return [
        event
        for event in events
        if event.kind == EventKind.PREEMPTED_OTHERS
        or (event.kind == EventKind.STATUS and event.data.get("status") == Status.PREEMPTED)
    ]


def _visible(events: Iterable[Event], user: "User") -> dict[str, Workload]:
    """Return the workloads that the events speak of and the user may see, by their ids as text (one query)."""
    ids = {event.data["by"] for event in events if event.data.get("by")}
    ids |= {victim["workload"] for event in events for victim in event.data.get("victims", [])}
    if not ids:
        return {}
    found = Workload.objects.visible_to(user).filter(pk__in=[UUID(text) for text in ids])
    return {str(other.pk): other for other in found}


def _by(event: Event, visible: dict[str, Workload]) -> Other:
    told = event.data
    return Other(
        event=event,
        team=told.get("by_team", ""),
        priority=told.get("by_priority"),
        gpus_milli=told.get("gpus_milli"),
        rule=told.get("rule", ""),
        level=told.get("level", ""),
        workload=visible.get(told.get("by", "")),
        lost_gpu_seconds=told["lost_gpu_ms"] / 1000 if "lost_gpu_ms" in told else None,
    )


def _victims(event: Event, visible: dict[str, Workload]) -> list[Other]:
    return [
        Other(
            event=event,
            team=victim["team"],
            priority=victim["priority"],
            gpus_milli=victim["gpus_milli"],
            rule=victim["rule"],
            level=victim["level"],
            workload=visible.get(victim["workload"]),
        )
        for victim in event.data["victims"]
    ]


def _charges(workload: Workload) -> list[Charge]:
    if workload.attempt is None or workload.status not in ADMITTED:
        return []
    parts = workload.attempt.allocation
    names = {str(workload.team_id): workload.team.name}
    if above := {part["team"] for part in parts if part["team"]} - set(names):
        names |= {str(pk): name for pk, name in Team.objects.filter(pk__in=above).values_list("pk", "name")}
    return [Charge(names.get(str(part["team"]), ""), part["milli"]) for part in parts]


def nodes_of(workload: Workload, attempts: Sequence[Attempt]) -> list[dict[str, Any]]:
    """Return the nodes on which its pods lie, with their devices, for the node map (one query at most).

    Placements are reached by the name of their relation: the room that owns them lies above this one.
    """
    present = [attempt for attempt in attempts if attempt.released_at is None]
    if not present:
        return []
    placements = present[0].placements.model.objects.filter(attempt__in=present).exclude(hold="released")
    kind = "reserved" if workload.is_reserved else "elastic"
    nodes: dict[Any, dict[str, Any]] = {}
    for placement in placements.select_related("device__node__cluster"):
        device, node = placement.device, placement.device.node
        shown = nodes.setdefault(node.pk, {"name": node.name, "note": node.cluster.name, "devices": []})
        shown["state"] = "ready" if node.ready else "down"
        cut = device.slicing != known.WHOLE
        name = f"Slice {device.index} ({device.gpu_type})" if cut else f"GPU {device.index}"
        shown["devices"].append(
            {
                "state": kind,
                "index": device.index,
                "cut": cut,
                "title": f"{name}: pod {placement.pod_index}, {gpus_text(placement.share_milli)}, "
                f"{placement.get_hold_display()}",
            }
        )
    for shown in nodes.values():
        shown["devices"].sort(key=lambda device: device["index"])
    return sorted(nodes.values(), key=lambda node: str(node["name"]))
