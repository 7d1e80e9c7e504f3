"""Reading credentials: which somebody may see, and what is shown of each. Values are never shown to anybody."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db.models import Count, Q, QuerySet

from chamber.errors import NotVisible, no_such
from teams.models import Team
from teams.permissions import Permission, may, paths_where
from workloads.around import around
from workloads.credentials import handed
from workloads.credentials.kinds import PARTS, PartShape
from workloads.models import Credential, CredentialKind, NamedCredential, Workload
from workloads.models.workload import OPEN

if TYPE_CHECKING:
    from chamber.models import User

MOST_NAMED = 10
"""Workloads that are shown of those that name a credential."""


def credentials_for(reader: "User") -> QuerySet[Credential]:
    """Return those that are the reader's own, and those of teams that they may submit to or manage, or that lie above
    such a team.
    """
    seen = Q(owner=reader.pk)
    if where := _teams_where(reader):
        seen |= Q(team__in=Team.objects.filter(where).order_by().values("pk"))
    return Credential.objects.filter(seen).select_related("team", "owner", "made_by").order_by("name", "id")


def _teams_where(reader: "User") -> Q | None:
    """Return of which teams somebody sees the credentials; None of none."""
    return around(
        {
            *paths_where(reader, Permission.SUBMIT),
            *paths_where(reader, Permission.MANAGE_CREDENTIALS),
        }
    )


def of_team(reader: "User", team: Team) -> QuerySet[Credential]:
    """Return those of one team."""
    return credentials_for(reader).filter(team=team)


def own(reader: "User") -> QuerySet[Credential]:
    """Return the reader's own."""
    return credentials_for(reader).filter(owner=reader.pk)


def usable_in(reader: "User", team: Team) -> list[Credential]:
    """Return those that the reader may name in workloads of this team: their own, then those of the teams above it from
    the root down, then its.
    """
    rows = credentials_for(reader).filter(Q(owner=reader.pk) | Q(team__in=team.ancestor_ids()))
    return sorted(rows, key=_by_depth)


def _by_depth(row: Credential) -> tuple[int, str]:
    return (-1 if row.team is None else row.team.depth, row.name)


def credential_for(reader: "User", name: str, team: Team | None = None) -> Credential:
    """Return the one of this name that is the reader's own, or the team's; raise `NotVisible` where there is none."""
    rows = own(reader) if team is None else of_team(reader, team)
    found = rows.filter(name=name.replace("\x00", "")).first()
    if found is None:
        known = list(rows.values_list("name", flat=True)[:100])
        where = "credential" if team is None else f"credential of {team.name}"
        raise no_such(where, name, known=known)
    return found


def may_manage(reader: "User", team: Team) -> bool:
    """Return whether somebody makes, replaces and deletes the team's."""
    return may(reader, Permission.MANAGE_CREDENTIALS, team)


def require_sight(reader: "User", team: Team) -> None:
    """Raise `NotVisible` where nothing of a team's credentials is for the reader."""
    where = _teams_where(reader)
    if where is None or not Team.objects.filter(where, pk=team.pk).exists():
        raise NotVisible(f"There are no credentials of {team.name} that you may see.")


@dataclass(frozen=True, slots=True)
class ShownCredential:
    """A credential with what is no secret of it, and the open workloads that name it, as the reader sees them."""

    row: Credential
    open_workloads: int
    named_by: tuple[str, ...]

    @property
    def variables(self) -> list[str]:
        """The names of the variables that pods get by it."""
        return handed.variables_of(self.row)

    @property
    def folder(self) -> str:
        """Where pods have its files; "" where it has none."""
        return f"{handed.DIRECTORY}/{self.row.name}/" if handed.has_folder(self.row) else ""

    @property
    def details(self) -> list[tuple[str, str]]:
        """What is no secret of it, in words."""
        found = []
        for part in PARTS[CredentialKind(self.row.kind)]:
            if part.name in self.row.details:
                value: Any = self.row.details[part.name]
                if part.shape is PartShape.PAIRS:
                    value = ", ".join(f"{name}={key}" for name, key in value.items())
                found.append((part.label, str(value)))
        return found


def shown(rows: Iterable[Credential], reader: "User") -> list[ShownCredential]:
    """Return credentials with what is told of them (two queries, however many)."""
    found = list(rows)
    naming = NamedCredential.objects.filter(
        credential__in=[row.pk for row in found], workload__status__in=OPEN
    )
    counts = Counter[Any]()
    for credential, count in naming.order_by().values_list("credential").annotate(Count("workload")):
        counts[credential] = count
    names: dict[Any, list[str]] = {}
    if counts:
        seen = (
            Workload.objects.visible_to(reader).open().filter(named_credentials__credential__in=list(counts))
        )
        first = seen.order_by("-submitted_at").values_list("named_credentials__credential", "slug")
        for credential, slug in first[: MOST_NAMED * len(counts)]:
            names.setdefault(credential, []).append(slug)
    return [ShownCredential(row, counts[row.pk], tuple(names.get(row.pk, ())[:MOST_NAMED])) for row in found]
