"""All rows of the tree's page as one form: what only fits together is saved together, as one audited change."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from chamber.errors import NotAllowed, Refusal
from chamber.http import page
from teams import actions
from teams.forms import RowForm, show_refusal
from teams.models import Pool
from teams.rows import TreeRow, table
from teams.views.requests import TreePlace, actor, person

Entry = tuple[TreeRow, RowForm]


@require_http_methods(["GET", "HEAD", "POST"])
def edit_all(request: HttpRequest) -> HttpResponse:
    """Edit every row that the user may, and save all or nothing."""
    place = TreePlace.of(request)
    entries = entries_of(request, place)
    problems: list[str] = []
    if request.method == "POST" and all(form.is_valid() for _, form in entries):
        problems = _save(request, place.sharing, entries)
        if not problems:
            messages.success(request, "The teams are saved; the next plan works by it.")
            return redirect(place.url)
    wrong = [(row, form) for row, form in entries if form.errors]
    context = {"entries": entries, "wrong": wrong, "problems": problems, "place": place}
    return page(request, "teams/edit_all.html", context, status=422 if problems or wrong else 200)


def entries_of(request: HttpRequest, place: TreePlace) -> list[Entry]:
    """Return the rows that the user may edit, each with its form, filled with what was posted."""
    rows = table(person(request), place.sharing, under=place.under).editable
    if not rows:
        raise NotAllowed("Your role does not let you change the limits of these teams.")
    data = request.POST if request.method == "POST" else None
    return [
        (row, RowForm(data, team=row.team, quota=row.quota, limits=row.may_limit, prefix=row.team.pk.hex))
        for row in rows
    ]


def _save(request: HttpRequest, pool: Pool, entries: list[Entry]) -> list[str]:
    """Save what differs from the stored rows; return why not, with the sentences beside their fields too."""
    edits = [form.edit(row.team, pool) for row, form in entries if form.differs()]
    try:
        actions.set_many(by=actor(request), edits=edits)
    except Refusal as refusal:
        _show(entries, pool, refusal)
        return [refusal.message]
    return []


def _show(entries: list[Entry], pool: Pool, refusal: Refusal) -> None:
    """Put each sentence into the form of the team that its field begins with."""
    if refusal.status in {403, 404}:
        raise refusal
    for row, form in entries:
        own = {key: text for key, text in refusal.fields.items() if key.startswith(f"{row.team.slug}.")}
        if own:
            names = {f"{row.team.slug}.{pool.slug}.maximum": "pool_maximum"}
            show_refusal(form, Refusal(refusal.message, fields=own), names)
