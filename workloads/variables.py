"""Who sees the values of a workload's variables: its owner, and whoever manages the workloads of its team.

Everybody else who sees the workload is told the names. Every place that shows them (API, pages, manifests) asks here.
"""

from typing import TYPE_CHECKING

from teams.permissions import Permission, may
from workloads.models import Workload

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

    from chamber.models import User


def sees_values(user: "User | AnonymousUser", workload: Workload) -> bool:
    """Return whether the user sees the values too. The workload's team must be loaded."""
    return workload.owner_id == user.pk or may(user, Permission.MANAGE_WORKLOADS, workload.team)


def told(user: "User | AnonymousUser", workload: Workload) -> dict[str, str | None]:
    """Return the variables as far as the user may see them: names, with None for a value that is not shown."""
    if sees_values(user, workload):
        return dict(workload.environment)
    return dict.fromkeys(workload.environment)
