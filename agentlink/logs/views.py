"""The page of a workload's logs; its fragment stands in the workload's own page and follows by a script."""

import asyncio
from contextlib import aclosing, suppress
from typing import Any

from asgiref.sync import async_to_sync
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from agentlink.logs import texts, viewing
from agentlink.logs.sources import Source, source_of, with_pods
from chamber import live
from chamber.errors import Conflict, one_of
from chamber.http import page, wants_fragment
from workloads.models import Workload

LAST_LINES = 200
LONGEST_SECONDS = 5.0
"""How long the page without scripts waits for the cluster."""
MOST_LISTED = 100
"""Pods that are listed by their numbers; of more, the number is typed."""


@require_safe
def logs(request: HttpRequest, slug: str) -> HttpResponse:
    """Show a pod's last lines; as a fragment only where they are, for the script that follows them."""
    workload = one_of(Workload.objects.visible_to(request.user), "workload", slug=slug)
    topic = f"workload:{workload.pk}"
    context: dict[str, Any] = {
        "workload": workload,
        # Where there is none yet, the page waits for it; a log is followed by a connection of its own.
        "live_topics": topic,
        "live_version": live.stamp(topic),
    }
    try:
        pod, attempt = _number(request, "pod") or 0, _number(request, "attempt")
        source = source_of(workload, pod=pod, number=attempt, nearest=True)
    except Conflict:
        context["empty"] = True
    else:
        attempts = with_pods(workload).values_list("number", flat=True)
        context |= {
            "source": source,
            "attempts": list(attempts),
            "pods": source.pods if len(source.pods) <= MOST_LISTED else None,
            "last_pod": source.pods[-1],
            "address": f"{reverse('api-workload-logs', args=[slug])}?attempt={source.number}&pod={source.pod}",
            "lines": "" if wants_fragment(request) else async_to_sync(_last)(source),
        }
    return page(request, "agentlink/logs.html", context, fragment="agentlink/_logs.html")


def _number(request: HttpRequest, name: str) -> int | None:
    text = request.GET.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


async def _last(source: Source) -> str:
    """Return the last lines, with what is to be said about them."""
    text = ""
    with suppress(TimeoutError):
        async with (
            asyncio.timeout(LONGEST_SECONDS),
            aclosing(viewing.look(source, follow=False, tail=LAST_LINES)) as told,
        ):
            async for each in told:
                text += texts.as_text(each) if each is not None else ""
    return text
