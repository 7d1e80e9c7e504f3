"""What operators do with clusters: connect, give and revoke tokens, declare lost."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from agentlink import bindings
from agentlink.models import AgentToken, Assignment, BackendKind, Cluster
from agentlink.querysets import DISCONNECTED_AFTER
from chamber import live
from chamber.errors import Conflict, NotAllowed, NotVisible, Refusal
from teams import actions as teams
from teams import audit
from teams.actors import Actor
from teams.models import Pool
from teams.permissions import Permission, may_anywhere
from workloads import lifecycle
from workloads.lifecycle.status import lock

MOST_VALID_TOKENS = 2
"""The one in use and the one that replaces it."""

_PAGES = frozenset({"connect"})
"""What stands where a cluster's name stands in the addresses of pages."""


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token that was just made: its secret is known here and nowhere else."""

    cluster: Cluster
    token: AgentToken
    secret: str


def create_cluster(
    *, by: Actor, name: str, backend: BackendKind = BackendKind.NATIVE, pools: Collection[Pool] | None = None
) -> NewToken:
    """Add a cluster that may serve these pools, and the first token of its agent.

    Where no pools are given, it may serve those that name it already; the first cluster, those that name no other too.
    """
    require_operator(by)
    if not teams.CLUSTER_NAME.fullmatch(name):
        raise Refusal(
            f"{name!r} is no name for a cluster: use up to 60 small letters, digits and hyphens, none at either end.",
            field="name",
        )
    if name in _PAGES:
        raise Refusal(f"{name!r} is the address of a page; choose another name.", field="name")
    with transaction.atomic():
        if Cluster.objects.filter(name=name).exists():
            raise Conflict(f"There is a cluster named {name!r} already.", field="name")
        every = list(Pool.objects.all())
        if pools is None and not Cluster.objects.exists():
            pools = [pool for pool in every if not pool.clusters or name in pool.clusters]
        if pools is not None and every:
            others = [pool for pool in every if pool not in pools]
            teams.bind_cluster(by=by, cluster=name, bind=pools, unbind=others)
        cluster = Cluster.objects.create(name=name, backend=backend)
        after = {
            "name": name,
            "backend": str(backend),
            "pools": [pool.slug for pool in bindings.pools_of(name)],
        }
        audit.record(by=by, action="cluster.created", target=cluster, after=after)
        made = _new_token(cluster)
        live.announce("pools")
    return made


def bind_pool(*, by: Actor, cluster: Cluster, pool: Pool) -> None:
    """Let a cluster serve a pool: the pool picks its nodes too, from the next cycle on."""
    require_operator(by)
    teams.bind_cluster(by=by, cluster=cluster.name, bind=[pool])


def unbind_pool(*, by: Actor, cluster: Cluster, pool: Pool) -> None:
    """Have a cluster no longer serve a pool: nothing new of it starts there, what runs there goes on."""
    require_operator(by)
    teams.bind_cluster(by=by, cluster=cluster.name, unbind=[pool])


def add_token(*, by: Actor, cluster: Cluster) -> NewToken:
    """Give the cluster's agent another token, to replace the one in use without a pause."""
    require_operator(by)
    now = timezone.now()
    with transaction.atomic():
        Cluster.objects.select_for_update().get(pk=cluster.pk)
        valid = [token for token in cluster.tokens.filter(revoked_at__isnull=True) if token.is_valid(now)]
        if len(valid) >= MOST_VALID_TOKENS:
            prefixes = " and ".join(token.prefix for token in valid)
            raise Conflict(
                f"{cluster.name} has {len(valid)} valid tokens ({prefixes}…), the most there may be; revoke one first."
            )
        made = _new_token(cluster)
        audit.record(
            by=by, action="cluster.token-created", target=cluster, after={"token": made.token.prefix}
        )
        live.announce("pools")
    return made


def revoke_token(*, by: Actor, token: AgentToken) -> None:
    """Make a token useless; a connection that used it is closed within a second. Twice does no harm."""
    require_operator(by)
    with transaction.atomic():
        if not AgentToken.objects.filter(pk=token.pk, revoked_at__isnull=True).update(
            revoked_at=timezone.now()
        ):
            return
        audit.record(
            by=by, action="cluster.token-revoked", target=token.cluster, before={"token": token.prefix}
        )
        live.announce("pools", f"link:{token.cluster_id}")


def declare_lost(*, by: Actor, cluster: Cluster) -> int:
    """Give up what runs in a cluster that was silent for `lost_after_seconds`; return how many attempts ended.

    Their workloads go back to the queue, and their devices count as free only when the agent comes back and says so.
    """
    require_operator(by)
    now = timezone.now()
    with transaction.atomic():
        wanted = Assignment.objects.filter(cluster=cluster, wanted=True)
        # Workloads are locked before their cluster, as everywhere; what joins meanwhile is lost at the next try.
        workloads = lock(wanted.values_list("attempt__workload", flat=True))
        cluster = Cluster.objects.select_for_update(no_key=True).get(pk=cluster.pk)
        silent_since = cluster.last_seen_at or cluster.created_at
        patience = timedelta(seconds=cluster.lost_after_seconds)
        silent_seconds = int((now - silent_since).total_seconds())
        if now - silent_since < patience:
            raise Conflict(
                f"{cluster.name} was heard {silent_seconds} s ago; it may be declared lost after "
                f"{cluster.lost_after_seconds} s of silence."
            )
        if cluster.connected:
            raise Conflict(
                f"{cluster.name} was last heard {silent_seconds} s ago and still counts as connected, as it does for "
                f"{DISCONNECTED_AFTER.total_seconds():.0f} s after an outage of this server; try again then."
            )
        attempts = list(wanted.filter(attempt__workload__in=workloads).values_list("attempt", flat=True))
        ended = lifecycle.lost(
            attempts, at=now, by=by, message=f"The cluster {cluster.name} was declared lost."
        )
        Assignment.objects.filter(cluster=cluster, gone=False).update(given_up=True)
        audit.record(by=by, action="cluster.declared-lost", target=cluster, after={"attempts": ended})
        live.announce("pools", "overview")
    return ended


def _new_token(cluster: Cluster) -> NewToken:
    secret = AgentToken.new_secret()
    token = AgentToken.objects.create(
        cluster=cluster, token_hash=AgentToken.hash_of(secret), prefix=secret[:12]
    )
    return NewToken(cluster, token, secret)


def require_operator(by: Actor) -> None:
    """Raise `NotVisible` for outsiders and `NotAllowed` for members whose role does not give this."""
    if by.user is None or may_anywhere(by.user, Permission.OPERATE_CLUSTERS):
        return
    if not may_anywhere(by.user, Permission.VIEW_TEAM):
        raise NotVisible("There are no clusters for you.")
    raise NotAllowed(
        "Your role does not let you connect or change clusters; an operator or organisation admin may."
    )
