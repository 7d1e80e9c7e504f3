"""The other processes, by what they leave behind: the beat, the workers of both queues, the clusters' agents."""

import re
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from uuid import UUID

import redis
from django.conf import settings
from django.db import DatabaseError, connection
from django.utils import timezone

from agentlink import bindings, epochs, protocol
from agentlink.models import AgentToken, Assignment, Cluster
from agentlink.models.cluster import RESTORED_SHOWN_FOR
from chamber import __version__, marks, stores
from chamber.doctor import bell
from chamber.doctor.finding import DoctorFinding, Fact, seconds_text
from chamber.models import Mark
from chamber.words import count, plural
from scheduling.explain.silence import UNDECIDED_AFTER
from scheduling.models import Turn

DUTIES, SCHEDULING = "celery", "scheduling"
"""The queues as the broker names them."""

MINORS_BEHIND = 1
"""How many minor versions an agent may be behind its server."""
AHEAD_SECONDS = 5.0
"""How far in the future a mark may lie before its maker's clock counts as wrong."""


BACK_SECONDS = 20.0
"""Within which beat and workers are back that waited for a Redis for a minute or two."""


def duties() -> Iterator[DoctorFinding]:
    """Look whether the duties are carried out: sent by one beat, and run by a worker."""
    mark, now = _beat(), _now()
    if mark is None or now - mark.at > marks.SILENT_AFTER:
        yield _silent("carried out a duty", mark.at if mark else None, now, queue=DUTIES, worker="duties")
        return
    several = marks.at_once(mark.details, now)
    if len(several) > 1:
        yield DoctorFinding(f"{len(several)} beats run at once: {', '.join(several)}.", "Stop all but one.")
    if (ahead := (mark.at - now).total_seconds()) > AHEAD_SECONDS:
        yield DoctorFinding(
            f"The clock of the worker {mark.said_by} is {seconds_text(ahead)} ahead of the database's.",
            "Have all machines keep the time by NTP.",
        )


def scheduler() -> Iterator[DoctorFinding]:
    """Look whether somebody runs cycles; of a silent beat, for want of which none is rung, `duties` tells."""
    looked_at, now = Turn.objects.filter(pk=1).values_list("looked_at", flat=True).first(), _now()
    if looked_at is not None and now - looked_at <= UNDECIDED_AFTER:
        return
    if settings.REDIS and not _redis_is_new() and not _waiting(SCHEDULING):
        mark = _beat()
        if mark is not None and now - mark.at <= marks.SILENT_AFTER:
            yield DoctorFinding(
                f"{_since('run a cycle', looked_at, now)} "
                "The beat sends and a worker takes what it sends, but no cycle ends.",
                "Look into the log of `chamber worker --queue scheduling`.",
            )
        elif _is_connected(stores.worker_name("scheduling")) is False:  # of the beat `duties` tells
            yield DoctorFinding(
                f"{_since('run a cycle', looked_at, now)} No worker for cycles is connected to Redis.",
                "Start `chamber worker --queue scheduling`, or look into its log.",
            )
        return
    yield _silent("run a cycle", looked_at, now, queue=SCHEDULING, worker="scheduling")


def _beat() -> Mark | None:
    """Return when a heartbeat of the beat was last carried out, and by whom."""
    return Mark.objects.filter(pk="beat").first()


def web() -> Iterator[DoctorFinding]:
    """Look whether a process answers pages and API, by what it says every few seconds."""
    yield from _part("web", "pages and API are not answered")


def live() -> Iterator[DoctorFinding]:
    """Look whether a process holds sockets."""
    yield from _part("live", "open pages and agents are not reached")


def versions() -> Iterator[DoctorFinding]:
    """Look whether all processes that listen are of one version."""
    now = _now()
    alive = Mark.objects.filter(name__startswith=marks.PART, at__gt=now - marks.SILENT_AFTER)
    found = sorted({str(details.get("version", "")) for details in alive.values_list("details", flat=True)})
    if len(found) > 1:
        yield DoctorFinding(
            f"Processes of the versions {', '.join(found)} answer at once.",
            "End the upgrade: restart those that run an older version.",
        )


def _part(part: str, consequence: str) -> Iterator[DoctorFinding]:
    """Return who is missing; where one process is all, the beat tells that it is not there."""
    if not settings.REDIS:
        return
    last, now = marks.last_heard(part), _now()
    if last is None or now - last > marks.SILENT_AFTER:
        since = f" was heard for {seconds_text((now - last).total_seconds())}" if last else " runs"
        yield DoctorFinding(
            f"No process of the part {part}{since}: {consequence}.",
            f"Start `chamber serve --part {part}`, or look into its log.",
        )


def runs(part: str) -> bool:
    """Return whether a process of the part is known to run; False where the database cannot tell."""
    try:
        last, now = marks.last_heard(part), _now()
    except DatabaseError:
        return False
    return last is not None and now - last <= marks.SILENT_AFTER


def agents() -> Iterator[DoctorFinding | Fact]:
    """Look whether agents are of the server's version, or of the one before."""
    for cluster in Cluster.objects.exclude(agent_version="").order_by("name"):
        if cluster.agent_version == __version__:
            continue
        told = (
            f"The agent of the cluster {cluster.name} is {cluster.agent_version}, this server {__version__}"
        )
        ahead, behind = _minors_between(cluster.agent_version, __version__)
        if ahead:
            yield DoctorFinding(
                f"{told}: agents may not be newer.", "Upgrade the server first, then its agents."
            )
        elif behind > MINORS_BEHIND:
            yield DoctorFinding(
                f"{told}: more than {count(MINORS_BEHIND, 'minor version')} behind.", "Upgrade that agent."
            )
        else:
            yield Fact(f"{told}; that works, until the server's next minor version.{_unaware(cluster)}")


def _unaware(cluster: Cluster) -> str:
    """Return what an agent cannot tell that remembers no epochs; empty for others."""
    if epochs.are_remembered_by(cluster.agent_version):
        return ""
    return (
        " It cannot tell that the database was restored: what had ended after the backup would run again, unsaid. "
        "Upgrade it before you restore."
    )


def _minors_between(agent: str, server: str) -> tuple[bool, int]:
    """Return whether the agent is newer, and by how many minor versions it is older; another major counts as many."""
    theirs, ours = _numbers(agent), _numbers(server)
    behind = ours[1] - theirs[1] if theirs[0] == ours[0] else 1000 * (ours[0] - theirs[0])
    return theirs > ours, behind


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers that a version begins with, at least three; what is none counts as 0."""
    found = [int(part) for part in re.findall(r"\d+", version)[:3]]
    return (*found, *[0] * (3 - len(found)))


def clusters() -> Iterator[DoctorFinding | Fact]:
    """Look whether agents have come, with a token, serve only their pools, and speak this version's protocol."""
    now, with_token, refused = _now(), _with_token(), bindings.refused()
    for cluster in Cluster.objects.order_by("name"):
        if cluster.last_seen_at is None:
            step = (
                "Start its agent" if cluster.pk in with_token else "Make a token for its agent and start it"
            )
            yield DoctorFinding(
                f"The cluster {cluster.name} has never connected.", f"{step}: `chamber agent`."
            )
        elif cluster.released_at is not None:
            yield _released(cluster, cluster.released_at, now)
        elif _is_silent(cluster, now) and cluster.pk not in with_token:
            yield _without_token(cluster, now)
        if cluster.connected and cluster.clock_problem:
            yield DoctorFinding(
                f"The clock of the agent of the cluster {cluster.name} is {cluster.clock_problem}.",
                "Have all machines keep the time by NTP: the times that it reports are as wrong.",
            )
        for text in refused.get(cluster.pk, []):
            yield DoctorFinding(text, "Bind the cluster to that pool, or take the labels off its nodes.")
        if cluster.refusal_now:
            yield DoctorFinding(
                f"An agent that comes with a token of the cluster {cluster.name} is refused: {cluster.refusal_now}",
                "Put that agent right, or revoke the token that it has on the cluster's page.",
            )
        for node in cluster.nodes.filter(gone_at__isnull=True).exclude(problem="").order_by("name"):
            yield DoctorFinding(
                f"The node {node.name} of the cluster {cluster.name}: {node.problem}", "Mend that there."
            )
        if cluster.restored_now:
            yield _restored(cluster, now)
        if cluster.protocol not in {None, protocol.VERSION}:
            yield DoctorFinding(
                f"The agent of the cluster {cluster.name} speaks protocol {cluster.protocol}, "
                f"this version speaks {protocol.VERSION}.",
                "Bring agent and server to the same version.",
            )


def heartbeats() -> Iterator[DoctorFinding]:
    """Look whether the clusters' agents that may connect are in touch."""
    now, with_token = _now(), _with_token()
    for cluster in Cluster.objects.filter(released_at__isnull=True, last_seen_at__isnull=False).order_by(
        "name"
    ):
        if _is_silent(cluster, now) and cluster.pk in with_token:
            yield DoctorFinding(
                _last_heard_of(cluster, now), "Look into its agent's log, and whether it reaches this server."
            )


def _with_token() -> set[UUID]:
    """Return the clusters whose agents may connect."""
    return set(AgentToken.objects.filter(revoked_at__isnull=True).values_list("cluster", flat=True))


def _is_silent(cluster: Cluster, now: datetime) -> bool:
    return not cluster.connected or (
        cluster.last_seen_at is not None and now - cluster.last_seen_at > marks.SILENT_AFTER
    )


def _last_heard_of(cluster: Cluster, now: datetime) -> str:
    ago = seconds_text((now - (cluster.last_seen_at or now)).total_seconds())
    return f"The agent of the cluster {cluster.name} was last heard {ago} ago; nothing starts there."


def _without_token(cluster: Cluster, now: datetime) -> DoctorFinding:
    told = _last_heard_of(cluster, now)
    revoked = AgentToken.objects.filter(cluster=cluster).count()
    why = {0: "It has no token.", 1: "Its only token was revoked."}.get(
        revoked, "All its tokens were revoked."
    )
    return DoctorFinding(f"{told} {why}", "Make a token on the cluster's page, and give it to its agent.")


def _released(cluster: Cluster, at: datetime, now: datetime) -> DoctorFinding | Fact:
    """Return that it was let go of: wrong where something is placed there all the same."""
    told = f"An operator let go of the cluster {cluster.name} {seconds_text((now - at).total_seconds())} ago"
    placed = Assignment.objects.filter(cluster=cluster, wanted=True).count()
    if not placed:
        return Fact(f"{told}; nothing runs or starts there.")
    return DoctorFinding(
        f"{told}, and {count(placed, 'workload')} {'is' if placed == 1 else 'are'} placed there all the same.",
        "Declare what runs there lost on the cluster's page, or start its agent again.",
    )


def _restored(cluster: Cluster, now: datetime) -> DoctorFinding | Fact:
    """Return that the database was restored: a fact once, and wrong where it is recognised again and again."""
    told = f"The cluster {cluster.name}: {cluster.restored_now}"
    times = epochs.recognised_since(cluster.pk, now - RESTORED_SHOWN_FOR)
    if times > 1:
        return DoctorFinding(
            f"{told} Its agent has found that {times} times within a day.",
            "See that no two servers use copies of one database. After several restores there is nothing to do.",
        )
    return Fact(f"{told} There is nothing to do after a restore that you made. It is said for a day.")


def _now() -> datetime:
    """Return the database's time: this machine's clock may be what is wrong."""
    if connection.vendor != "postgresql":
        return timezone.now()
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        now: datetime = cursor.fetchone()[0]
        return now


def _silent(did: str, last: datetime | None, now: datetime, *, queue: str, worker: str) -> DoctorFinding:
    """Return who is missing: messages that wait say that a beat sends them and no worker takes them."""
    since = _since(did, last, now)
    if not settings.REDIS:
        return DoctorFinding(since, "Start `chamber serve --part all`.")
    if _redis_is_new():
        return DoctorFinding(
            f"{since} Redis runs for {seconds_text(_redis_up_seconds() or 0.0)} only.",
            "Run this again in half a minute: by then beat and workers are back that waited for Redis.",
        )
    waiting = _waiting(queue)
    if _is_connected(stores.BEAT_NAME if waiting else stores.worker_name(worker)) is False:
        return DoctorFinding(
            f"{since} Neither the beat nor a worker for {'cycles' if queue == SCHEDULING else 'duties'} is connected "
            "to Redis.",
            f"Start `chamber beat` and `chamber worker --queue {worker}`, or look into their logs.",
        )
    if waiting:
        wait = plural(waiting, "waits", "wait")
        return DoctorFinding(
            f"{since} {count(waiting, 'message')} {wait} in the queue, so the beat sends but no worker takes them.",
            f"Start `chamber worker --queue {worker}`.",
        )
    return DoctorFinding(
        f"{since} No message waits in the queue, so the beat is silent.",
        "Start `chamber beat`, or look into its log.",
    )


def _since(did: str, last: datetime | None, now: datetime) -> str:
    """Return for how long nobody has done it, as a sentence."""
    return f"Nobody has {did}" + (f" for {seconds_text((now - last).total_seconds())}." if last else " yet.")


def _redis_is_new() -> bool:
    """Return whether Redis runs for so short that beat and workers may not have found it again."""
    up_seconds = _redis_up_seconds()
    return up_seconds is not None and up_seconds < BACK_SECONDS


def _redis_up_seconds() -> float | None:
    """Return for how long Redis runs; None where it does not tell."""
    try:
        with closing(bell.client()) as client:
            return float(client.info("server")["uptime_in_seconds"])
    except (redis.RedisError, KeyError):
        return None


def _is_connected(name: str) -> bool | None:
    """Return whether a process of this name is connected to Redis; None where it does not tell."""
    try:
        with closing(bell.client()) as client:
            return any(each.get("name") == name for each in client.client_list())
    except redis.RedisError:
        return None


def _waiting(queue: str) -> int:
    try:
        with closing(bell.client()) as client:
            return int(client.llen(queue))
    except redis.RedisError:
        return 0
