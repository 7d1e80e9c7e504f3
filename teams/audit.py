"""Writing the audit trail: one row per act, with what it changed and nothing else."""

from collections.abc import Mapping
from typing import Any

from django.db.models import Model
from django.utils import timezone

from chamber import origin
from teams.actors import Actor
from teams.chain.events import mark_of
from teams.models import AuditEvent, Team

MAX_NAME = 120

ACTIONS = frozenset({
    *("array.cancelled", "array.held", "array.released", "array.retried"),
    "audit.break-accepted",
    *("cluster.created", "cluster.declared-lost", "cluster.deleted", "cluster.released"),
    *("cluster.restore-recognised", "cluster.token-created", "cluster.token-revoked"),
    *("credential.created", "credential.deleted", "credential.replaced"),
    *("data-source.created", "data-source.deleted", "data-source.edited", "data-source.located"),
    "data-source.removed",
    *("environment.archived", "environment.created", "environment.deleted", "environment.restored"),
    "environment.versioned",
    *("group.created", "group.deleted", "group.person-added", "group.person-kept", "group.person-removed"),
    *("job-class.created", "job-class.deleted", "job-class.edited", "job-class.restored", "job-class.retired"),
    *("member.added", "member.removed", "member.role-changed"),
    *("namespace.bound", "namespace.unbound", "organisation.sign-in-changed"),
    *("person.address-asked", "person.address-confirmed", "person.changed", "person.confirmed", "person.disabled"),
    *("person.enabled", "person.exported", "person.factor-added", "person.factor-refused", "person.factor-removed"),
    *("person.factor-renamed", "person.factors-reset", "person.invited", "person.joined", "person.link-mailed"),
    *("person.link-not-mailed", "person.linked", "person.made", "person.not-let-in", "person.password-changed"),
    *("person.password-refused", "person.password-reset", "person.recovery-codes-made", "person.reset-asked"),
    *("person.reset-begun", "person.sessions-ended", "person.sign-in-failed", "person.signed-in"),
    *("person.signed-out", "person.tokens-revoked", "person.unlinked", "person.view-as-begun"),
    "person.view-as-ended",
    *("service-account.changed", "service-account.created", "service-account.disabled"),
    *("service-account.enabled", "service-account.limits-changed", "service-account.token-created"),
    *("service-account.token-revoked", "service-account.token-rotated"),
    *("pool.created", "pool.deleted", "pool.edited"),
    *("tier.created", "tier.deleted", "tier.edited", "tier.restored", "tier.retired"),
    *("team.archived", "team.class-narrowed", "team.created", "team.deleted", "team.edited", "team.moved"),
    *("team.renamed", "team.restored", "team.rules-changed", "team.share-changed", "token.created", "token.revoked"),
    *("workload.cancelled", "workload.handed-over", "workload.held", "workload.released", "workload.requeued"),
})  # fmt: skip
"""What is done, whichever app does it: what the trail may be searched for before it was done once."""


def record(
    *,
    by: Actor,
    action: str,
    target: Model,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    team: Team | None = None,
) -> AuditEvent:
    """Add a row about `target`; of `before` and `after` only the keys that differ are kept.

    `team` says where in the tree it belongs and so who may read it; for a team it is the team itself, and
    without one only those do who may read the whole organisation's trail. Call it in the act's transaction.
    """
    before, after = changed(before or {}, after or {})
    client = origin.now()
    place = target if team is None and isinstance(target, Team) else team
    event = AuditEvent(
        at=timezone.now(),
        user=by.user,
        actor=by.name,
        on_behalf_of=by.on_behalf_of,
        via=by.via,
        action=action,
        target_kind=target._meta.model_name or "",
        target_id=str(target.pk or ""),
        target_name=_name_of(target)[:MAX_NAME],
        team_path=place.path if place else "",
        address=client.address,
        agent=client.agent,
        before=before,
        after=after,
    )
    event.mark = mark_of(event)
    event.save(force_insert=True)
    return event


def _name_of(target: Model) -> str:
    """Return what the trail calls a row: by its `audit_name`, where it has one that nobody gives themselves."""
    return str(getattr(target, "audit_name", None) or target)


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return both without the keys whose values are equal."""
    differing = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    return (
        {key: before[key] for key in differing if key in before},
        {key: after[key] for key in differing if key in after},
    )
