"""Pages of the groups that identity providers name."""

from urllib.parse import urlencode

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from chamber.http import page
from chamber.models import User
from chamber.oidc.groups import matching, named_group, named_groups
from chamber.oidc.providers import providers
from teams.permissions import Permission, may_anywhere
from teams.views.requests import person

PAGE_ROWS = 50


@require_safe
def groups(request: HttpRequest) -> HttpResponse:
    """List them, with how many people are in each and what roles it gives."""
    found, text = named_groups(person(request)), request.GET.get("q", "")[:100]
    place = Paginator(matching(found, text), PAGE_ROWS).get_page(request.GET.get("page"))
    context = {
        "groups": place.object_list,
        "place": place,
        "q": text,
        "query": urlencode({"q": text}),
        "total": len(found),
        "providers": providers(),
    }
    return page(request, "sign_in/groups.html", context)


@require_safe
def group(request: HttpRequest, group_id: str) -> HttpResponse:
    """Show one with its people."""
    shown = named_group(person(request), group_id)
    place = Paginator(sorted(shown.people), PAGE_ROWS).get_page(request.GET.get("page"))
    people = User.objects.filter(username__in=list(place.object_list)).order_by("username")
    may_change = may_anywhere(person(request), Permission.MANAGE_PEOPLE)
    context = {"shown": shown, "people": people, "place": place, "may_change": may_change}
    return page(request, "sign_in/group.html", context)
