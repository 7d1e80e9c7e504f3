"""Saying on the page of a data source which clusters have it; for operators."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from agentlink import data
from agentlink.actions import require_operator
from agentlink.models import Cluster, DataLocation
from chamber.errors import Refusal, one_of
from teams.views.requests import actor, person
from workloads.data import reading
from workloads.data.views import address_of


@require_POST
def locate(request: HttpRequest, team: str, name: str) -> HttpResponse:
    """Say that a cluster has it; say why not where that cannot be."""
    source = reading.source_for(person(request), name, team)
    require_operator(actor(request))
    try:
        cluster = one_of(
            Cluster.objects.visible_to(person(request)),
            "cluster",
            name=request.POST.get("cluster", "").strip(),
        )
        data.locate(
            by=actor(request),
            source=source,
            cluster=cluster,
            namespace=request.POST.get("namespace", ""),
            claim=request.POST.get("claim", ""),
        )
    except Refusal as refusal:
        messages.error(request, refusal.message)
    else:
        messages.success(request, f"{cluster.name} has {source.reference}.")
    return redirect(address_of(source))


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
