"""Rows for `bench.growth`, written as the server writes them: full logs, hours of GPU use, acts in the audit trail.

python -m bench.growth_rows COUNT      # for the attempts of a database that has that many
"""

import random
import sys
import zlib
from datetime import timedelta


def main(count: int) -> None:
    """Write `count` rows of each kind."""
    import django

    django.setup()
    from django.utils import timezone

    from agentlink.models import GpuUseSample, PodLog
    from teams import audit
    from teams.actors import Actor
    from teams.models import Team
    from workloads.models import Attempt

    now = timezone.now()
    attempts = list(Attempt.objects.order_by("pk")[:count])
    GpuUseSample.objects.bulk_create(
        GpuUseSample(
            attempt=attempt,
            minute=now.replace(minute=0, second=0, microsecond=0) - timedelta(days=2),
            minutes=60,
            gpus=8,
            busy_percent=93,
            tensor_percent=41,
            memory_mib=560_000,
            power_watts=5200,
        )
        for attempt in attempts
    )
    PodLog.objects.all().delete()
    for number, attempt in enumerate(attempts):
        text = training_log(number)
        PodLog.objects.create(
            attempt=attempt, pod_index=0, content=zlib.compress(text.encode()), size_bytes=len(text), cut=True
        )
    team = Team.objects.order_by("path").last()
    assert team is not None  # noqa: S101 - the demo's teams
    for number in range(count):
        before, after = {"maximum_milli": 1000 * number}, {"maximum_milli": 1000 * number + 1000}
        audit.record(by=Actor.system("bench"), action="team.edited", target=team, before=before, after=after)


def training_log(seed: int, size: int = 1_000_000) -> str:
    """Return what a training writes, line by line, to about `size` characters."""
    chance, lines, length, step = random.Random(seed), [], 0, 0
    while length < size:
        step += 1
        line = (
            f"2026-11-23 12:{step // 60 % 60:02}:{step % 60:02},{chance.randrange(1000):03} INFO step={step} "
            f"loss={chance.gauss(2.0, 0.1):.4f} grad_norm={chance.gauss(0.8, 0.05):.4f} lr=3.0e-04 "
            f"tokens_per_second={chance.gauss(54_000, 900):.0f} memory=71.{chance.randrange(10)}GiB\n"
        )
        lines.append(line)
        length += len(line)
    return "".join(lines)


if __name__ == "__main__":
    main(int(sys.argv[1]))
