"""Agents that are sent away at their hello: why, and how their cluster's page hears of it."""

from django.utils import timezone

from agentlink.models import Assignment, Cluster
from agentlink.models.cluster import MOST_OF_REFUSAL
from agentlink.protocol import Error, ErrorCode
from chamber import live


def of(cluster: Cluster, uid: str) -> Error | None:
    """Return why no agent from the cluster with this id is let in by a token of `cluster`; None where it is."""
    return _foreign(cluster, uid) if _is_another(cluster, uid) else None


def note(cluster: Cluster, error: Error) -> None:
    """Store that an agent was sent away, and why, for the cluster's page."""
    text, before = error.message[:MOST_OF_REFUSAL], cluster.refusal_now
    cluster.refusal, cluster.refused_at = text, timezone.now()
    Cluster.objects.filter(pk=cluster.pk).update(refusal=text, refused_at=cluster.refused_at)
    if text != before:
        live.announce("pools")


def _is_another(cluster: Cluster, uid: str) -> bool:
    """Return whether an agent with this cluster's token runs in another one: there, nothing of what runs here is found.

    A cluster that was made anew has another id too. It is taken once the old one is silent, and nothing is known to be
    there any more or what is was given up.
    """
    if cluster.uid in {"", uid}:
        return False
    there = Assignment.objects.filter(cluster=cluster, gone=False, given_up=False)
    return cluster.connected or there.exists()


def _foreign(cluster: Cluster, uid: str) -> Error:
    return Error(
        code=ErrorCode.NOT_AUTHORISED,
        message=f"The token belongs to the cluster {cluster.name}, which is {cluster.uid}; this agent runs in {uid}. "
        f"Give it a token of its own cluster. Where {cluster.name} was made anew, declare lost what ran there.",
        about="hello",
    )
