"""A Kubernetes cluster as the control plane knows it, and the tokens of its agent."""

import hashlib
import secrets
from datetime import datetime, timedelta
from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.utils import timezone

from agentlink.querysets import DISCONNECTED_AFTER, ClusterQuerySet
from chamber.ids import new_id
from chamber.words import clock_time

MOST_CLOCK_SKEW = timedelta(seconds=5)
"""By how much an agent's clock may differ: a heartbeat that was long on its way makes it seem behind."""


REFUSED_SHOWN_FOR = timedelta(minutes=5)
"""An agent that is refused comes again within 30 seconds, until somebody helps it."""

RESTORED_SHOWN_FOR = timedelta(days=1)
"""How long a restore that was recognised stands on the cluster's page and in `chamber doctor`."""

MOST_OF_REFUSAL = 500


class BackendKind(models.TextChoices):
    """How workloads run in the cluster."""

    NATIVE = "native", "Kubernetes Jobs"
    SIMULATED = "simulated", "Simulated"


class Cluster(models.Model):
    """`desired_generation` counts changes of what the cluster should run; the agent reports which one it has seen."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    name = models.SlugField(max_length=60, unique=True)
    backend = models.CharField(max_length=10, choices=BackendKind.choices, default=BackendKind.NATIVE)
    uid = models.CharField(
        max_length=64, blank=True, help_text="The cluster's own id, from the agent's first hello."
    )
    agent_version = models.CharField(max_length=40, blank=True)
    protocol = models.PositiveSmallIntegerField(null=True)
    connected = models.BooleanField(default=False, help_text="Heard within the last 30 seconds.")
    last_seen_at = models.DateTimeField(null=True)
    desired_generation = models.PositiveBigIntegerField(default=1)
    seen_generation = models.PositiveBigIntegerField(default=0)
    lost_after_seconds = models.PositiveIntegerField(default=600)
    rejected_messages = models.PositiveBigIntegerField(default=0)
    refused_at = models.DateTimeField(null=True, help_text="When an agent with its token was last sent away.")
    refusal = models.CharField(
        max_length=MOST_OF_REFUSAL, blank=True, db_default="", help_text="Why, as a sentence."
    )
    connection = models.UUIDField(null=True, help_text="The conversation that counts: the newest hello's.")
    hello_at = models.DateTimeField(
        null=True, help_text="When the hello that counts was said, by its agent's clock."
    )
    inventory_generation = models.PositiveBigIntegerField(
        default=0, help_text="The agent's number of the last one."
    )
    inventory_part = models.PositiveIntegerField(default=0, help_text="Which part of it must come next.")
    inventory_upto = models.CharField(
        max_length=253, blank=True, help_text="The name of the last node that the parts before it had."
    )
    unclear_slices = models.PositiveIntegerField(
        default=0,
        db_default=0,
        help_text="Slices that its agent, older than this server, told as GPUs: they are not used.",
    )
    clock_ahead_ms = models.IntegerField(
        null=True,
        help_text="How far the agent's clock was before this server's at a heartbeat; behind: below 0.",
    )
    polls = models.BooleanField(
        null=True, help_text="Its agent keeps in touch by long poll, which carries no logs."
    )
    namespaces_version = models.PositiveBigIntegerField(
        null=True, help_text="Counts changes of the namespaces bound here; null before the first."
    )
    epoch = models.PositiveBigIntegerField(
        default=0, db_default=0, help_text="Raised with each hello and heartbeat, and told to the agent."
    )
    restored_at = models.DateTimeField(
        null=True, help_text="When its agent last remembered a higher epoch: the database was restored."
    )
    restored_from = models.DateTimeField(
        null=True, help_text="When its agent was last heard by the state that was restored."
    )
    released_at = models.DateTimeField(
        null=True, help_text="When an operator let go of it by its agent; null once one says hello again."
    )
    created_at = models.DateTimeField(auto_now_add=True)
    version = models.PositiveIntegerField(default=1)

    objects = ClusterQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["name"]
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(backend__in=BackendKind.values), name="cluster_backend_known"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def silent_since(self) -> datetime | None:
        """Return when it was last heard where that is 30 seconds ago or more; None while it is in touch, or never was.

        By the time, not by the mark `connected`: the duty that takes the mark off may be what has stopped.
        """
        seen = self.last_seen_at
        return seen if seen is not None and timezone.now() - seen >= DISCONNECTED_AFTER else None

    @property
    def silence(self) -> str:
        """Return what is said of what it runs while it is silent; "" while it is not."""
        since = self.silent_since if self.released_at is None else None
        return (
            f"The cluster {self.name} was last seen {clock_time(since)}; what it does since is not known."
            if since
            else ""
        )

    @property
    def clock_problem(self) -> str:
        """Return by how much the agent's clock is wrong, as the end of a sentence; "" where it is not, or unknown."""
        ahead = timedelta(milliseconds=self.clock_ahead_ms or 0)
        if abs(ahead) <= MOST_CLOCK_SKEW:
            return ""
        return f"{abs(ahead).total_seconds():,.0f} s {'ahead of' if ahead > timedelta() else 'behind'} this server's"

    @property
    def restored(self) -> str:
        """Return in two sentences that the database was restored from a backup; "" where it was not."""
        if self.restored_at is None:
            return ""
        of = f" of about {self.restored_from:%Y-%m-%d %H:%M} UTC" if self.restored_from else ""
        return (
            f"The database was restored from a backup{of}, or its agent spoke with a copy that is further on. What had "
            "ended there since is back in the queue, or ended as its agent remembers it."
        )

    @property
    def restored_now(self) -> str:
        """Return the same for as long as it is news."""
        shown = self.restored_at is not None and timezone.now() - self.restored_at < RESTORED_SHOWN_FOR
        return self.restored if shown else ""

    @property
    def refusal_now(self) -> str:
        """Return why an agent that still comes with a token of this cluster is sent away; "" where none does."""
        shown = self.refused_at is not None and timezone.now() - self.refused_at < REFUSED_SHOWN_FOR
        return self.refusal if shown else ""


class AgentToken(models.Model):
    """A bearer token of one cluster's agent: stored hashed, shown once; two may be valid while one is rotated."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="tokens")
    token_hash = models.CharField(max_length=64, unique=True)
    prefix = models.CharField(max_length=12)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.cluster} ({self.prefix}…)"

    @staticmethod
    def new_secret() -> str:
        """Return a new token with 256 bits of chance."""
        return "cha_" + secrets.token_urlsafe(32)

    @staticmethod
    def hash_of(secret: str) -> str:
        """Return what is stored of a token."""
        return hashlib.sha256(secret.encode()).hexdigest()

    def is_valid(self, now: datetime) -> bool:
        """Return whether the token opens the link at `now`."""
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > now)
