"""The audit trail: its page, and its export for pages and API alike."""

from collections.abc import AsyncGenerator, Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from channels.db import database_sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.utils import timezone
from django.utils.html import format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.http import require_safe

from chamber import limits
from chamber.errors import NotAllowed, Refusal
from chamber.http import page
from chamber.standing import Allowed, StreamStanding
from teams import trail
from teams.actors import Via
from teams.chain import duty
from teams.chain.export import SealedExport
from teams.models import AuditEvent, Team
from teams.permissions import Permission, may_anywhere, paths_where
from teams.querysets import AuditEventQuerySet
from teams.trail import Export, TrailFilters
from teams.views.requests import person

if TYPE_CHECKING:
    from chamber.models import User

CSV, LINES = "text/csv; charset=utf-8", "application/x-ndjson"


class Written(Protocol):
    """A file in parts."""

    def begin(self) -> str:
        """Return the first part."""
        ...

    def go_on(self) -> str:
        """Return the next part; "" where there are no more."""
        ...


@require_safe
def audit(request: HttpRequest) -> HttpResponse:
    """Show a page of the trail, newest first, as the address filters it; 422 with a sentence where that cannot be."""
    user = person(request)
    require_reader(user)
    filters = TrailFilters.read(request.GET)
    wrong: Refusal | None = None
    try:
        rows = filters.apply(AuditEvent.objects.visible_to(user), user)
    except Refusal as refusal:
        wrong, rows = refusal, AuditEvent.objects.none()
    events, following = trail.page_of(rows, request.GET.get("cursor", ""))
    context = {
        "events": events,
        "next_cursor": following,
        "is_first": not request.GET.get("cursor"),
        "filters": filters,
        "wrong": wrong,
        "ways_in": list(Via),
        "chain": duty.standing(),
        "team_choices": _team_options(user, filters.team),
    }
    return page(request, "teams/audit.html", context, status=422 if wrong else 200)


@require_safe
def export(request: HttpRequest) -> HttpResponseBase:
    """Send all that the address asks for, as CSV; with `form=jsonl` as lines of JSON with their seals."""
    user = person(request)
    require_reader(user)
    filters = TrailFilters.read(request.GET)
    rows = filters.apply(AuditEvent.objects.visible_to(user), user)
    limits.require_stream(user)
    if request.GET.get("form") != "jsonl":
        return sent(request, rows, StreamStanding.of(request))
    return sent(request, rows, StreamStanding.of(request), sealed_by=chosen_by(filters, user))


def chosen_by(filters: TrailFilters, user: "User") -> dict[str, str]:
    """Return by what rows are chosen: the filters, and the teams where the reader's role does not reach all."""
    paths = paths_where(user, Permission.VIEW_AUDIT)
    if Team.objects.filter(depth=0, path__in=paths).exists():
        return filters.given
    return filters.given | {
        "readable": ", ".join(Team.objects.filter(path__in=paths).values_list("slug", flat=True))
    }


def require_reader(user: "User") -> None:
    """Refuse whoever reads no team's trail."""
    if not may_anywhere(user, Permission.VIEW_AUDIT):
        raise NotAllowed("Your role does not let you read the audit trail.")


def sent(
    request: HttpRequest,
    rows: AuditEventQuerySet,
    standing: StreamStanding,
    *,
    sealed_by: dict[str, str] | None = None,
) -> HttpResponseBase:
    """Return the rows as a file that is written while it is sent, so that it may be of any length.

    CSV, newest first; where `sealed_by` tells the filters, lines of JSON with their seals in the order of the chain.

    It ends where its reader may not read the trail of a team any more of which they could when it began.
    """
    began_with: list[str] = []

    def sees(user: "User") -> bool:
        now = tuple(paths_where(user, Permission.VIEW_AUDIT))
        began_with.extend(() if began_with else now)  # the first look is before the first row
        return bool(now) and all(path.startswith(now) for path in began_with)

    name = f"audit-{timezone.now():%Y-%m-%d}"
    if sealed_by is None:
        return written_while_sent(request, Export(rows), standing, sees, name=f"{name}.csv", kind=CSV)
    sealed = SealedExport(rows, sealed_by)
    return written_while_sent(request, sealed, standing, sees, name=f"{name}.jsonl", kind=LINES)


def written_while_sent(
    request: HttpRequest,
    written: Written,
    standing: StreamStanding,
    sees: Callable[["User"], bool],
    *,
    name: str,
    kind: str,
) -> HttpResponseBase:
    """Return a file of any length that is written while it is sent, and ends where its reader no longer `sees` it."""
    content: Any
    if isinstance(request, ASGIRequest):
        content = limits.streamed(standing.user_id, _in_threads(written, standing.allowed(sees)))
    else:
        content = _in_turn(written, lambda: standing.holds(sees), standing.user_id)
    response = StreamingHttpResponse(content, content_type=kind)
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["Cache-Control"] = "no-store"
    return response


async def _in_threads(written: Written, allowed: Allowed) -> AsyncGenerator[str]:
    yield await database_sync_to_async(written.begin, thread_sensitive=False)()
    go_on = database_sync_to_async(written.go_on, thread_sensitive=False)
    while await allowed() and (text := await go_on()):
        yield text


def _in_turn(written: Written, holds: Callable[[], bool], user_id: object) -> Iterator[str]:
    with limits.streaming(user_id):
        yield written.begin()
        while holds() and (text := written.go_on()):
            yield text


def _team_options(user: "User", chosen: str) -> SafeString:
    """Return the teams whose trail the user reads, as options of a `<select>`."""
    teams = Team.objects.under_any(paths_where(user, Permission.VIEW_AUDIT)).order_by("path")
    return format_html_join(
        "",
        '<option value="{}"{}>{}</option>',
        (
            (slug, mark_safe(" selected") if slug == chosen else "", name)
            for slug, name in teams.values_list("slug", "name")
        ),
    )
