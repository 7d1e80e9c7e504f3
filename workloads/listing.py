"""The list of workloads: filters, order, and pages by cursor that cost the same however many rows there are."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

from django.contrib.auth import get_user_model
from django.db.models import Exists, OuterRef, Q
from django.http import QueryDict
from django.utils.dateparse import parse_datetime

from chamber.errors import MOST_COMPARED, NotVisible, no_such, refusal_of
from chamber.rest import decode_cursor, encode_cursor
from teams.members import people_of_teams_seen_by
from teams.models import JobClass, Pool, Team
from teams.models.job_class import RESERVED_FROM
from workloads.models import Status, Workload, WorkloadArray
from workloads.models.workload import OPEN
from workloads.querysets import WorkloadQuerySet

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from chamber.models import User

PAGE_SIZE = 50
LARGEST_PAGE = 500
DEFAULT_SORT = "-submitted"
SORTS = {"submitted": "submitted_at", "name": "name", "priority": "priority"}
"""What may be sorted by; each column has its index with the id."""

ORDERS = dict.fromkeys(sign + name for name in SORTS for sign in ("", "-"))

IDLE = "idle"
STATUS_CHOICES = [
    ("open", "All open"),
    ("held", "Held"),
    ("ended", "All ended"),
    (IDLE, "With idle GPUs"),
    *Status.choices,
]
_STATES = {
    "open": Q(status__in=OPEN),
    # Exactly these have an end; the list then follows the index of its order.
    "ended": Q(finished_at__isnull=False),
    "held": Q(status=Status.PENDING, held=True),
}
CLASS_CHOICES = [("reserved", "Reserved"), ("elastic", "Elastic")]
WITHIN = {
    "1h": ("Last hour", timedelta(hours=1)),
    "24h": ("Last 24 hours", timedelta(days=1)),
    "7d": ("Last 7 days", timedelta(days=7)),
    "30d": ("Last 30 days", timedelta(days=30)),
}
MINE = "me"
_PARAMETERS = (
    "array",
    "team",
    "status",
    "class",
    "job_class",
    "owner",
    "pool",
    "search",
    "within",
    "sort",
    "limit",
    "cursor",
    "format",
)
"""What an address of the API may say."""


@dataclass(frozen=True, slots=True)
class Filters:
    """What somebody asked to see, without values that cannot be: `problems` tells of them."""

    team: str = ""
    status: tuple[str, ...] = ()
    priority_class: str = ""
    job_class: str = ""
    owner: str = ""
    pool: str = ""
    q: str = ""
    within: str = ""
    sort: str = DEFAULT_SORT
    array: str = ""

    @classmethod
    def read(cls, query: QueryDict) -> Self:
        """Return the filters of an address; `class` is the priority class."""
        given = {name: query.get(name, "").strip()[:200] for name in ("team", "owner", "pool", "q", "array")}
        return cls(
            **{name: text.replace("\0", "") for name, text in given.items()},
            status=tuple(status for status in query.getlist("status") if status in dict(STATUS_CHOICES)),
            priority_class=_known(query.get("class", ""), dict(CLASS_CHOICES)),
            job_class=query.get("job_class", "").strip().replace("\0", "")[:40],
            within=_known(query.get("within", ""), WITHIN),
            sort=_known(query.get("sort", ""), ORDERS) or DEFAULT_SORT,
        )

    @classmethod
    def read_strictly(cls, query: QueryDict, user: "User") -> Self:
        """Return the filters of an API's address; raise one `Refusal` of all names and values that cannot be:
        `NotVisible` where all that is wrong is a name of something that this user may not know.
        """
        unknown = {
            name: f"There is no filter {name[:40]!r}; there are {', '.join(_PARAMETERS)}."
            for name in query
            if name not in _PARAMETERS
        }
        query = query.copy()
        query.setdefault("q", query.get("search", ""))
        filters = cls.read(query)
        wrong, nowhere = unknown | _not_allowed(query), filters._unknown_to(user)
        if wrong:
            raise refusal_of(wrong | nowhere)
        if nowhere:
            raise NotVisible(" ".join(nowhere.values()), fields=nowhere)
        return filters

    def problems(self, query: QueryDict, user: "User") -> dict[str, str]:
        """Return a sentence for each filter of the address whose value cannot be, or is none that this user may know
        (a query for each team, owner and pool).
        """
        return _not_allowed(query) | self._unknown_to(user)

    def _unknown_to(self, user: "User") -> dict[str, str]:
        found = {}
        teams, pools = Team.objects.visible_to(user), Pool.objects.visible_to(user)
        arrays = WorkloadArray.objects.visible_to(user)
        for noun, name, rows in (
            ("team", self.team, teams),
            ("pool", self.pool, pools),
            ("array", self.array, arrays),
        ):
            if name and not rows.filter(slug=name).exists():
                known = rows.order_by().values_list("slug", flat=True)
                found[noun] = no_such(noun, name, known=known[:MOST_COMPARED]).message
        if unknown := unknown_owner(self.owner, user):
            found["owner"] = unknown.message
        return found

    @property
    def any(self) -> bool:
        """Return whether anything but the order was asked for."""
        return self != Filters(sort=self.sort)

    def apply(
        self, rows: WorkloadQuerySet, *, user: "User", now: datetime, folded: bool = False
    ) -> WorkloadQuerySet:
        """Keep the rows that match; a team stands for itself and all below it.

        With `folded` the first member of an array stands for all, and is kept where one of them matches.
        """
        if self.team:
            rows = self._by_team(rows, user)
        if self.array:
            rows = rows.filter(array__slug=self.array)
        if self.owner:
            rows = (
                rows.filter(owner=user.pk) if self.owner == MINE else rows.filter(owner__username=self.owner)
            )
        if self.job_class:
            rows = rows.filter(job_class=self.job_class)
        if self.q:
            rows = rows.filter(Q(name__icontains=self.q) | Q(slug__icontains=self.q))
        if self.within:
            rows = rows.filter(submitted_at__gte=now - WITHIN[self.within][1])
        if self.priority_class == "reserved":
            rows = rows.filter(priority__gte=RESERVED_FROM)
        elif self.priority_class == "elastic":
            rows = rows.filter(priority__lt=RESERVED_FROM)
        wanted = self._state(now)
        return _folded(rows, wanted) if folded and not self.array else rows.filter(wanted)

    def _by_team(self, rows: WorkloadQuerySet, user: "User") -> WorkloadQuerySet:
        """Keep a team and all below it. A team without any below has an index of its own."""
        team = Team.objects.visible_to(user).filter(slug=self.team).first()
        if team is None:
            return rows.none()
        alone = not Team.objects.filter(parent=team).exists()
        return rows.filter(team=team) if alone else rows.of_teams(Team.objects.within(team))

    def _state(self, now: datetime) -> Q:
        """Return the condition on what members of one array may differ in: status and pool."""
        wanted = Q()
        for status in self.status:
            if status == IDLE:
                wanted |= Q(pk__in=Workload.objects.with_idle_gpus(now).values("pk"))
            else:
                wanted |= _STATES.get(status) or Q(status=status)
        return wanted & Q(pool__slug=self.pool) if self.pool else wanted


def _folded(rows: WorkloadQuerySet, wanted: Q) -> WorkloadQuerySet:
    """Keep of the rows those that match, and the first member of each array of which some member matches (one query
    more where there is something to match).
    """
    rows = rows.filter(folded__isnull=True)
    if not wanted or not WorkloadArray.objects.exists():  # then the list follows the index of its status
        return rows.filter(wanted)
    members = Workload.objects.order_by().filter(wanted, array=OuterRef("array"))
    return rows.filter((Q(array__isnull=True) & wanted) | (Q(array__isnull=False) & Exists(members)))


def unknown_owner(owner: str, user: "User") -> NotVisible | None:
    """Return that there is no such owner; None where a list may be asked for theirs. "" means anybody's.

    Of others than whose names this user may know nobody learns whether they have an account, and they are no hint.
    """
    if owner in {"", MINE, user.username}:
        return None
    people = _people_known_to(user)
    if people.filter(username=owner).exists():
        return None
    names = people.values_list("username", flat=True).order_by("username")
    return no_such("user", owner, field="owner", known=names)


def _people_known_to(user: "User") -> "QuerySet[User]":
    """Return whose user names somebody may know: their own, of members of teams that they see, and of owners of
    workloads that they may see. Each account is looked up for itself.
    """
    people = get_user_model()._default_manager
    members = Q(pk__in=people_of_teams_seen_by(user).values("pk"))
    theirs = Workload.objects.visible_to(user).order_by().filter(owner=OuterRef("pk"))
    return people.filter(Q(pk=user.pk) | members | Exists(theirs)).distinct()


def _not_allowed(query: QueryDict) -> dict[str, str]:
    """Return a sentence for each filter of fixed choices that is none of them."""
    allowed: dict[str, Iterable[str]] = {
        "status": dict(STATUS_CHOICES),
        "class": dict(CLASS_CHOICES),
        "job_class": _classes() if query.get("job_class") else (),
        "within": WITHIN,
        "sort": ORDERS,
    }
    return {
        name: f"{name} is {given[:40]!r}; allowed are {', '.join(values)}."
        for name, values in allowed.items()
        for given in query.getlist(name)
        if given and given not in values
    }


def _classes() -> list[str]:
    """Return the classes that workloads may be of, retired ones too (1 query)."""
    return list(JobClass.objects.values_list("slug", flat=True))


def _known(value: str, allowed: Mapping[str, Any]) -> str:
    return value if value in allowed else ""


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list and the cursors of its neighbours."""

    rows: list[Workload] = field(default_factory=list)
    following: str | None = None
    previous: str | None = None


def order_of(sort: str, *, reverse: bool = False) -> tuple[str, str]:
    """Return the columns of an order, the id last; the other way round with `reverse`."""
    sign = "-" if sort.startswith("-") is not reverse else ""
    return f"{sign}{SORTS[sort.removeprefix('-')]}", f"{sign}id"


def page_of(rows: WorkloadQuerySet, *, sort: str, cursor: str | None, size: int = PAGE_SIZE) -> Page:
    """Return the page at a cursor (one query); the first one where there is none or it is not one of ours."""
    column, descending = SORTS[sort.removeprefix("-")], sort.startswith("-")
    place = _place(cursor, column)
    backwards = place is not None and place[0] == "before"
    if place is not None:
        rows = rows.filter(_beyond(column, place[1], place[2], smaller=descending is not backwards))
    found = list(rows.order_by(*order_of(sort, reverse=backwards))[: size + 1])
    more, found = len(found) > size, found[:size]
    if backwards:
        found.reverse()
    following = bool(found) and (more or backwards)
    previous = bool(found) and ((place is not None and not backwards) or (backwards and more))
    return Page(
        found,
        _cursor("after", column, found[-1]) if following else None,
        _cursor("before", column, found[0]) if previous else None,
    )


def _beyond(column: str, value: Any, row_id: str, *, smaller: bool) -> Q:
    """Return what lies after a place of the order. The first condition alone lets the index begin there."""
    way = "lt" if smaller else "gt"
    return Q(**{f"{column}__{way}e": value}) & (
        Q(**{f"{column}__{way}": value}) | Q(**{f"id__{way}": row_id})
    )


def _cursor(way: str, column: str, row: Workload) -> str:
    value = getattr(row, column)
    return encode_cursor(
        way, column, value.isoformat() if isinstance(value, datetime) else str(value), row.pk.hex
    )


def is_cursor(text: str, *, sort: str) -> bool:
    """Return whether this is a cursor that was made for this order."""
    return _place(text, SORTS[sort.removeprefix("-")]) is not None


def _place(cursor: str | None, column: str) -> tuple[str, Any, str] | None:
    """Return (way, value, id) of a cursor made for this order; None where it is of another or of nobody."""
    parts = decode_cursor(cursor) if cursor else None
    if parts is None or len(parts) != 4 or parts[0] not in ("after", "before") or parts[1] != column:
        return None
    way, _, text, row_id = parts
    value: Any = text
    if column == "priority":
        value = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
    elif column == "submitted_at":
        value = _time(text)
    if value is None or len(row_id) != 32 or not all(letter in "0123456789abcdef" for letter in row_id):
        return None
    return way, value, row_id


def _time(text: str) -> datetime | None:
    try:
        value = parse_datetime(text)
    except ValueError:
        return None
    return value if value is not None and value.tzinfo is not None else None
