"""What is kept about a person, as one JSON document that is written while it is sent. No secret is in it.

`docs/people.md` says what each part is, how long it is kept, and what is not here.
"""

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from allauth.account.models import EmailAddress
from django.contrib.auth.models import Group
from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from chamber import sessions
from chamber.factors.reading import factors_of
from chamber.models import AccountLink, User
from chamber.oidc.reading import accounts_of
from chamber.people import reading
from chamber.people.actions import require_people
from teams import audit
from teams.actors import Actor
from teams.members import roles_of
from teams.models import AuditEvent
from teams.querysets import AuditEventQuerySet
from teams.trail import older
from workloads.models import Workload

FORM = "chamber-person-1"
AT_ONCE = 1000
BEGINS = re.compile(r" \(chb_[^)]*\)")
"""With what a token's secret begins, in its name in the trail."""
Row = dict[str, Any]

WORKLOAD_FIELDS = (
    *("id", "slug", "name", "job_class", "priority", "pods", "min_pods", "gpu_milli", "gpu_memory_mib"),
    *("cpu_milli", "memory_mib", "gpu_types", "node_selector", "tolerations", "partition", "pool_choice"),
    *("time_limit_seconds", "image", "command", "labels", "annotations", "status", "status_since"),
    *("reason_code", "submitted_at", "held", "requeues", "failures", "finished_at"),
)
"""Of variables only the names are told: their values may be secrets."""


def begin_export(*, by: Actor, user: User) -> "PersonExport":
    """Return the document about somebody, for themselves or an organisation admin; note that it was asked for."""
    own = by.user is not None and by.user.pk == user.pk
    with transaction.atomic():
        if not own:
            require_people(by)
        audit.record(by=by, action="person.exported", target=user)
    return PersonExport(user, own=own)


class PersonExport:
    """The document in parts, each of a few queries: `begin`, then `go_on` until there are no more."""

    def __init__(self, user: User, *, own: bool) -> None:
        self._user, self._own = user, own
        self._parts = self._all()

    def begin(self) -> str:
        """Return the first part, with all that is small."""
        return next(self._parts)

    def go_on(self) -> str:
        """Return the next part; "" where there are no more."""
        return next(self._parts, "")

    def _all(self) -> Iterator[str]:
        user = self._user
        head = {
            "form": FORM,
            "exported_at": timezone.now(),
            **{name: part(user) for name, part in SMALL.items()},
        }
        yield "{" + ",\n".join(f"{_json(name)}: {_json(value)}" for name, value in head.items())
        yield from _list("workloads", _workloads(user), _workload)
        yield from _list("audit_by", _pages(_by(user)), self._event)
        yield from _list("audit_about", _pages(_about(user)), self._event)
        yield ',\n"complete": true}\n'

    def _event(self, event: AuditEvent) -> Row:
        """Return a row of the trail; of another person's act without whence it came, for whom it is about."""
        row = {
            **{name: getattr(event, name) for name in ("id", "at", "actor", "on_behalf_of", "via", "action")},
            "target": f"{event.target_kind} {BEGINS.sub('', event.target_name)}",
            "before": event.before,
            "after": event.after,
        }
        is_others = self._own and event.user_id is not None and event.user_id != self._user.pk
        return row if is_others else row | {"address": event.address, "agent": event.agent}


def _profile(user: User) -> Row:
    [shown] = reading.shown([user], user)
    return {
        "id": user.pk,
        "username": user.username,
        "name": user.get_full_name(),
        "email": user.email,
        "state": shown.state.value,
        "account_made_at": user.created_at,
        "last_sign_in": user.last_login,
        "has_password": user.has_usable_password(),
        "invited_by": user.invited_by.username if user.invited_by else None,
    }


def _emails(user: User) -> list[Row]:
    rows = EmailAddress.objects.filter(user=user).order_by("pk")
    return [{"email": row.email, "verified": row.verified, "primary": row.primary} for row in rows]


def _roles(user: User) -> list[Row]:
    """Return the roles that they have themselves or by a group, on whatever team."""
    return [
        {"team": row.team.slug, "role": row.role, "group": row.group.name if row.group else None}
        for row in roles_of(user)
    ]


def _groups(user: User) -> list[str]:
    return list(Group.objects.filter(user=user).order_by("name").values_list("name", flat=True))


def _sessions(user: User) -> list[Row]:
    return [
        {
            "address": row.ip,
            "agent": row.user_agent,
            "began_at": row.created_at,
            "last_seen_at": row.last_seen_at,
        }
        for row in sessions.of(user)
    ]


def _factors(user: User) -> list[Row]:
    return [
        {"kind": row.kind, "name": row.name, "added_at": row.added_at, "last_used_at": row.last_used_at}
        for row in factors_of(user)
    ]


def _providers(user: User) -> list[Row]:
    """Return what they are at identity providers, with what those told at the last sign-in."""
    return [
        {"provider": row.provider, "id": row.uid, "last_sign_in": row.last_login, "told": row.extra_data}
        for row in accounts_of(user)
    ]


def _provisioned(user: User) -> list[Row]:
    """Return what providers told of them over SCIM."""
    fields = ("provider", "user_name", "external_id", "told", "created_at", "changed_at")
    return list(user.provisioned.order_by("provider").values(*fields))


def _tokens(user: User) -> list[Row]:
    fields = ("name", "scope", "created_at", "expires_at", "revoked_at", "last_used_at", "last_address")
    return list(user.api_tokens.order_by("created_at").values(*fields, team_slug=F("team__slug")))


def _credentials(user: User) -> list[Row]:
    """Return their own without the values, which nobody is shown."""
    fields = ("name", "kind", "details", "parts", "created_at", "replaced_at", "last_used_at")
    return list(user.credentials.order_by("name").values(*fields))


def _links(user: User) -> list[Row]:
    """Return the links that were made for them, and those that they made for others."""
    rows = AccountLink.objects.filter(Q(user=user) | Q(made_by=user)).select_related("user", "made_by")
    return [
        {
            "for": row.user.username,
            "made_by": row.made_by.username if row.made_by else None,
            "purpose": row.purpose,
            "mailed_to": row.mailed_to if row.user_id == user.pk else "",
            "created_at": row.created_at,
            "expires_at": row.expires_at,
            "used_at": row.used_at,
        }
        for row in rows.order_by("created_at")
    ]


SMALL: dict[str, Callable[[User], Any]] = {
    "profile": _profile,
    "emails": _emails,
    "roles": _roles,
    "groups": _groups,
    "sessions": _sessions,
    "factors": _factors,
    "providers": _providers,
    "provisioned": _provisioned,
    "tokens": _tokens,
    "credentials": _credentials,
    "links": _links,
}
"""What is told at once, by its name in the document."""


def _workloads(user: User) -> Iterator[list[Workload]]:
    """Yield the workloads that they own, the newest first."""
    rows, last = Workload.objects.filter(owner=user).select_related("team", "pool"), None
    while True:
        page = rows if last is None else rows.filter(_after("submitted_at", last.submitted_at, last.pk))
        found = list(page.order_by("-submitted_at", "-id")[:AT_ONCE])
        if not found:
            return
        last = found[-1]
        yield found


def _after(field: str, moment: datetime, pk: UUID) -> Q:
    return Q(**{f"{field}__lte": moment}) & (Q(**{f"{field}__lt": moment}) | Q(pk__lt=pk))


def _workload(row: Workload) -> Row:
    return {
        **{name: getattr(row, name) for name in WORKLOAD_FIELDS},
        "team": row.team.slug,
        "pool": row.pool.slug if row.pool else None,
        "variables": sorted(row.environment),
    }


def _by(user: User) -> AuditEventQuerySet:
    # By the name, which the index has; an account is never deleted, so that nobody else gets it.
    return AuditEvent.objects.filter(actor=user.username, user=user)


def _about(user: User) -> AuditEventQuerySet:
    """Return what others did to their account, roles and groups, or in their name."""
    given = Q(action__startswith="member.") | Q(action__startswith="group.person-")
    named = given & (Q(before__who=user.username) | Q(after__who=user.username))
    # No index has these: they are looked for once, not page by page.
    found = AuditEvent.objects.filter(named | Q(on_behalf_of=user.username)).values_list("pk", flat=True)
    about = Q(target_kind="user", target_id=str(user.pk)) | Q(pk__in=list(found))
    return AuditEvent.objects.filter(about).exclude(user=user)


def _pages(rows: AuditEventQuerySet) -> Iterator[list[AuditEvent]]:
    last: AuditEvent | None = None
    while True:
        page = rows if last is None else older(rows, last.at, last.pk)
        found = list(page.order_by("-at", "-id")[:AT_ONCE])
        if not found:
            return
        last = found[-1]
        yield found


def _list(name: str, pages: Iterator[list[Any]], told: Callable[[Any], Row]) -> Iterator[str]:
    yield f",\n{_json(name)}: ["
    before = "\n"
    for page in pages:
        yield before + ",\n".join(_json(told(row)) for row in page)
        before = ",\n"
    yield "]"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: object) -> str:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else str(value)
