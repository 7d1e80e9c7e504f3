"""Jobs created with kubectl in bound namespaces become workloads, as far as the team's rules allow.

What an agent discovers is told whole, and each time anew: a Job that was seen before keeps its workload, one that was
changed afterwards loses it and is looked at like a new one, and where a Job is not there any more its workload is
cancelled. Labels are wishes: the binding says whose the work is; how much it may ask for, the team's
rules.
"""

import hashlib
import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from uuid import UUID

from django.contrib.auth import get_user_model
from django.db import IntegrityError, transaction
from django.db.models import F, Q
from django.utils import timezone

from agentlink import spaces
from agentlink.models import AdoptedJob, BoundNamespace, Cluster, Device
from agentlink.protocol import Discovered, DiscoveredJob, Report, Verdict
from chamber import live, logs
from chamber.errors import Refusal
from chamber.transactions import keep
from chamber.words import count, plural
from teams.actors import Actor
from teams.job_classes import OrganisationClasses
from teams.models import ANY, CLUSTER_LABEL, Role
from teams.permissions import Permission, may
from teams.rules import EffectiveRules, effective_rules_by_team, kubectl_limits
from workloads import images, lifecycle
from workloads.models import EndReason as AttemptEnd
from workloads.models import Status, Workload
from workloads.models.workload import OPEN
from workloads.reasons import PASSING, REFUSAL_STEPS, REFUSED, WorkloadEnd, for_job
from workloads.requests import SubmissionRequest
from workloads.resolved import NORMAL_PRIORITY
from workloads.submission import submit

if TYPE_CHECKING:
    from chamber.models import User

logger = logging.getLogger(__name__)

JOB_DELETED = "job-deleted"
"""The agents' code for a Job that was deleted."""
JOB_ENDED, JOB_CHANGED = "job-ended", "job-changed"
NEXT_STEPS = {
    JOB_DELETED: "Create the Job again in {namespace}, suspended, to run it once more.",
    JOB_ENDED: "To run it again, delete the Job first: kubectl delete job {name} -n {namespace}. Then create it again, "
    "suspended.",
    JOB_CHANGED: "Nothing to do: the Job is looked at anew as it is now. If it is not adopted, its events say why: "
    "kubectl describe job {name} -n {namespace}.",
}
"""What to do where a Job takes its workload along."""
RETRY_ANNOTATION = "chamber.internal/retry"
MOST_TRIES = 3
"""So many refusals in a row by its cluster put an adopted workload on hold: its Job is its people's to mend."""
MOST_OF_NOTE = 2000
MOST_REFUSED = 20
"""Refused Jobs that are shown of a namespace."""


@dataclass(frozen=True, slots=True)
class _Allowed:
    """What Jobs in a namespace are measured against: the rules of its team, the organisation's classes and tiers."""

    rules: EffectiveRules
    classes: OrganisationClasses


def take(cluster: Cluster, message: Discovered) -> tuple[Verdict, ...]:
    """Take in a part of what the agent discovered; return what became of each Job of a bound namespace.

    Seven queries and those of a submission for each Job that is new; one more where annotations name people, and one
    for each of these.
    """
    spaces.take(cluster, message.namespaces)
    rows = BoundNamespace.objects.filter(cluster=cluster.pk).select_related("team", "owner")
    bound = {row.namespace: row for row in rows}
    known = _known(cluster, message)
    if message.version == (cluster.namespaces_version or 0):
        _cancel_vanished(cluster, message, known.values())
    teams = {row.team for row in bound.values()} if message.jobs else set()
    rules = effective_rules_by_team(teams) if teams else {}
    classes = OrganisationClasses.read(teams) if teams else OrganisationClasses((), {}, "", {})
    people = _people(message.jobs)
    verdicts = []
    for job in message.jobs:
        if (space := bound.get(job.namespace)) is not None:
            named = _named(people.get(job.who), space)
            known_row = known.get(job.uid)
            allowed = _Allowed(rules[space.team_id], classes)
            verdicts.append(_judge(cluster, space, job, known_row, allowed, named=named))
    _note_refused(bound, message, verdicts)
    return tuple(verdict for verdict in verdicts if verdict.workload or verdict.refused)


def _people(jobs: Iterable[DiscoveredJob]) -> dict[str, "User"]:
    """Return the people that the Jobs' annotations name and that have an account, by user name (one query if any)."""
    names = {job.who for job in jobs if job.who}
    people = get_user_model().objects.filter(username__in=names, is_active=True) if names else ()
    return {user.username: user for user in people}


def _named(user: "User | None", bound: BoundNamespace) -> "User | None":
    """Return the person as far as an annotation can make the Job theirs: where they may submit to the team anyway.

    A person who may write the Job may name any other, and gives away by that the steering of this one Job only.
    """
    return user if user is not None and may(user, Permission.SUBMIT, bound.team) else None


def _known(cluster: Cluster, message: Discovered) -> dict[str, AdoptedJob]:
    """Return the adopted Jobs that the message may be about, by uid: those it names, and those that are not over."""
    rows = AdoptedJob.objects.filter(cluster=cluster.pk, current=True).select_related("workload")
    named = Q(uid__in=[job.uid for job in message.jobs])
    return {row.uid: row for row in rows.filter(named | Q(workload__status__in=OPEN))}


def _cancel_vanished(cluster: Cluster, message: Discovered, known: Iterable[AdoptedJob]) -> None:
    """Cancel the workloads of Jobs that the message should name and does not.

    Compared here: databases order uids by the rules of a language.
    """
    uids = {job.uid for job in message.jobs}
    upto = message.jobs[-1].uid if message.jobs else message.after
    ready = {report.namespace for report in message.namespaces if report.ready}
    for row in known:
        spoken_for = row.uid > message.after and (message.last or row.uid <= upto)
        if spoken_for and row.uid not in uids and row.namespace in ready and row.workload.is_open:
            _cancel(row, JOB_DELETED, "was deleted in the cluster", by=Actor.agent(cluster.name))


def cancel_over(cluster_id: UUID, reports: Mapping[UUID, Report], *, by: Actor) -> set[UUID]:
    """Cancel, of workloads whose attempts ended because their Jobs were deleted or have ended, the adopted ones: they
    cannot run again. Returns their attempts (one query, and those of a cancellation for each).
    """
    over = [attempt_id for attempt_id, report in reports.items() if report.reason in (JOB_DELETED, JOB_ENDED)]
    if not over:
        return set()
    rows = AdoptedJob.objects.filter(cluster=cluster_id, workload__attempts__in=over)
    found = {
        row.ended: row for row in rows.annotate(ended=F("workload__attempts")).select_related("workload")
    }
    for attempt_id, row in found.items():
        report = reports[attempt_id]
        if report.reason == JOB_DELETED:
            _cancel(row, JOB_DELETED, "was deleted in the cluster", by=by)
        else:
            # An attempt that never began was too late: an earlier one knows the cause.
            _cancel(
                row, JOB_ENDED, _why_ended(row), by=by, message=report.message if report.created_at else ""
            )
    return set(found)


def _why_ended(row: AdoptedJob) -> str:
    """Return that a Job has ended, and what took its pods away before that, if anything did (1 query)."""
    # Those that began too late, before it was known, say nothing of the cause.
    ran = row.workload.attempts.exclude(end_reason__in=("", AttemptEnd.REFUSED))
    last = ran.order_by("-number").first()
    ended = "has ended in the cluster and cannot run again"
    if last is None or last.end_reason != AttemptEnd.DISPLACED:
        return ended
    cause = str(last.end_detail.get("message", "")).rstrip(".")
    return f"{ended}, for it allows no failure (backoffLimit 0): {cause}"


def _cancel(row: AdoptedJob, code: str, what: str, *, by: Actor, message: str = "") -> None:
    """Cancel the workload of a Job, for what became of this, or in the agent's words where it says it all."""
    why = WorkloadEnd(
        code,
        message or f"Its Job {row.namespace}/{row.name} {what}.",
        kind="ended",
        next_step=NEXT_STEPS[code].format(name=row.name, namespace=row.namespace),
    )
    with transaction.atomic():
        lifecycle.cancel_many([row.workload_id], by=by, at=timezone.now(), why=why)


def _judge(
    cluster: Cluster,
    bound: BoundNamespace,
    job: DiscoveredJob,
    row: AdoptedJob | None,
    allowed: _Allowed,
    *,
    named: "User | None",
) -> Verdict:
    """Return what becomes of one Job; for one that is over and was never adopted, nothing."""
    asked, by = digest(job), Actor.agent(cluster.name)
    if row is not None and (row.asked == asked or job.finished or _is_begun(row, job)):
        _note_revision(row, job, by=by)
        if row.named_owner_id != (named.pk if named else None):
            AdoptedJob.objects.filter(pk=row.pk).update(named_owner=named)
            live.announce(f"workload:{row.workload_id}")
        if job.finished and row.workload.status == Status.PENDING:
            _cancel(row, JOB_ENDED, _why_ended(row), by=by)
        return Verdict(uid=job.uid, workload=row.workload.slug, note=_note(row, job))
    if row is not None and row.workload.is_open:
        _cancel(row, JOB_CHANGED, "was changed in the cluster after it was adopted", by=by)
    if job.finished:
        return Verdict(uid=job.uid)
    try:
        request, note = _request(cluster, bound, job, allowed)
        workload = _adopt(cluster, bound, job, request, note=note, asked=asked, named=named)
    except Refusal as refusal:
        return Verdict(uid=job.uid, refused=refusal.message[:2000])
    return Verdict(uid=job.uid, workload=workload.slug, note=note)


def _is_begun(row: AdoptedJob, job: DiscoveredJob) -> bool:
    """Return whether its pods were let go and it is as it was adopted, but for what a later release of its agent finds
    wrong with it. Nothing of the pods of a Job that runs can be changed; it is judged once it is suspended.
    """
    if not job.problems or row.workload.status == Status.PENDING:
        return False
    return row.workload.is_open and row.asked == digest(job.model_copy(update={"problems": ()}))


def _note_revision(row: AdoptedJob, job: DiscoveredJob, *, by: Actor) -> None:
    """Have a workload that its cluster refused be tried anew where its Job was changed since."""
    if not job.revision or job.revision == row.revision:
        return
    AdoptedJob.objects.filter(pk=row.pk).update(revision=job.revision)
    if row.revision and row.workload.status == Status.PENDING:
        with transaction.atomic():
            why = f"Its Job {row.namespace}/{row.name} was changed in the cluster."
            lifecycle.try_again_many([row.workload_id], by=by, at=timezone.now(), why=why, anew=True)
        row.workload.refresh_from_db()


def _note(row: AdoptedJob, job: DiscoveredJob) -> str:
    """Return what is told in the cluster of a Job that was adopted: what is other than it asked, and why it is held."""
    workload = row.workload
    if not (workload.held and workload.reason.get("kind") == REFUSED):
        return row.note
    counted = lifecycle.in_a_row([workload.pk]).get(workload.pk)
    times = count(counted.refused if counted else MOST_TRIES, "time")
    again = f"kubectl annotate --overwrite -n {job.namespace} job/{job.name} {RETRY_ANNOTATION}=$(date +%s)"
    told = (
        f"It is on hold, for the cluster refused it {times} in a row: {workload.reason['message']} Mend that; then "
        f"any change of the Job, or chamber release {workload.slug}, has it tried again: {again}"
    )
    return f"{row.note} {told}".strip()[:MOST_OF_NOTE]


def bounds(refused: Mapping[UUID, WorkloadEnd]) -> dict[UUID, int]:
    """Return, of attempts that their cluster refused, by whose Jobs only people can have it take them, after how many
    refusals in a row they are held (1 query, none without any).
    """
    lasting = [attempt_id for attempt_id, reason in refused.items() if reason.code not in PASSING]
    if not lasting:
        return {}
    adopted = AdoptedJob.objects.filter(workload__attempts__in=lasting)
    return dict.fromkeys(adopted.values_list("workload__attempts", flat=True), MOST_TRIES)


def advised(reason: WorkloadEnd) -> WorkloadEnd:
    """Return the reason of a refusal with what the people of an adopted Job can do about it."""
    if reason.code not in REFUSAL_STEPS:
        return replace(reason, next_step="Mend what the message names.")
    return replace(reason, next_step=for_job(reason.next_step))


NOT_DIGESTED = {"finished", "who", "revision", "secrets", "config_maps", "images"}
"""What may change while the Job is there, and what older agents do not tell and cannot change."""


def digest(job: DiscoveredJob) -> str:
    """Return a digest of all that the Job asks for: not of how it stands.

    What older agents do not tell is left out where it is not said, or cannot change while the Job is there: their Jobs
    stay what they were.
    """
    said = job.model_dump(mode="json", exclude=NOT_DIGESTED)
    for name in ("gpu_types", "priority_class"):
        if not said[name]:
            del said[name]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def _request(
    cluster: Cluster, bound: BoundNamespace, job: DiscoveredJob, allowed: _Allowed
) -> tuple[SubmissionRequest, str]:
    """Return the Job as a submission, and what of it is other than it asked; raise a `Refusal`."""
    problems = [*job.problems, *_not_allowed(bound, job, allowed.rules)]
    if problems:
        raise Refusal(" ".join(problems))
    priority, note = _priority(bound, job, allowed)
    request = SubmissionRequest.parse(
        {
            "name": job.name[:100],
            "team": bound.team.slug,
            "priority": priority,
            "pods": job.pods,
            "gpus": job.gpus,
            "cpu": job.cpu_milli / 1000,
            "memory_mib": job.memory_mib,
            "gpu_types": _gpu_types(cluster, job),
            # A Job can only run where it is.
            "node_selector": {**job.node_selector, CLUSTER_LABEL: cluster.name},
            "tolerations": list(job.tolerations),
            # What the Job does not say is as the job class has it, here as for every submission.
            **({"time_limit_seconds": job.time_limit_seconds} if job.time_limit_seconds else {}),
            "grace_seconds": min(job.grace_seconds, 86400),
            "image": job.image,
            "command": list(job.command),
        }
    )
    return request, note


def _gpu_types(cluster: Cluster, job: DiscoveredJob) -> list[str]:
    """Return which of the types that the Job would take the cluster has; all of them where it has none, as those are
    refused by name (1 query, none without any).
    """
    if not job.gpu_types:
        return []
    devices = Device.objects.filter(node__cluster=cluster.pk).order_by()
    known = sorted(devices.values_list("gpu_type", flat=True).distinct())
    found = (each for name in job.gpu_types for each in known if _is_type(each, name))
    return list(dict.fromkeys(found)) or list(job.gpu_types)


def _is_type(gpu_type: str, asked: str) -> bool:
    """Return whether a type is the one that a Job asks for: by its name, or as a slice of the profile that it names,
    to which some nodes' labels add of what GPU.
    """
    return gpu_type == asked or (asked.startswith("mig-") and gpu_type.lower().endswith(f"-{asked.lower()}"))


def _not_allowed(bound: BoundNamespace, job: DiscoveredJob, rules: EffectiveRules) -> list[str]:
    """Return a sentence for each thing that the Job names and the team's rules do not allow."""
    found = []
    team = bound.team.name
    if job.service_account not in rules.service_accounts:
        allowed = ", ".join(rules.service_accounts) or "none"
        found.append(
            f"It runs as the service account {job.service_account!r}; {team} allows Jobs by kubectl: {allowed}."
        )
    if others := [kind for kind in job.volumes if kind not in rules.volumes]:
        allowed = ", ".join(rules.volumes) or "none"
        found.append(
            f"It mounts {' and '.join(others)}; {team} allows Jobs by kubectl these kinds: {allowed}."
        )
    for kind, names, readable in (
        ("Secret", job.secrets, rules.secrets),
        ("ConfigMap", job.config_maps, rules.config_maps),
    ):
        if ANY not in readable and (others := [name for name in names if name not in readable]):
            told = f"the {plural(len(others), kind, f'{kind}s')} {', '.join(others)}"
            allowed = ", ".join(readable) or "none"
            found.append(f"It reads {told[:500]}; {team} allows Jobs by kubectl: {allowed[:500]}.")
    # That of the first container is judged as every submission's.
    unfit = (images.problem(each, rules, team) for each in job.images if each and each != job.image)
    return found + [problem for problem in unfit if problem]


def _priority(bound: BoundNamespace, job: DiscoveredJob, allowed: _Allowed) -> tuple[int, str]:
    """Return the priority that the Job's label asks for, else that of its PriorityClass's tier, else of its job class,
    lowered to what the team's researchers may give; and what is to be said of it.
    """
    asked, note = _asked_priority(bound, job, allowed.classes)
    priority = _lowered(asked, allowed)
    if priority == asked:
        return asked, note
    lowered = f"Its priority {asked:,} was lowered to {priority}, the highest that {bound.team.name} allows."
    return priority, f"{note} {lowered}".strip()


def _lowered(priority: int, allowed: _Allowed) -> int:
    """Return the highest priority up to this one that rules and tiers let the team's researchers give."""
    limits, before = kubectl_limits(allowed.rules), -1
    while priority != before:
        before = priority
        priority = allowed.classes.cap(limits.cap(priority), {Role.RESEARCHER})
    return priority


def _asked_priority(
    bound: BoundNamespace, job: DiscoveredJob, classes: OrganisationClasses
) -> tuple[int, str]:
    """Return which priority a Job asks for, and a sentence where its PriorityClass says nothing here."""
    found = classes.of(bound.team, classes.default)
    if not job.priority:
        usual = found.tier.priority if found else NORMAL_PRIORITY
        if not job.priority_class:
            return usual, ""
        if tier := classes.for_priority_class(job.priority_class):
            return tier.priority, ""
        return usual, (
            f"Its PriorityClass {job.priority_class} is that of no priority tier, so it has the default priority "
            f"{usual}."
        )
    tiers, text = classes.named, job.priority
    if text not in tiers and not (text.isascii() and text.isdigit() and len(text) <= 7):
        raise Refusal(f"Its priority is {text[:80]!r}; give a number, or one of {', '.join(tiers)}.")
    return tiers[text].priority if text in tiers else int(text), ""


@transaction.atomic
def _adopt(
    cluster: Cluster,
    bound: BoundNamespace,
    job: DiscoveredJob,
    request: SubmissionRequest,
    *,
    note: str,
    asked: str,
    named: "User | None",
) -> Workload:
    """Submit the Job as a workload of the namespace's team; raise a `Refusal`."""
    rows = BoundNamespace.objects.filter(pk=bound.pk)
    keep(rows)
    if not rows.exists():
        raise Refusal(f"{bound.namespace} is not bound to a team any more.")
    who = f'; its annotation names "{job.who[:100]}" as owner' if job.who else ""
    told = f"Adopted from the Job {job.namespace}/{job.name} of {cluster.name}{who}."
    (workload,) = submit(
        by=Actor.agent(cluster.name),
        owner=bound.owner,
        requests=[request],
        message=f"{told} {note}".strip(),
    )
    earlier = AdoptedJob.objects.filter(cluster=cluster.pk, uid=job.uid, current=True)
    earlier.update(current=False)
    try:
        with transaction.atomic():
            AdoptedJob.objects.create(
                workload=workload,
                cluster=cluster,
                namespace=job.namespace,
                name=job.name,
                uid=job.uid,
                asked=asked,
                revision=job.revision,
                note=note,
                named_owner=named,
            )
    except IntegrityError as error:
        # Another conversation of this cluster took it just now: its workload is the one.
        raise Refusal("It is being adopted already.") from error
    with logs.bind(workload=workload.slug):
        logger.info("The Job %s/%s of %s is adopted.", job.namespace, job.name, cluster)
    return workload


def _note_refused(bound: dict[str, BoundNamespace], message: Discovered, verdicts: Iterable[Verdict]) -> None:
    """Keep, to be shown, which Jobs of each namespace were refused; of several parts, those of the last with any."""
    jobs = {job.uid: job for job in message.jobs}
    refused: dict[UUID, list[dict[str, str]]] = {row.pk: [] for row in bound.values()}
    for verdict in verdicts:
        job = jobs[verdict.uid]
        shown = refused[bound[job.namespace].pk]
        if verdict.refused and len(shown) < MOST_REFUSED:
            shown.append({"name": job.name, "why": verdict.refused})
    whole = message.last and not message.after
    for row in bound.values():
        new = refused[row.pk]
        if new != row.refused and (new or whole):
            BoundNamespace.objects.filter(pk=row.pk).update(refused=new)
            live.announce("pools")
