"""What a reason advises, for one reader: what is done to a workload is for those to do who control it."""

from typing import TYPE_CHECKING

from workloads.actions import is_controlled_by
from workloads.models import Workload

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

    from chamber.models import User

FOR_ANYBODY = ("Nothing to do", "Ask an admin", "Ask an operator")
"""How advice begins that does nothing to the workload itself."""


def is_for(step: str, workload: Workload, user: "User | AnonymousUser") -> bool:
    """Return whether a reader can do what is advised. Team and owner should be loaded, and whether it was adopted."""
    anybodys = step.startswith(FOR_ANYBODY) and f"chamber release {workload.slug}" not in step
    return not step or anybodys or is_controlled_by(user, workload)


def of_others(step: str, workload: Workload) -> str:
    """Return what is advised to those who control the workload, for a reader who does not."""
    return f"Its owner, or who manages workloads in {workload.team.name}, can do this: {step}"
