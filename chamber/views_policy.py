"""How people sign in, for the whole organisation: a page of Settings."""

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from chamber.errors import Refusal
from chamber.forms import Form
from chamber.http import page
from chamber.requirement import lacking
from teams import actions
from teams.forms import show_refusal
from teams.models import SignInPolicy
from teams.models.sign_in import LONGEST_GRACE_DAYS
from teams.permissions import Permission, may_anywhere
from teams.sign_in import policy_for
from teams.views.requests import actor, person


class SecondFactorForm(Form):
    """Whether everybody needs a second factor."""

    version = forms.IntegerField(widget=forms.HiddenInput)
    required = forms.BooleanField(label="Everybody needs a second factor", required=False)
    grace_days = forms.IntegerField(
        label="Days of grace",
        min_value=0,
        max_value=LONGEST_GRACE_DAYS,
        help_text="From when it began to be required. Until then people are told; after it they can only set one up.",
    )


@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    """Show what is asked of whoever signs in; a POST changes it."""
    policy = policy_for(person(request))
    initial = {
        "version": policy.version,
        "required": policy.required_since is not None,
        "grace_days": policy.grace_days,
    }
    form = SecondFactorForm(request.POST if request.method == "POST" else None, initial=initial)
    if request.method == "POST":
        actions.require_sign_in(actor(request))
    if request.method == "POST" and form.is_valid():
        try:
            now = actions.require_second_factor(by=actor(request), **form.cleaned_data)
        except Refusal as refusal:
            show_refusal(form, refusal)
        else:
            messages.success(request, _told(now))
            return redirect("chamber:sign-in")
    context = {
        "policy": policy,
        "form": form,
        "lacking": lacking().count(),
        "may_change": may_anywhere(person(request), Permission.MANAGE_PEOPLE),
    }
    return page(request, "sign_in/policy.html", context, status=422 if form.errors else 200)


def _told(policy: SignInPolicy) -> str:
    at = policy.required_from
    return (
        f"Second factors are required from {at:%Y-%m-%d %H:%M} UTC on."
        if at
        else "Second factors are not required."
    )
