"""The effect of a form before it is saved: a panel beside the form, or a page of its own where there are no scripts."""

from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, cast

from django import forms
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_POST

from chamber.errors import Refusal, no_such
from chamber.http import page
from scheduling.views import WAIT_SECONDS
from scheduling.whatif import asking
from scheduling.whatif.desk import TooMany
from scheduling.whatif.draft import DraftEdits
from scheduling.whatif.shown import tell
from teams.actors import Actor, Via
from teams.views.draft import entries_of
from teams.views.pools import pool_form
from teams.views.requests import TreePlace, pool_for
from teams.views.tree import row_form

if TYPE_CHECKING:
    from chamber.models import User

TOKEN = "csrfmiddlewaretoken"  # noqa: S105 - the name of a field


@require_POST
def what_if_team(request: HttpRequest, slug: str) -> HttpResponse:
    """What saving a row of the tree would change."""
    place = TreePlace.of(request)
    row, form = row_form(request, place, slug)

    def draft() -> DraftEdits:
        return asking.of_teams(by=_actor(request), edits=[form.edit(row.team, place.sharing)])

    save = f"{reverse('teams:edit', args=[slug])}?{place.query}"
    return _answer(request, f"{row.team.name} in {place.sharing.name}", save, _wrong([("", form)]), draft)


@require_POST
def what_if_teams(request: HttpRequest) -> HttpResponse:
    """What saving all rows of the tree's page would change."""
    place = TreePlace.of(request)
    entries = entries_of(request, place)

    def draft() -> DraftEdits:
        edits = [form.edit(row.team, place.sharing) for row, form in entries if form.differs()]
        return asking.of_teams(by=_actor(request), edits=edits)

    save = f"{reverse('teams:edit-all')}?{place.query}"
    wrong = _wrong([(row.team.name, form) for row, form in entries])
    return _answer(request, f"Teams in {place.sharing.name}", save, wrong, draft)


@require_POST
def what_if_pool(request: HttpRequest, slug: str) -> HttpResponse:
    """What saving a pool's policy would change."""
    pool = pool_for(request, slug)
    if pool is None:
        raise no_such("pool", slug)
    form = pool_form(request, pool)

    def draft() -> DraftEdits:
        version = form.cleaned_data["version"] or 0
        return asking.of_pool(by=_actor(request), pool=pool, version=version, changes=form.changes())

    save = reverse("teams:pool-edit", args=[slug])
    return _answer(request, f"Policy of {pool.name}", save, _wrong([("", form)]), draft)


@require_POST
def what_if_drain(request: HttpRequest) -> HttpResponse:
    """What draining nodes would change: each `node` as `cluster/name`."""
    nodes = sorted({node.replace("\x00", "") for node in request.POST.getlist("node")})
    keys = [(cluster, name) for cluster, _, name in (node.partition("/") for node in nodes)]
    wrong = [] if nodes else ["Choose a node."]

    def draft() -> DraftEdits:
        return asking.of_nodes(by=_actor(request), cordoned={}, drained=keys)

    return _answer(request, f"Draining {', '.join(nodes)}", "", wrong, draft)


def _actor(request: HttpRequest) -> Actor:
    return Actor.person(cast("User", request.user), Via.PAGE)


def _wrong(entries: Iterable[tuple[str, forms.Form]]) -> list[str]:
    """Return what is wrong with what was typed, as sentences that name the team, if any, and the field."""
    found = []
    for team, form in entries:
        for name, sentences in form.errors.items():
            label = str(form[name].label) if name in form.fields else ""
            for sentence in map(str, sentences):
                # Some begin with the field's name.
                named = ", ".join(filter(None, [team, "" if sentence.startswith(f"{label} ") else label]))
                found.append(f"{named}: {sentence}" if named else sentence)
    return found


def _answer(
    request: HttpRequest, title: str, save_url: str, wrong: list[str], draft: Callable[[], DraftEdits]
) -> HttpResponse:
    """Answer the panel, or the page; refusals of the draft are part of the answer. Without a `save_url` there is
    nothing to save."""
    problems, answer, busy = wrong, None, ""
    if not problems:
        try:
            answer = asking.ask(draft(), key=_key(request), wait_seconds=WAIT_SECONDS)
        except TooMany as others:
            busy = others.message
        except Refusal as refusal:
            if refusal.status in {403, 404}:
                raise
            problems = list(refusal.fields.values()) or [refusal.message]
    context = {
        "title": title,
        "problems": problems,
        "busy": busy,
        "effect": answer and tell(answer, request.user),
        "url": request.get_full_path(),
        "save_url": save_url,
        "values": [(name, value) for name, values in _values(request) for value in values],
    }
    return page(request, "scheduling/what_if.html", context, fragment="scheduling/_what_if.html")


def _values(request: HttpRequest) -> list[tuple[str, list[str]]]:
    return [
        (name, [str(value) for value in values]) for name, values in request.POST.lists() if name != TOKEN
    ]


def _key(request: HttpRequest) -> Hashable:
    """Return what stands for this draft among what is asked: whose it is, of what, with which values."""
    posted = tuple(sorted((name, tuple(values)) for name, values in _values(request)))
    return request.user.pk, request.get_full_path(), posted
