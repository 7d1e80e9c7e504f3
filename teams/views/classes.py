"""Pages of job classes and priority tiers: all of them, one of them, and its effect before it is saved."""

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from chamber.errors import Refusal, one_of
from chamber.http import page
from teams import actions, class_effects
from teams.actions.job_classes import review_class
from teams.actions.tiers import review_tier
from teams.class_forms import ClassForm, TierForm
from teams.forms import show_refusal
from teams.job_classes import OrganisationClasses
from teams.models import JobClass, PriorityTier
from teams.permissions import Permission, may_anywhere
from teams.views.requests import actor, person

EFFECT = "effect"
"""In the query of a posted form: show what saving would change, and save nothing."""
ACTS = ("retire", "restore", "delete")


@require_safe
def classes(request: HttpRequest) -> HttpResponse:
    """Show the organisation's job classes and tiers."""
    user = person(request)
    known = OrganisationClasses.read()
    context = {
        "classes": JobClass.objects.visible_to(user).select_related("tier"),
        "tiers": [
            {"row": tier, "range": "" if tier.is_retired else known.range_of(tier)}
            for tier in PriorityTier.objects.visible_to(user)
        ],
        "may_change": may_anywhere(user, Permission.MANAGE_CLASSES),
    }
    return page(request, "teams/classes.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def new_class(request: HttpRequest) -> HttpResponse:
    """Make a job class."""
    return _class_page(request, None)


@require_http_methods(["GET", "HEAD", "POST"])
def edit_class(request: HttpRequest, slug: str) -> HttpResponse:
    """Change a job class, or show what that would do."""
    rows = JobClass.objects.visible_to(request.user).select_related("tier")
    return _class_page(request, one_of(rows, "job class", slug=slug))


def _class_page(request: HttpRequest, row: JobClass | None) -> HttpResponse:
    actions.require_classes(actor(request))
    tiers = list(PriorityTier.objects.filter(retired_at=None))
    form = ClassForm(request.POST if request.method == "POST" else None, row=row, tiers=tiers)
    title = "New job class" if row is None else f"Job class {row.name}"
    return _answer(request, form, row, title=title, effect=_effect_of_class, save=_save_class)


def _save_class(request: HttpRequest, row: JobClass | None, form: ClassForm) -> JobClass:
    if row is None:
        return actions.create_class(
            by=actor(request), slug=form.cleaned_data["slug"].strip(), values=form.changes()
        )
    version = form.cleaned_data["version"] or 0
    return actions.edit_class(by=actor(request), job_class=row, version=version, changes=form.changes())


def _effect_of_class(row: JobClass, form: ClassForm) -> list[str]:
    wanted = review_class(row, form.cleaned_data["version"] or 0, form.changes())
    return class_effects.of_class(row, wanted)


@require_POST
def act_on_class(request: HttpRequest, slug: str) -> HttpResponse:
    """Retire, restore or delete a job class; say why not where it cannot be."""
    rows = JobClass.objects.visible_to(request.user).select_related("tier")
    row = one_of(rows, "job class", slug=slug)
    by = actor(request)
    return _act(
        request,
        row.name,
        {
            "retire": lambda: actions.retire_class(by=by, job_class=row, retired=True),
            "restore": lambda: actions.retire_class(by=by, job_class=row, retired=False),
            "delete": lambda: actions.delete_class(by=by, job_class=row),
        },
    )


@require_http_methods(["GET", "HEAD", "POST"])
def new_tier(request: HttpRequest) -> HttpResponse:
    """Make a priority tier."""
    return _tier_page(request, None)


@require_http_methods(["GET", "HEAD", "POST"])
def edit_tier(request: HttpRequest, slug: str) -> HttpResponse:
    """Change a priority tier, or show what that would do."""
    return _tier_page(request, one_of(PriorityTier.objects.visible_to(request.user), "tier", slug=slug))


def _tier_page(request: HttpRequest, tier: PriorityTier | None) -> HttpResponse:
    actions.require_classes(actor(request))
    form = TierForm(request.POST if request.method == "POST" else None, tier=tier)
    title = "New priority tier" if tier is None else f"Priority tier {tier.name}"
    return _answer(request, form, tier, title=title, effect=_effect_of_tier, save=_save_tier)


def _save_tier(request: HttpRequest, tier: PriorityTier | None, form: TierForm) -> PriorityTier:
    if tier is None:
        return actions.create_tier(
            by=actor(request), slug=form.cleaned_data["slug"].strip(), values=form.changes()
        )
    version = form.cleaned_data["version"] or 0
    return actions.edit_tier(by=actor(request), tier=tier, version=version, changes=form.changes())


def _effect_of_tier(tier: PriorityTier, form: TierForm) -> list[str]:
    wanted = review_tier(tier, form.cleaned_data["version"] or 0, form.changes())
    return class_effects.of_tier(tier, wanted)


@require_POST
def act_on_tier(request: HttpRequest, slug: str) -> HttpResponse:
    """Retire, restore or delete a tier; say why not where it cannot be."""
    tier = one_of(PriorityTier.objects.visible_to(request.user), "tier", slug=slug)
    by = actor(request)
    return _act(
        request,
        tier.name,
        {
            "retire": lambda: actions.retire_tier(by=by, tier=tier, retired=True),
            "restore": lambda: actions.retire_tier(by=by, tier=tier, retired=False),
            "delete": lambda: actions.delete_tier(by=by, tier=tier),
        },
    )


def _act(request: HttpRequest, name: str, doing: dict[str, Callable[[], object]]) -> HttpResponse:
    act = request.POST.get("act", "")
    if act not in doing:
        raise Refusal(f"{act[:40]!r} is not among {', '.join(ACTS)}.", field="act")
    try:
        doing[act]()
    except Refusal as refusal:
        if refusal.status in {403, 404}:
            raise
        messages.error(request, refusal.message)
    else:
        done = {"retire": "is retired", "restore": "is taken again", "delete": "is deleted"}[act]
        messages.success(request, f"{name} {done}.")
    return redirect("chamber:classes")


def _answer(
    request: HttpRequest,
    form: Any,
    row: JobClass | PriorityTier | None,
    *,
    title: str,
    effect: Callable[[Any, Any], list[str]],
    save: Callable[[HttpRequest, Any, Any], JobClass | PriorityTier],
) -> HttpResponse:
    """Show the form; of a posted one its effect, or save it."""
    asks_effect, told = EFFECT in request.GET and row is not None, None
    if request.method == "POST" and form.is_valid():
        try:
            if asks_effect:
                told = effect(row, form)
            else:
                saved = save(request, row, form)
                messages.success(
                    request, f"{saved.name} is saved; it holds for what is submitted from now on."
                )
                return redirect("chamber:classes")
        except Refusal as refusal:
            show_refusal(form, refusal)
    context = {"form": form, "row": row, "title": title, "effect": told}
    status = 422 if form.errors else 200
    if asks_effect and getattr(request, "htmx", False):
        return render(request, "teams/_class_effect.html", context, status=status)
    return page(request, "teams/class_form.html", context, status=status)
