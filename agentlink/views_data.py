"""Saying on the page of a data source which clusters have it; for operators."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from agentlink import data
from agentlink.actions import require_operator
from agentlink.models import Cluster, DataLocation
from chamber.errors import NotVisible, Refusal, one_of
from chamber.http import posted_from
from teams.forms import show_refusal
from teams.views.requests import actor, person
from workloads.data import reading
from workloads.data.forms import LocationForm
from workloads.data.views import address_of, source_page
from workloads.models import DataSource


@posted_from("chamber:data-source", "team", "name")
def locate(request: HttpRequest, team: str, name: str) -> HttpResponse:
    """Say that a cluster has it; show the form again with why not where that cannot be."""
    source = reading.source_for(person(request), name, team)
    require_operator(actor(request))
    form = LocationForm(request.POST)
    if form.is_valid() and (place := _located(request, source, form)):
        messages.success(request, f"{place.cluster.name} has {source.reference}.")
        return redirect(address_of(source))
    return source_page(request, source, location_form=form)


def _located(request: HttpRequest, source: DataSource, form: LocationForm) -> DataLocation | None:
    given = form.cleaned_data
    try:
        cluster = one_of(Cluster.objects.visible_to(person(request)), "cluster", name=given["cluster"])
    except NotVisible as missing:
        form.add_error("cluster", missing.message)
        return None
    try:
        return data.locate(
            by=actor(request),
            source=source,
            cluster=cluster,
            namespace=given["namespace"],
            claim=given["claim"],
        )
    except Refusal as refusal:
        show_refusal(form, refusal)
        return None


@require_POST
def forget(request: HttpRequest, team: str, name: str, location_id: UUID) -> HttpResponse:
    """Say that a cluster has it no more."""
    source = reading.source_for(person(request), name, team)
    rows = DataLocation.objects.filter(source=source).select_related("cluster", "source__team")
    place = one_of(rows, "location", pk=location_id)
    data.forget_location(by=actor(request), location=place)
    messages.success(
        request, f"{place.cluster.name} has {source.reference} no more. What runs there keeps it."
    )
    return redirect(address_of(source))
