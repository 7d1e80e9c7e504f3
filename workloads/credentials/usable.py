"""Whether workloads that were submitted may still be handed what they name: people leave, roles are taken, credentials
are deleted, rules change.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import transaction

from teams import rules
from teams.actors import Actor
from teams.models import Team
from teams.permissions import Permission, people_where
from workloads import reasons
from workloads.credentials import policy
from workloads.credentials.naming import is_of
from workloads.lifecycle import refusals
from workloads.models import CredentialKind, NamedCredential, Status, Workload

CODE = reasons.CREDENTIAL_UNUSABLE
BY = Actor.system("credentials")


@dataclass(frozen=True, slots=True)
class _Case:
    """What decides: a workload's owner and team, and a credential, None where it was deleted."""

    row: NamedCredential
    workload: Workload

    @property
    def reference(self) -> str:
        given: list[str] = self.workload.credentials or []
        return given[self.row.position] if self.row.position < len(given) else "a credential"


def problems(workload_ids: Iterable[UUID]) -> dict[UUID, str]:
    """Return why these workloads may not be handed what they name, of those that may not (four queries at most, one
    where none names any).
    """
    rows = NamedCredential.objects.filter(workload__in=list(workload_ids)).select_related(
        "credential__team", "workload__team", "workload__owner"
    )
    cases = [_Case(row, row.workload) for row in rows.order_by("workload", "position")]
    if not cases:
        return {}
    submitters = people_where(Permission.SUBMIT, {case.workload.owner_id for case in cases})
    limited = {
        case.workload.team
        for case in cases
        if case.row.credential is not None and case.row.credential.kind == CredentialKind.SECRET
    }
    allowed = rules.effective_rules_by_team(limited) if limited else {}
    found: dict[UUID, str] = {}
    for case in cases:
        problem = _problem(case, submitters.get(case.workload.owner_id, ()))
        credential = case.row.credential
        if not problem and credential is not None and case.workload.team_id in allowed:
            problem = policy.problem(credential, case.workload.team, allowed[case.workload.team_id])
        if problem:
            found.setdefault(case.workload.pk, problem)
    return found


def _problem(case: _Case, paths: Collection[str]) -> str:
    workload, credential = case.workload, case.row.credential
    owner, team = workload.owner, workload.team
    if credential is None:
        return f"The credential {case.reference}, which it names, was deleted."
    who = owner.get_username()
    if not owner.is_active:
        return f"The account of its owner {who} is disabled: nobody's credentials are handed to it."
    if not _reaches(paths, team):
        return f"Its owner {who} may not submit to {team.name} any more, nor use {case.reference} there."
    if credential.team is None and credential.owner_id != owner.pk:
        return f"The credential {case.reference}, which it names, is not {who}'s, who owns it now."
    if not is_of(credential, team):
        return f"{case.reference} is of {credential.team}, which {team.name} is not below any more."
    return ""


def _reaches(paths: Collection[str], team: Team) -> bool:
    return any(team.path.startswith(path) for path in paths)


def refusal(problem: str) -> reasons.WorkloadEnd:
    """Return why a workload is not started, as its row keeps it."""
    return reasons.of_refusal(CODE, problem)


def hold_back(*, at: datetime) -> tuple[set[UUID], set[UUID]]:
    """Keep waiting workloads from starting that may not be handed what they name, each with its reason, and let those
    start again that may be now; return both.

    What is about one owner, one team and one credential is looked at once, however many workloads wait for it.
    """
    pending = NamedCredential.objects.filter(workload__status=Status.PENDING).order_by()
    groups: dict[tuple[object, ...], UUID] = {}
    members: dict[UUID, list[UUID]] = defaultdict(list)
    keys: dict[UUID, list[object]] = defaultdict(list)
    for workload, owner, team, credential in pending.values_list(
        "workload", "workload__owner", "workload__team", "credential"
    ):
        keys[workload] += [owner, team, credential]
    for workload, key in keys.items():
        members[groups.setdefault(tuple(key), workload)].append(workload)
    if not keys:
        return set(), set()
    wrong = {workload: problem for first, problem in problems(members).items() for workload in members[first]}
    with transaction.atomic():
        held = refusals.hold_many({pk: refusal(text) for pk, text in wrong.items()}, by=BY, at=at)
        free = Workload.objects.filter(status=Status.PENDING, held=True, reason__code=CODE)
        again = refusals.try_again_many(
            free.filter(pk__in=keys.keys() - wrong.keys()).values_list("pk", flat=True),
            by=BY,
            at=at,
            why="it may be handed what it names again.",
        )
    return held, again
