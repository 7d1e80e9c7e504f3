"""Which credentials a submission names: looked up once for all of a request, and a sentence where one cannot be.

One's own are `NAME`, those of a team `TEAM/NAME`. A workload may name its owner's own, and those of its team and of the
teams above it.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self
from uuid import UUID

from django.db.models import Q

from chamber.words import nearest
from teams.actors import Actor, Via
from teams.models import Team
from teams.rules import EffectiveRules
from workloads.credentials import handed, policy
from workloads.credentials.reading import credentials_for, usable_in
from workloads.models import Credential, NamedCredential, Workload

if TYPE_CHECKING:
    from chamber.models import User

MOST_OF_WORKLOAD = 8
"""With the 16 KiB of each: an agent is told of a workload in one message of at most 1 MiB."""
MOST_LISTED = 10


@dataclass(frozen=True, slots=True)
class KnownCredentials:
    """Those that are named and that the submitter may see, by how they are named."""

    named: Mapping[str, Credential] = field(default_factory=dict)
    reader: "User | None" = None

    @classmethod
    def read(cls, by: Actor, references: Collection[str]) -> Self:
        """Look up what is named (one query; none where nothing is named)."""
        if not references or by.user is None:
            return cls()
        wanted = Q()
        for reference in references:
            team, _, name = reference.replace("\x00", "").rpartition("/")
            wanted |= Q(team__slug=team, name=name) if team else Q(owner=by.user.pk, team=None, name=name)
        return cls({row.reference: row for row in credentials_for(by.user).filter(wanted)}, by.user)

    def of(self, references: Iterable[str]) -> list[Credential]:
        """Return those of a request, in its order; all are there."""
        return [self.named[reference] for reference in references]

    def problem(
        self, references: Collection[str], environment: Mapping[str, str], team: Team, rules: EffectiveRules
    ) -> str:
        """Return what is wrong with the credentials of a request to this team, those of its environment and data
        included; "" where nothing is.
        """
        if len(references) > MOST_OF_WORKLOAD:
            return (
                f"It names {len(references)} credentials, those of its environment and data sources included; at most "
                f"{MOST_OF_WORKLOAD} are allowed: {_listed(references)}."
            )
        for reference in references:
            row = self.named.get(reference)
            if row is None:
                return self._unknown(reference, team)
            if not is_of(row, team):
                return self._elsewhere(reference, row, team)
            if problem := policy.problem(row, team, rules):
                return problem
        return _overlap(self.of(references), environment)

    def _unknown(self, reference: str, team: Team) -> str:
        usable = self._usable(team)
        told = f"There is no credential {reference[:110]!r} that you may use."
        return f"{told}{nearest(reference, usable) or f' There are: {_listed(usable)}.'}"

    def _elsewhere(self, reference: str, row: Credential, team: Team) -> str:
        whose = row.team.name if row.team is not None else "somebody else"
        return (
            f"{reference} is a credential of {whose}. Workloads of {team.name} may use your own, and those of "
            f"{team.name} and the teams above it: {_listed(self._usable(team))}."
        )

    def _usable(self, team: Team) -> list[str]:
        """Return what could have been written (one query)."""
        return [] if self.reader is None else [row.reference for row in usable_in(self.reader, team)]


def is_of(row: Credential, team: Team) -> bool:
    """Return whether workloads of a team may use a credential that their owner may: their own, or one of the team or of
    a team above it. The credential's team must be loaded.
    """
    return row.team is None or team.is_within(row.team)


def rows_of(workload: Workload, credentials: Iterable[Credential]) -> list[NamedCredential]:
    """Return the rows by which a workload names these credentials, unsaved."""
    return [
        NamedCredential(workload=workload, position=position, credential=row)
        for position, row in enumerate(credentials)
    ]


def carried(user: "User", workload: Workload) -> tuple[list[str], list[str]]:
    """Return which of a workload's credentials somebody who submits it again may name, and which not (two queries, none
    where it names none). What is somebody else's own is never taken for one's own of the same name.
    """
    given: list[str] = workload.credentials or []
    if not given:
        return [], []
    named = dict(zip(given, ids_of([workload]).get(workload.pk, []), strict=False))
    known = KnownCredentials.read(Actor.person(user, Via.PAGE), given).named
    kept = [
        each
        for each in given
        if each in known and known[each].pk == named.get(each) and is_of(known[each], workload.team)
    ]
    return kept, [each for each in given if each not in kept]


def ids_of(workloads: Iterable[Workload]) -> dict[UUID, list[UUID | None]]:
    """Return the ids of the credentials that workloads name, in order; None for one that was deleted (1 query)."""
    found: dict[UUID, list[UUID | None]] = {}
    rows = NamedCredential.objects.filter(workload__in=[row.pk for row in workloads if row.credentials])
    for workload, credential in rows.order_by("workload", "position").values_list("workload", "credential"):
        found.setdefault(workload, []).append(credential)
    return found


def _listed(references: Collection[str]) -> str:
    shown = list(references)[:MOST_LISTED]
    more = f" and {len(references) - MOST_LISTED} more" if len(references) > MOST_LISTED else ""
    return (", ".join(shown) or "none") + more


def _overlap(rows: Collection[Credential], environment: Mapping[str, str]) -> str:
    """Return what two of these, or one and the workload's variables, would both set; "" for nothing."""
    variables: dict[str, str] = {}
    folders: dict[str, str] = {}
    for row in rows:
        for name in handed.variables_of(row):
            if name in environment:
                return f"{name} is set by environment and by the credential {row.reference}: leave one of them out."
            if name in variables:
                return f"{name} is set by {variables[name]} and by {row.reference}: leave one of them out."
            variables[name] = row.reference
        if handed.has_folder(row):
            if row.name in folders:
                return (
                    f"The files of {folders[row.name]} and of {row.reference} would lie in one folder, "
                    f"{handed.DIRECTORY}/{row.name}: leave one of them out."
                )
            folders[row.name] = row.reference
    return ""
