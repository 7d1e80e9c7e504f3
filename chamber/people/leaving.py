"""What becomes of the open workloads of whoever is put out."""

from enum import StrEnum

from chamber.errors import Refusal
from chamber.models import User
from teams.actions.members import find_person
from teams.actors import Actor
from workloads.actions import cancel_all, hand_over
from workloads.models import Workload
from workloads.models.workload import OPEN


class Leaving(StrEnum):
    """What becomes of the open workloads of somebody who is put out."""

    LEAVE = "leave"
    CANCEL = "cancel"
    HAND_OVER = "hand-over"


def find_heir(who: str) -> User:
    """Return to whom workloads are handed over, by user name or address; refuse where nobody is named."""
    if not who.strip():
        raise Refusal("Name who gets the workloads.", field="to")
    return find_person(who)


SETTLED = {
    Leaving.LEAVE: "left as they are",
    Leaving.CANCEL: "cancelled",
    Leaving.HAND_OVER: "handed over",
}
"""How the trail tells what became of them."""


def settle(by: Actor, user: User, workloads: Leaving, heir: User | None) -> int:
    """Do with the open workloads what was chosen; return with how many."""
    owned = Workload.objects.filter(owner=user, status__in=OPEN)
    if workloads is Leaving.LEAVE:
        return owned.count()
    ids = list(owned.order_by("pk").values_list("pk", flat=True))
    if heir is None:
        return len(cancel_all(by=by, ids=ids))
    if heir == user or not heir.is_active:
        raise Refusal(
            f"{heir.username} cannot take over workloads: name somebody else who can sign in.", field="to"
        )
    return len(hand_over(by=by, ids=ids, to=heir))
