"""Pages of the demo: the mails that it keeps in place of a mail server."""

from uuid import UUID

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from chamber.demo.mails import MOST, heads, kept, newest_first, require_kept
from chamber.errors import NotAllowed
from chamber.http import page
from teams.permissions import Permission, may_anywhere
from teams.views.requests import person

PAGE_ROWS = 50


@require_safe
def mails(request: HttpRequest) -> HttpResponse:
    """List them, the newest first."""
    _require(request)
    place = Paginator(newest_first(), PAGE_ROWS).get_page(request.GET.get("page"))
    return page(request, "demo/mails.html", {"mails": heads(place.object_list), "place": place, "most": MOST})


@require_safe
def mail(request: HttpRequest, mail_id: UUID) -> HttpResponse:
    """Show one: its text with the links in it, and the source of its HTML, which is not rendered."""
    _require(request)
    response = page(request, "demo/mail.html", {"mail": kept(mail_id)})
    response["Cache-Control"] = "no-store"  # it has a link that sets a password
    return response


def _require(request: HttpRequest) -> None:
    """Refuse outside of the demo, and who does not manage people: a link lets its reader in as who it is for."""
    require_kept()
    if not may_anywhere(person(request), Permission.MANAGE_PEOPLE):
        raise NotAllowed("Mails of the demo are shown to organisation admins: links in them set passwords.")
