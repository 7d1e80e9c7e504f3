"""What Chamber refuses, as one tree that pages, API, CLI and sockets answer alike.

    Refusal                422  what was asked cannot be; `field` says where
    ├── NotVisible         404  it does not exist, or may not be seen
    ├── NotAllowed         403  you may see it but not do this
    ├── Conflict           409  somebody or something was quicker
    │   └── StaleVersion   412  you edited an older version than the stored one
    └── TooLarge           413  the message is over its bound

A message is a sentence with the offending value and what is allowed.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from chamber.words import nearest

if TYPE_CHECKING:
    from django.db.models import Model, QuerySet

M = TypeVar("M", bound="Model")

MOST_SHOWN = 80
FEW = frozenset({"team", "pool", "cluster"})
"""Things that are so few that a wrong name of one is compared with all of them."""
MOST_COMPARED = 5000


class Refusal(Exception):  # noqa: N818 - a refusal is an answer, not a fault
    """Base of what is refused; several at once when `fields` holds a sentence per field."""

    status = 422
    code = "refused"
    retry_seconds: int | None = None
    """After how long it may be otherwise, where that is known."""

    def __init__(
        self,
        message: str,
        *,
        field: str | None = None,
        code: str | None = None,
        fields: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.fields = fields or ({field: message} if field else {})
        self.code = code or self.code


class NotVisible(Refusal):
    """There is no such thing for this actor."""

    status = 404
    code = "not-found"


class NotAllowed(Refusal):
    """The actor's role does not give this."""

    status = 403
    code = "not-allowed"


class Conflict(Refusal):
    """The state changed, or the request contradicts an earlier one."""

    status = 409
    code = "conflict"


class StaleVersion(Conflict):
    """The edit was made on an older version."""

    status = 412
    code = "stale-version"


class TooLarge(Refusal):
    """The message is larger than its bound."""

    status = 413
    code = "too-large"


def refusal_of(problems: dict[str, str], *, code: str | None = None) -> Refusal:
    """Return one refusal of all these sentences by field."""
    return Refusal(" ".join(problems.values()), fields=problems, code=code)


def no_such(noun: str, name: object, *, field: str | None = None, known: Iterable[str] = ()) -> NotVisible:
    """Return that there is none of this name, with the nearest of those that the asker may know."""
    text = str(name)[:MOST_SHOWN]
    return NotVisible(f"There is no {noun} {text!r} that you may see.{nearest(text, known)}", field=field)


def one_of(rows: "QuerySet[M]", noun: str, *, field: str | None = None, **wanted: Any) -> M:
    """Return the row of these that is so; raise `NotVisible` with what was looked for where there is none.

    `rows` are those that the asker may see: of `FEW` the nearest name is told (another query).
    """
    found = rows.filter(**wanted).first()
    if found is None:
        key, name = list(wanted.items())[-1]
        known = rows.order_by().values_list(key, flat=True)[:MOST_COMPARED] if noun in FEW else ()
        raise no_such(noun, name, field=field, known=known)
    return found
