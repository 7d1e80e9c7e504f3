"""Truth 7: nobody changes what their role does not give."""

from collections.abc import Iterator
from uuid import UUID

from chaos.truths.records import Records
from chaos.truths.tables import StoredTables, StoredWorkload
from chaos.truths.violation import TruthViolation

SUBMIT = frozenset({"researcher", "lead", "admin", "org-admin"})
MANAGE_WORKLOADS = frozenset({"lead", "admin", "org-admin"})
MANAGE_TEAM = frozenset({"admin", "org-admin"})
SPLIT = MANAGE_TEAM | {"lead"}


def check(tables: StoredTables, records: Records) -> Iterator[TruthViolation]:
    """Compare who did what with the roles that reach the team; bindings are taken as they are now."""
    roles = _Roles(tables)
    for workload in tables.workloads:
        if not roles.has(workload.owner_id, workload.team_id, SUBMIT):
            who = tables.username.get(workload.owner_id, "?")
            yield TruthViolation(7, f"{who} submitted to a team where he may not.", (str(workload),))
    for event in tables.events:
        workload = tables.workload[event.workload_id]
        if event.user_id is not None and not roles.may_control(event.user_id, workload):
            yield TruthViolation(7, f"{event.actor} acted on {workload.slug}.", (str(workload), str(event)))
    for row in tables.audit:
        needed = SPLIT if row.action == "team.share-changed" else MANAGE_TEAM
        if row.user_id is not None and row.action in ("team.edited", "team.share-changed"):
            team_id = _last(row.team_path)
            if team_id is not None and not roles.has(row.user_id, team_id, needed):
                yield TruthViolation(7, f"{row.actor} changed {row.target_name}.", (str(row),))
    for asked in records.asked:
        if asked.act.startswith("forbidden") and asked.was_done:
            yield TruthViolation(7, f"{asked.user} was let do what he may not.", (str(asked),))


class _Roles:
    """Roles of users, inherited downwards."""

    def __init__(self, tables: StoredTables) -> None:
        self._team = tables.team
        self._given = {
            (row.user_id, row.team_id, row.role) for row in tables.bindings if row.user_id is not None
        }

    def has(self, user_id: UUID, team_id: UUID, roles: frozenset[str]) -> bool:
        """Return whether one of the roles reaches the team."""
        above: UUID | None = team_id
        while above is not None:
            if any((user_id, above, role) in self._given for role in roles):
                return True
            above = self._team[above].parent_id
        return False

    def may_control(self, user_id: UUID, workload: StoredWorkload) -> bool:
        """Return whether the workload is the user's own, or one of a team whose work he manages."""
        if self.has(user_id, workload.team_id, MANAGE_WORKLOADS):
            return True
        return user_id == workload.owner_id and self.has(user_id, workload.team_id, SUBMIT)


def _last(path: str) -> UUID | None:
    parts = path.strip("/").split("/")
    return UUID(parts[-1]) if parts[-1] else None
