"""Namespaces bound to teams: who binds and unbinds them, and what agents are told and tell of them.

A binding is authority: what anybody may do in the namespace is for the cluster's RBAC to say, what it counts as here is
the binding. So it takes an admin of the team, and the cluster's agent takes over no namespace that it did not make
unless somebody who may label it says so there.
"""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.db import transaction
from django.db.models import Count, F, OuterRef, Subquery, Value
from django.db.models.functions import Coalesce
from django.utils import timezone

from agentlink.assignments import lock_clusters
from agentlink.models import AdoptedJob, Assignment, BoundNamespace, Cluster
from agentlink.protocol import NamespaceBinding as Told
from agentlink.protocol import NamespaceReport, Namespaces
from chamber import live
from chamber.errors import Conflict, Refusal
from chamber.transactions import keep
from chamber.words import count
from teams import audit
from teams.actors import Actor
from teams.models import Team
from teams.permissions import Permission, paths_where, require
from workloads import lifecycle
from workloads.models import Attempt, Status, Workload
from workloads.models.workload import OPEN
from workloads.reasons import OF_LEVEL, OF_NAMESPACE, REFUSED

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

    from chamber.models import User

TOLD = ("ready", "problem", "security", "foreign_jobs", "foreign_gpus", "foreign_pods", "foreign_pod_names")
"""What the agent tells of a namespace."""
LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)

OWNERS_BEGIN = "kubectl@"
"""With this the names of the accounts begin that own what is adopted: nobody's, and for nobody to sign in as."""


def bind_namespace(*, by: Actor, cluster: Cluster, team: Team, namespace: str) -> BoundNamespace:
    """Make a namespace of the cluster the team's, for what is placed or created from now on."""
    require(by, Permission.MANAGE_TEAM, team)
    if problem := _problem(namespace):
        raise Refusal(problem, field="namespace")
    with transaction.atomic():
        keep(Team.objects.filter(pk=team.pk))
        if Team.objects.get(pk=team.pk).is_archived:
            raise Conflict(f"{team.name} was archived and gets no namespace.", field="team")
        # A placement takes this lock as well: each attempt is on one side of `since`.
        lock_clusters([cluster.pk])
        _refuse_twice(cluster, team, namespace)
        bound = BoundNamespace.objects.create(
            cluster=cluster,
            team=team,
            namespace=namespace,
            since=timezone.now(),
            owner=_owner(cluster, namespace),
        )
        audit.record(by=by, action="namespace.bound", target=bound, team=team, after=_said(bound))
        _changed(cluster)
    return bound


def unbind_namespace(*, by: Actor, bound: BoundNamespace) -> None:
    """Unbind the namespace; it stays in the cluster, with all that is in it.

    A `Conflict` while workloads of the team have pods there, or Jobs of it are adopted and not over.
    """
    require(by, Permission.MANAGE_TEAM, bound.team)
    with transaction.atomic():
        row = BoundNamespace.objects.select_for_update().filter(pk=bound.pk).first()
        if row is None:
            return
        lock_clusters([row.cluster_id])
        _refuse_in_use(row)
        audit.record(by=by, action="namespace.unbound", target=row, team=row.team, before=_said(row))
        row.delete()
        _changed(row.cluster)


def told(cluster_id: UUID, version: int) -> Namespaces:
    """Return what the cluster's agent is told: all its namespaces (one query)."""
    rows = BoundNamespace.objects.filter(cluster=cluster_id).order_by("namespace")
    columns = rows.values_list("pk", "namespace", "team__slug")
    bound = (Told(id=pk, namespace=namespace, team=team) for pk, namespace, team in columns)
    return Namespaces(version=version, bound=tuple(bound))


def shown(cluster: Cluster, user: "User | AnonymousUser") -> list[BoundNamespace]:
    """Return the cluster's namespaces that the user may see; `adopted` counts open Jobs (one query)."""
    open_jobs = AdoptedJob.objects.filter(
        cluster=cluster.pk, namespace=OuterRef("namespace"), workload__status__in=OPEN
    )
    counted = Coalesce(
        Subquery(open_jobs.order_by().values("namespace").annotate(n=Count("pk")).values("n")), 0
    )
    rows = BoundNamespace.objects.visible_to(user).filter(cluster=cluster).annotate(adopted=counted)
    return list(rows.select_related("team").order_by("namespace"))


def teams_to_bind(by: Actor) -> list[tuple[str, str]]:
    """Return slug and name of the teams for which the actor may bind namespaces (one query, none where there are
    none).
    """
    if by.user is None or not (paths := paths_where(by.user, Permission.MANAGE_TEAM)):
        return []
    return list(Team.objects.under_any(paths).active().order_by("path").values_list("slug", "name"))


def take(cluster: Cluster, reports: Iterable[NamespaceReport]) -> None:
    """Store what the agent tells of its namespaces, where it is other than before (two queries at least)."""
    told = {report.namespace: report for report in reports}
    changed = False
    for row in BoundNamespace.objects.filter(cluster=cluster.pk, namespace__in=told).order_by("namespace"):
        report = told[row.namespace]
        told_now = report.model_dump(mode="json", include=set(TOLD))
        new = tuple(told_now[name] for name in TOLD)
        if new != tuple(getattr(row, name) for name in TOLD):
            kept_again = report.ready and not row.ready
            level_changed = report.ready and report.security != row.security
            for name, value in zip(TOLD, new, strict=True):
                setattr(row, name, value)
            row.save(update_fields=TOLD)
            changed = True
            if kept_again:
                why = f"The namespace {row.namespace} is kept by the agent again."
                _try_refused_again(row, OF_NAMESPACE, why)
            elif level_changed:
                why = f"The Pod Security level of the namespace {row.namespace} is now {row.security or 'unset'}."
                _try_refused_again(row, OF_LEVEL, why)
        if (unmanaged := _unmanaged(report)) != row.unmanaged:
            BoundNamespace.objects.filter(pk=row.pk).update(unmanaged=unmanaged)
            changed = True
    if changed:
        live.announce("pools")


def _try_refused_again(row: BoundNamespace, codes: Iterable[str], why: str) -> None:
    """Let workloads of the team start again that this cluster refused last, for one of these reasons: what kept them
    out may be mended.
    """
    refused = Workload.objects.filter(
        team=row.team_id, status=Status.PENDING, reason__kind=REFUSED, reason__code__in=sorted(codes)
    )
    last = Attempt.objects.filter(workload=OuterRef("pk")).order_by("-number")
    here = refused.annotate(refused_by=Subquery(last.values("assignment__cluster")[:1]))
    with transaction.atomic():
        lifecycle.try_again_many(
            here.filter(refused_by=row.cluster_id).values_list("pk", flat=True),
            by=Actor.agent(row.cluster.name),
            at=timezone.now(),
            why=why,
        )


def _unmanaged(report: NamespaceReport) -> dict[str, Any] | None:
    """Return what Chamber does not run in a namespace as it is stored; None where there is nothing."""
    if not report.unmanaged_count:
        return None
    return {
        "count": report.unmanaged_count,
        "objects": [each.model_dump(mode="json") for each in report.unmanaged],
    }


def _problem(namespace: str) -> str:
    """Return why no team can have a namespace of this name, as a sentence; "" where one can."""
    if not LABEL.fullmatch(namespace):
        return (
            f"{namespace!r} is no name for a namespace: use up to 63 small letters, digits and hyphens, "
            "none of them at either end."
        )
    if namespace == "default" or namespace.startswith("kube-"):
        return f"{namespace!r} belongs to Kubernetes itself; choose another name."
    return ""


def _refuse_twice(cluster: Cluster, team: Team, namespace: str) -> None:
    other = BoundNamespace.objects.filter(cluster=cluster, namespace=namespace).select_related("team").first()
    if other is not None:
        # Whose it is, is for those to know who see that team.
        raise Conflict(f"{namespace!r} is bound to a team in {cluster.name} already.", field="namespace")
    own = BoundNamespace.objects.filter(cluster=cluster, team=team).first()
    if own is not None:
        raise Conflict(
            f"{team.name} has the namespace {own.namespace!r} in {cluster.name} already; a team has one in a cluster.",
            field="team",
        )


def _refuse_in_use(row: BoundNamespace) -> None:
    adopted = AdoptedJob.objects.filter(
        cluster=row.cluster_id, namespace=row.namespace, workload__status__in=OPEN
    ).count()
    if adopted:
        noun = "1 Job is" if adopted == 1 else f"{adopted} Jobs are"
        raise Conflict(
            f"{noun} adopted from {row.namespace} and not over; wait for them, or cancel them first."
        )
    here = Assignment.objects.filter(cluster=row.cluster_id, gone=False, created_at__gte=row.since)
    running = here.filter(attempt__workload__team=row.team_id).count()
    if running:
        raise Conflict(
            f"{count(running, 'workload')} of {row.team.name} may have pods in {row.namespace}; "
            "wait for them, or cancel them first."
        )


def _owner(cluster: Cluster, namespace: str) -> "User":
    """Return the account that owns what is adopted from the namespace: nobody can sign in as it."""
    users = get_user_model()
    name = f"{OWNERS_BEGIN}{namespace}.{cluster.name}"
    user, made = users.objects.get_or_create(username=name, defaults={"is_active": False, "password": "!"})
    if not made and user.is_active:
        raise Conflict(f"There is somebody with the user name {name}, who would own what is adopted there.")
    return user


def _said(bound: BoundNamespace) -> dict[str, str]:
    return {"cluster": bound.cluster.name, "team": bound.team.slug, "namespace": bound.namespace}


def _changed(cluster: Cluster) -> None:
    version = Coalesce(F("namespaces_version"), Value(0)) + 1
    Cluster.objects.filter(pk=cluster.pk).update(namespaces_version=version)
    live.announce("pools", f"link:{cluster.pk}")
