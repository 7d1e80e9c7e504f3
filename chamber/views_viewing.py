"""Begins and ends to see the pages as somebody else does."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from chamber import viewing
from teams.views.requests import person


@require_POST
def begin(request: HttpRequest, username: str) -> HttpResponse:
    """See the pages as this person or service account does from now on; go to the overview."""
    admin = person(request)
    viewing.require_admin(admin)
    viewing.begin(request, admin, viewing.find(username))
    return redirect("chamber:overview")


@require_POST
def end(request: HttpRequest) -> HttpResponse:
    """See the pages as oneself again."""
    name = viewing.end(request, person(request))
    if name:
        messages.success(request, f"You see the pages as yourself again, no longer as {name}.")
    return redirect("chamber:overview")
