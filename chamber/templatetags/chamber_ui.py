"""Filters and tags of every page: quantities with their unit, times, statuses, bars, tables, navigation.

A builtin of the template engine, so templates use it without `{% load %}`. The markup of each part is
described in docs/look.md; nothing here but `silence_notice` makes a query.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from django import template
from django.forms import BaseForm
from django.template.context import Context
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe

from chamber.http import Watched
from chamber.pictures import MARKS, SEGMENTS, lifecycle_steps, stacked_bar
from chamber.words import plural, span
from scheduling.explain import silence
from scheduling.explain.explanation import label as words_of
from teams import sight

register = template.Library()

Missing = Literal[""] | None
"""What a template hands on where there is nothing: None, or "" for an attribute of None."""

MINUTE, HOUR, DAY, MONTH = 60, 3600, 86400, 30 * 86400

STATUS_ICONS = {
    "pending": "pending",
    "queued": "queued",
    "starting": "starting",
    "running": "running",
    "completed": "completed",
    "failed": "failed",
    "preempted": "preempted",
    "cancelled": "cancelled",
    "held": "held",
}
DEVICE_STATES = {
    "free": "Free",
    "reserved": "Reserved",
    "elastic": "Elastic",
    "shared": "Shared",
    "foreign": "Foreign",
    "down": "Down",
}


# Quantities


@register.filter
def gpu_number(milli: int | Missing) -> str:
    """Return exact GPUs without the unit ("1.5"), for cells under a heading that names it; "" for None."""
    if milli is None or milli == "":
        return ""
    sign = "-" if milli < 0 else ""
    whole, rest = divmod(abs(int(milli)), 1000)
    return f"{sign}{whole:,}" + (f".{rest:03d}".rstrip("0") if rest else "")


@register.filter
def gpus(milli: int | Missing) -> str:
    """Return milli-GPUs as exact GPUs with their unit: "1.5 GPUs", "1 GPU"; "" for None."""
    if milli is None or milli == "":
        return ""
    return f"{gpu_number(milli)} {unit(milli, 'GPU')}"


@register.filter
def unit(milli: int | Missing, noun: str) -> str:
    """Return the noun as it stands after so many thousandths, for where the number is set apart: "GPU", "GPUs"."""
    return plural(abs(int(milli or 0)) / 1000, noun)


@register.filter
def memory(mib: int | Missing) -> str:
    """Return MiB as the largest unit that keeps one decimal at most: "512 MiB", "1.5 GiB"; "" for None."""
    if mib is None or mib == "":
        return ""
    for unit, size in (("TiB", 1024 * 1024), ("GiB", 1024)):
        if mib >= size and mib * 10 % size == 0:
            return f"{mib / size:,.1f}".removesuffix(".0") + f" {unit}"
    return f"{mib:,} MiB"


@register.filter
def gib(mib: int | Missing) -> str:
    """Return MiB that were measured, to a tenth of a GiB: "68.5 GiB"; "" for None."""
    return "" if mib is None or mib == "" else f"{mib / 1024:,.1f} GiB"


@register.filter
def watts(power: int | Missing) -> str:
    """Return watts in the unit that reads best: "512 W", "4.1 kW"; "" for None."""
    if power is None or power == "":
        return ""
    return f"{power} W" if power < 1000 else f"{power / 1000:,.1f} kW"


@register.filter
def duration(length: timedelta | float | Missing) -> str:
    """Return a length of time (timedelta or seconds) in its two largest units, the second unless it is nothing.

    "2 h 05 min", "10 min"; "" for None.
    """
    if length is None or length == "":
        return ""
    return span(length.total_seconds() if isinstance(length, timedelta) else length)


@register.filter
def reason_words(code: str | Missing) -> str:
    """Return a reason's code in words: "Waiting for GPUs"; "" for None."""
    return words_of(code) if code else ""


# Times


def relative(at: datetime, now: datetime) -> str:
    """Return how far `at` lies from `now` in its largest unit: "4 min ago"; from 30 days on the date."""
    seconds = (at - now).total_seconds()
    distance = abs(seconds)
    if distance < MINUTE:
        return "just now" if seconds <= 0 else "in a moment"
    if distance >= MONTH:
        return f"{at.day} {at:%b %Y}"
    unit, size = next(u for u in (("d", DAY), ("h", HOUR), ("min", MINUTE)) if distance >= u[1])
    amount = f"{int(distance // size)} {unit}"
    return f"{amount} ago" if seconds < 0 else f"in {amount}"


def _exact(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


@register.simple_tag
def when(at: datetime | Missing, empty: str = "–") -> str:
    """Return a `<time>` that reads relative and shows the exact time on hover; the page keeps it fresh."""
    if not at:
        return empty
    words = relative(at, timezone.now())
    return format_html(
        '<time datetime="{}" title="{}" data-relative>{}</time>', at.isoformat(), _exact(at), words
    )


@register.simple_tag
def elapsed(since: datetime | Missing, until: datetime | Missing = None, empty: str = "–") -> str:
    """Return the time from `since` to `until`, or to now, in which case the page keeps counting."""
    if not since:
        return empty
    if until:
        return duration(until - since)
    words = duration(timezone.now() - since)
    return format_html(
        '<time datetime="{}" title="since {}" data-elapsed>{}</time>', since.isoformat(), _exact(since), words
    )


# What is not known


@register.inclusion_tag("scheduling/_silence.html", takes_context=True)
def silence_notice(context: Context) -> dict[str, object]:
    """Say since when nothing is known, of the scheduler and of clusters (at most 2 queries, once a second), and by a
    number what the reader may see (1 query, once for all who see the same).
    """
    watched = Watched.now(silence.TOPIC, sight.TOPIC)
    told = silence.told_to(context["user"])
    return {
        "silence": told,
        "sight": sight.sight_of(context["user"]),
        "live_topics": " ".join(watched.topics),
        "live_version": watched.stamp,
    }


# Statuses and icons


@register.simple_tag
def icon(name: str, label: str = "") -> SafeString:
    """Return an icon of the sprite; decoration unless `label` says what it means."""
    if label:
        return format_html(
            '<svg class="icon" width="16" height="16" role="img" aria-label="{}"><use href="#i-{}"></use></svg>',
            label,
            name,
        )
    return format_html(
        '<svg class="icon" width="16" height="16" aria-hidden="true"><use href="#i-{}"></use></svg>', name
    )


@register.simple_tag
def status_badge(status: str, held: bool = False, large: bool = False) -> SafeString:
    """Return a workload's status by icon, word and colour; a pending one on hold reads "Held"."""
    key = str(status).lower()
    key = "held" if held and key == "pending" else key
    size = " status-large" if large else ""
    symbol = icon(STATUS_ICONS.get(key, "pending"))
    return format_html('<span class="status status-{}{}">{}{}</span>', key, size, symbol, key.capitalize())


@register.inclusion_tag("_components/lifecycle.html")
def lifecycle(status: str, *reached: datetime | Missing) -> dict[str, object]:
    """Show how far a workload has come, since when, and how long each step took.

    `reached`: when it became Pending, Queued, Starting, Running, and when it ended; the last ones may be left out.
    """
    *times, ended_at = [at or None for at in (*reached, *[None] * (5 - len(reached)))]
    return {"steps": lifecycle_steps(str(status).lower(), times, ended_at)}


# Bars and node maps


@register.inclusion_tag("_components/bar.html")
def gpu_bar(
    label: str,
    capacity: int,
    *,
    reserved: int = 0,
    elastic: int = 0,
    burst: int = 0,
    unavailable: int = 0,
    guarantee: int | Missing = None,
    entitlement: int | Missing = None,
    ceiling: int | Missing = None,
    legend: bool = False,
    idle: bool = True,
    devices: str = "",
) -> dict[str, object]:
    """Draw how milli-GPUs are used, out of `capacity`, with marks where a team's limits lie.

    `devices` says what the capacity is where some of it is slices. `unavailable` is part of `capacity`. `idle=False`
    leaves the unused part unnamed, for a team's bar, whose rest is not the team's.
    """
    used = {"reserved": reserved, "elastic": elastic, "burst": burst, "unavailable": unavailable}
    limits = {"guarantee": guarantee, "entitlement": entitlement, "ceiling": ceiling}
    known = {key: None if milli == "" else milli for key, milli in limits.items()}
    bar = stacked_bar(capacity, used, known, name_idle=idle)
    parts = [f"{part.label.lower()} {gpus(part.milli)}" for part in (*bar.segments, *bar.marks)]
    text = f"{label}: {', '.join(parts) or 'nothing in use'}, of {devices or gpus(capacity)}"
    return {"bar": bar, "text": text, "legend": legend}


@register.inclusion_tag("_components/bar_legend.html")
def bar_legend(*, marks: bool = False, idle: bool = True) -> dict[str, object]:
    """Explain the colours of stacked bars once, and the marks of teams' bars on request."""
    keys = [(key, label) for key, label in SEGMENTS.items() if idle or key not in {"idle", "unavailable"}]
    return {"keys": keys, "marks": list(MARKS.items()) if marks else []}


@register.inclusion_tag("_components/device_legend.html")
def device_legend(*, slices: bool = False) -> dict[str, object]:
    """Explain the cells of node maps, those of slices where there are any."""
    return {"keys": list(DEVICE_STATES.items()), "slices": slices}


@register.filter
def device_summary(devices: Sequence[Any]) -> str:
    """Return how many devices of a node are in which state, in words: "6 reserved, 2 free; slices: 7 free"."""
    whole, cut = (
        [_attribute(device, "state") for device in devices if bool(_attribute(device, "cut")) is wanted]
        for wanted in (False, True)
    )
    told = [
        ", ".join(f"{states.count(state)} {state}" for state in DEVICE_STATES if state in states)
        for states in (whole, cut)
    ]
    return "; ".join(part for part in (told[0], f"slices: {told[1]}" if cut else "") if part) or "no GPUs"


@register.simple_tag
def device_cells(devices: Sequence[Any]) -> SafeString:
    """Draw a node's devices, a cell for each: a map has hundreds, too many to go through a template one by one."""
    return mark_safe("".join([_device_cell(device) for device in devices]))  # noqa: S308 - each part is escaped


def _device_cell(device: Any) -> str:
    state, title, url = (escape(_attribute(device, name) or "") for name in ("state", "title", "url"))
    kind = f"device device-{state}"
    for name, of_it in (("own", "device-own"), ("cut", "device-slice")):
        kind += f" {of_it}" if _attribute(device, name) else ""
    if url:
        return f'<a class="{kind}" href="{url}" title="{title}" aria-label="{title}"></a>'
    return f'<span class="{kind}" title="{title or state}"></span>'


def _attribute(thing: Any, name: str) -> Any:
    return thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)


# Tables


def _query(context: Context, **changes: str | None) -> str:
    parameters = context["request"].GET.copy()
    for name, value in changes.items():
        parameters.pop(name, None)
        if value:
            parameters[name] = value
    return f"?{parameters.urlencode()}"


@register.inclusion_tag("_components/sort_header.html", takes_context=True)
def sort_header(
    context: Context, field: str, label: str, *, number: bool = False, default: str = ""
) -> dict[str, object]:
    """Return a `<th>` that sorts by `?sort=field`, and by `?sort=-field` when followed again.

    `default` is the order of the page where the address names none.
    """
    order = context["request"].GET.get("sort") or default
    direction = {field: "ascending", f"-{field}": "descending"}.get(order, "")
    url = _query(context, sort=f"-{field}" if direction == "ascending" else field, cursor=None)
    return {"label": label, "number": number, "direction": direction, "url": url}


@register.inclusion_tag("_components/pagination.html", takes_context=True)
def pagination(
    context: Context, following: str | None = None, previous: str | None = None, summary: str = ""
) -> dict[str, object]:
    """Return links to the pages before and after, by `?cursor=`, keeping filters and order."""
    return {
        "next_url": _query(context, cursor=following) if following else "",
        "previous_url": _query(context, cursor=previous) if previous else "",
        "summary": summary,
    }


@register.simple_tag(takes_context=True)
def fold_url(context: Context, array: str = "") -> str:
    """Return the address of this page with an array unfolded, or with none, keeping filters, order and place."""
    return _query(context, unfold=array or None)


# Forms


@register.filter
def error_links(form: BaseForm) -> list[tuple[str, str, str]]:
    """Return (id of the control, label, message) for each error beside a field, for the form's summary."""
    return [
        (bound.id_for_label or bound.auto_id, str(bound.label), str(message))
        for bound in form
        for message in bound.errors
    ]


@register.filter
def is_checkbox(field: Any) -> bool:
    """Return whether a bound field is a single checkbox, whose label goes beside it."""
    return getattr(field.field.widget, "input_type", "") == "checkbox" and not field.use_fieldset


# Navigation


@dataclass(frozen=True, slots=True)
class Destination:
    """A page of the main navigation; `keys` are pressed one after the other to go there."""

    label: str
    url: str
    icon: str
    keys: str
    current: bool


SUBMIT = "workloads:submit"
PAGES = (
    ("chamber:overview", "Overview", "overview", "g o"),
    ("workloads:list", "Workloads", "workloads", "g w"),
    ("scheduling:queue", "Queue", "queue", "g q"),
    ("teams:tree", "Teams", "teams", "g t"),
    ("agentlink:pools", "Pools", "pools", "g p"),
)
LIES_IN = {
    "agentlink:workload-logs": "workloads:list",
    "agentlink:workload-use": "workloads:list",
    "teams:pool-new": "agentlink:pools",
    "teams:pool-edit": "agentlink:pools",
    "scheduling:what-if-drain": "agentlink:pools",
    "scheduling:what-if-pool": "agentlink:pools",
    "scheduling:what-if-team": "teams:tree",
    "scheduling:what-if-teams": "teams:tree",
}
"""Pages that people look for in another place than that of their app."""


@register.simple_tag(takes_context=True)
def navigation(context: Context) -> list[Destination]:
    """Return the pages of the main navigation; the one that `request` lies in is current."""
    request = context.get("request")
    match = getattr(request, "resolver_match", None)
    here = match.view_name if match else ""
    here = LIES_IN.get(here, here)
    found = []
    for name, label, symbol, keys in PAGES:
        namespace = name.partition(":")[0]
        current = here == name or (
            namespace != "chamber" and here.startswith(f"{namespace}:") and here != SUBMIT
        )
        found.append(Destination(label, reverse(name), symbol, keys, current))
    return found


BROWSERS = (
    ("Edg/", "Edge"),
    ("OPR/", "Opera"),
    ("Firefox/", "Firefox"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
)
SYSTEMS = (
    ("Android", "Android"), ("iPhone", "iPhone"), ("iPad", "iPad"), ("Windows", "Windows"),
    ("Mac OS X", "macOS"), ("CrOS", "ChromeOS"), ("Linux", "Linux"),
)  # fmt: skip


@register.filter
def device(agent: str) -> str:
    """Return browser and system as a user agent names them: "Firefox on Linux"; the first that is named counts."""
    named = [next((name for mark, name in names if mark in agent), "") for names in (BROWSERS, SYSTEMS)]
    return " on ".join(name for name in named if name) or "Another program"
