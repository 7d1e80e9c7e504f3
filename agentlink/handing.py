"""What agents are handed of credentials: the values of those that an attempt of their cluster names, once it is let go.

They are in no message but the one that tells the attempt, and decrypted only for that.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from agentlink.protocol import AssignedCredentials, AssignedLogin, AssignedSecret
from agentlink.protocol.messages import SINCE_0_2
from agentlink.protocol.releases import numbers
from teams import rules
from teams.models import Team
from workloads.credentials import actions, handed, keys, policy, usable
from workloads.credentials.handed import HandedCredentials
from workloads.models import Credential, NamedCredential

logger = logging.getLogger(__name__)


class CannotHand(Exception):  # noqa: N818 - an answer
    """Why an attempt cannot be handed what its workload names: a code, and a sentence."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


class HandedTo(NamedTuple):
    """An attempt that names credentials: its workload and team, where it runs, and whether its pods were begun."""

    workload_id: UUID
    team_id: UUID
    namespace: str
    is_begun: bool


class Handing:
    """What attempts are handed, read once for all that are told (no query where none names a credential)."""

    def __init__(self, workload_ids: Iterable[UUID], *, cluster: str, agent_version: str) -> None:
        ids = set(workload_ids)
        self._cluster, self._version = cluster, agent_version
        self._named: dict[UUID, list[Credential]] = defaultdict(list)
        self._problems: Mapping[UUID, str] = {}
        self._rules: Mapping[UUID, rules.EffectiveRules] = {}
        self._used: set[UUID] = set()
        if not ids:
            return
        rows = NamedCredential.objects.filter(workload__in=ids, credential__isnull=False)
        for row in rows.select_related("credential__team", "workload").order_by("workload", "position"):
            if row.credential is not None:
                self._named[row.workload_id].append(row.credential)
        self._problems = usable.problems(ids)
        teams = Team.objects.filter(workloads__in=ids).distinct()
        self._rules = rules.effective_rules_by_team(teams)

    def of(self, to: HandedTo) -> AssignedCredentials | None:
        """Return what an attempt is handed; raise `CannotHand`. One whose pods were begun keeps what they were begun
        with: it is told without what it may not be handed any more.
        """
        try:
            return self._of(to)
        except CannotHand as cannot:
            if not to.is_begun:
                raise
            logger.info("A workload that runs is not handed anew what it names: %s", cannot.message)
            return None

    def _of(self, to: HandedTo) -> AssignedCredentials:
        known = numbers(self._version)
        if known is not None and known < SINCE_0_2.numbers:
            raise CannotHand(
                "agent-too-old",
                f"It names credentials, and the agent of {self._cluster} is {self._version}: agents hand them to pods "
                f"since {SINCE_0_2.release}.",
            )
        if problem := self._problems.get(to.workload_id):
            raise CannotHand(usable.CODE, problem)
        rows = self._named[to.workload_id]
        found = handed.handed((row, self._opened(row)) for row in rows)
        self._require_allowed(to, found)
        self._used |= {row.pk for row in rows}
        return _told(found)

    @staticmethod
    def _opened(row: Credential) -> dict[str, Any]:
        try:
            return keys.opened(row)
        except keys.UNREADABLE as error:
            raise CannotHand(
                "credential-unreadable", f"The server cannot decrypt the credential {row.reference}."
            ) from error

    def _require_allowed(self, to: HandedTo, found: HandedCredentials) -> None:
        allowed = self._rules[to.team_id]
        for each in found.secrets:
            if not policy.is_allowed(
                each.secret, allowed, cluster=self._cluster, namespace=to.namespace or "*"
            ):
                where = f"namespace {to.namespace} of " if to.namespace else "the agent's own namespace of "
                told = ", ".join(allowed.cluster_secrets) or "none"
                raise CannotHand(
                    "secret-not-allowed",
                    f"The Secret {each.secret} in {where}{self._cluster} is not among those that its team's rules "
                    f"allow: {told}.",
                )

    def note_use(self) -> None:
        """Note which credentials were handed out."""
        if self._used:
            actions.used(self._used)


def _told(found: HandedCredentials) -> AssignedCredentials:
    return AssignedCredentials(
        directory=handed.DIRECTORY,
        variables=found.variables,
        files=found.files,
        logins=_logins(found),
        secrets=tuple(
            AssignedSecret(
                secret=each.secret, use=each.use.value, folder=each.folder, variables=dict(each.variables)
            )
            for each in found.secrets
        ),
    )


def _logins(found: HandedCredentials) -> tuple[AssignedLogin, ...]:
    return tuple(
        AssignedLogin(server=each.server, username=each.username, password=each.password)
        for each in found.logins
    )
