"""What a workload makes of its GPUs: a part of the workload's page, and a page of its own."""

from datetime import datetime

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from agentlink.models import Assignment, Device, DeviceSlicing, GpuUse, GpuUseSample, Hold, Placement
from agentlink.use_chart import BY_KEY, Chart, Sample, SavedMark, Window, chart, saved_marks, windows_of
from chamber import live
from chamber.errors import Refusal
from chamber.http import page
from chamber.words import count
from teams.values import devices_text
from workloads.models import Checkpoint, Workload
from workloads.querysets import FIGURES_HOLD


@require_safe
def workload_use(request: HttpRequest, slug: str) -> HttpResponse:
    """Show how busy the workload's GPUs are and were; live."""
    workload = Workload.objects.visible_to(request.user).by_slug(slug)
    now = timezone.now()
    topic = f"workload:{workload.pk}"
    life = life_of(workload, now)
    windows = windows_of(*life) if life else []
    within = request.GET.get("within", "")
    asked = [window for window in windows if window.key == within]
    if within and within not in BY_KEY:
        raise Refusal(f"within is {within[:40]!r}; allowed are {', '.join(BY_KEY)}.", field="within")
    drawn = chart_of(workload, [*windows, *asked][-1], now) if windows else None
    context = {
        "workload": workload,
        "chart": drawn,
        "saved": saved_in(workload, drawn) if drawn else [],
        "windows": windows,
        "chosen": drawn.window if drawn else None,
        "use": (use := use_now(workload, now)),
        "measured": measured(use) if use is not None else "",
        "is_measured": drawn is not None or is_measured(workload, now),
        "idle_percent": settings.CHAMBER_IDLE_PERCENT,
        # Figures come each minute and are not announced: the section is fetched as often, and not kept.
        "live_topics": topic,
        "live_version": live.stamp(topic),
    }
    return page(request, "agentlink/use.html", context, fragment="agentlink/_use.html")


def use_now(workload: Workload, now: datetime) -> GpuUse | None:
    """Return how it is now; None where the workload holds no GPUs, or that is not known."""
    if workload.attempt_id is None:
        return None
    return GpuUse.objects.filter(attempt=workload.attempt_id, at__gte=now - FIGURES_HOLD).first()


def measured(use: GpuUse) -> str:
    """Return what was measured of its devices: "4 GPUs", "2 slices worth 0.286 GPUs"; only how many where some of both
    were not (one query)."""
    lying = Placement.objects.filter(attempt=use.attempt_id).exclude(hold=Hold.RELEASED)
    held = Device.objects.filter(pk__in=lying.values("device")).order_by()
    shares = list(held.values_list("pk", "slicing", "share_milli"))
    slices = [share for _, slicing, share in shares if slicing != DeviceSlicing.WHOLE]
    if len(shares) == use.gpus:
        return devices_text(len(shares) - len(slices), len(slices), sum(slices))
    if len(slices) == len(shares) > 0:
        return count(use.gpus, "slice")
    return count(use.gpus, "device" if slices else "GPU")


def life_of(workload: Workload, now: datetime) -> tuple[datetime, datetime] | None:
    """Return when it was measured first and until when it may have been; None where it never was (one query)."""
    samples = GpuUseSample.objects.filter(attempt__workload=workload.pk)
    began_at = samples.order_by("minute").values_list("minute", flat=True).first()
    return (began_at, workload.finished_at or now) if began_at is not None else None


def chart_of(workload: Workload, window: Window, now: datetime) -> Chart:
    """Return the chart of a window, which ends with the workload (one query)."""
    ended_at = workload.finished_at or now
    samples = GpuUseSample.objects.filter(attempt__workload=workload.pk)
    rows = samples.filter(minute__gte=ended_at - window.length - window.step, minute__lte=ended_at)
    fields = ("minute", "minutes", "gpus", "busy_percent", "tensor_percent", "memory_mib", "power_watts")
    return chart((Sample(*row) for row in rows.order_by("minute").values_list(*fields)), window, ended_at)


def saved_in(workload: Workload, drawn: Chart) -> list[SavedMark]:
    """Return the checkpoints of the time that a chart shows (one query)."""
    saved = Checkpoint.objects.filter(attempt__workload=workload.pk, at__gte=drawn.since, at__lt=drawn.until)
    return saved_marks(drawn, saved.order_by("at").values_list("at", "step"))


def is_measured(workload: Workload, now: datetime) -> bool:
    """Return whether the GPUs of the cluster in which the workload is are measured."""
    clusters = Assignment.objects.filter(attempt=workload.attempt_id).values("cluster")
    known = GpuUse.objects.filter(at__gte=now - FIGURES_HOLD, attempt__assignment__cluster__in=clusters)
    return workload.attempt_id is not None and known.exists()
