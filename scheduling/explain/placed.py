"""What is told of workloads that have their GPUs: how far their pods are, and that their cluster is not heard."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils import timezone

from agentlink.models import Assignment, BoundNamespace, Cluster
from chamber.words import clock_time
from scheduling import engine
from scheduling.explain import silence
from scheduling.explain.explanation import Explanation
from scheduling.explain.silence import DEAF, START_LIVE
from workloads.models import Status, Workload
from workloads.models.workload import ADMITTED
from workloads.reasons import PLAN_QUOTA, while_kept

PODS_BEGIN = "pods-being-created"
NOTHING = "Nothing to do."


def in_silent_clusters(workloads: Sequence[Workload]) -> dict[UUID, Explanation]:
    """Return the reason of those with GPUs in a cluster that is not heard (1 query, none without any)."""
    admitted = {workload.pk: workload for workload in workloads if workload.status in ADMITTED}
    if not admitted:
        return {}
    silent = Cluster.objects.silent(timezone.now()).filter(assignments__attempt__open_for__in=admitted)
    rows = silent.values_list("assignments__attempt__open_for", "name", "last_seen_at")
    deaf = silence.look().deaf
    return {
        pk: _not_heard(admitted[pk], name, seen, deaf=deaf) for pk, name, seen in rows if seen is not None
    }


def pods_begin(workloads: Sequence[Workload]) -> dict[UUID, Explanation]:
    """Return how far those are whose pods are being created (1 query, none without any; 1 more where Chamber's own
    quota keeps one from starting).
    """
    some = {workload.pk: workload for workload in workloads if workload.status == Status.STARTING}
    if not some:
        return {}
    rows = Assignment.objects.filter(attempt__open_for__in=some).values_list(
        "attempt__open_for",
        "cluster",
        "cluster__name",
        "attempt__starting_at",
        "pods",
        "attempt__open_for__adopted_job",
    )
    found = list(rows)
    full = {
        (cluster, some[pk].team_id)
        for pk, cluster, _, _, pods, _ in found
        if any(pod.get("cause") == PLAN_QUOTA for pod in pods)
    }
    namespaces = _namespaces(full)
    return {
        pk: _of_pods(
            some[pk],
            name,
            since,
            pods,
            namespace=namespaces.get((cluster, some[pk].team_id), ""),
            adopted=job is not None,
        )
        for pk, cluster, name, since, pods, job in found
    }


def _namespaces(pairs: Collection[tuple[UUID, UUID]]) -> dict[tuple[UUID, UUID], str]:
    """Return the namespaces of teams in clusters (1 query, none without any)."""
    if not pairs:
        return {}
    clusters, teams = zip(*pairs, strict=True)
    rows = BoundNamespace.objects.filter(cluster__in=clusters, team__in=teams)
    return {(cluster, team): name for cluster, team, name in rows.values_list("cluster", "team", "namespace")}


def _of_pods(
    workload: Workload,
    cluster: str,
    since: datetime | None,
    pods: Sequence[dict[str, Any]],
    *,
    namespace: str,
    adopted: bool,
) -> Explanation:
    """Return that pods are being created, what the cluster says of the first that cannot start, and what becomes of the
    attempt if that lasts.
    """
    at = f" since {since:%H:%M:%S} UTC" if since else ""
    sentence = f"Its pods are being created in the cluster {cluster}{at}."
    kept = next((pod for pod in pods if pod.get("message")), None)
    if kept is None:
        return Explanation(PODS_BEGIN, sentence, "wait", next_step=NOTHING, level=cluster)
    until = kept.get("until")
    by = f"at {datetime.fromisoformat(until):%H:%M:%S} UTC" if until else "before long"
    left = max(0, workload.max_retries - workload.failures)
    kind, step = while_kept(
        str(kept.get("cause", "")), by, retries=left, namespace=namespace, adopted=adopted
    )
    said = str(kept["message"]).rstrip(" .")
    words = f"{sentence} Pod {kept['index']} is kept from starting: {said}."
    return Explanation(PODS_BEGIN, words, kind, next_step=step, level=cluster)


def _not_heard(workload: Workload, cluster: str, seen: datetime, *, deaf: bool) -> Explanation:
    """Return what can be said of one whose cluster was last heard then; `deaf`: agents have nothing to connect to."""
    act = START_LIVE if deaf else f"Ask an operator to look after the cluster {cluster}"
    why = DEAF if deaf else "Its agent is not heard either while the cluster's API server is away."
    last_seen = f"the cluster {cluster}, which was last seen {clock_time(seen)}"
    if workload.status == Status.QUEUED:
        sentence = f"Its GPUs are in {last_seen}."
        next_step = f"{act}: the pods are created once its agent is heard again. {why}"
        eta = "not known: nobody can tell when the cluster is back"
    else:
        sentence = f"Its pods are in {last_seen}; what it does since is not known."
        next_step = f"{act}: once its agent is heard again, all that happened is told. {why}"
        eta = ""
    return Explanation(
        code=engine.ReasonCode.CLUSTER_OFFLINE.value,
        sentence=sentence,
        kind="admin",
        next_step=next_step,
        level=cluster,
        eta=eta,
    )
