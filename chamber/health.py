"""For load balancers and probes: alive, and ready to answer."""

from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe


@require_safe
@login_not_required
def livez(request: HttpRequest) -> HttpResponse:  # noqa: ARG001 - a view takes the request
    """Return 200 as long as the process answers at all."""
    return HttpResponse("ok\n", content_type="text/plain")


@require_safe
@login_not_required
def readyz(request: HttpRequest) -> HttpResponse:  # noqa: ARG001 - a view takes the request
    """Return 200 when the database answers and has every migration, else 503 with a sentence."""
    try:
        executor = MigrationExecutor(connection)
        missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except DatabaseError:
        return HttpResponse("The database does not answer.\n", status=503, content_type="text/plain")
    if missing:
        text = f"{len(missing)} migrations are not applied; run `manage.py migrate`.\n"
        return HttpResponse(text, status=503, content_type="text/plain")
    return HttpResponse("ok\n", content_type="text/plain")
