"""The job classes and priority tiers that a new organisation begins with."""

from typing import Any

from teams.models import DeviceSharing, JobClass, PriorityTier

USUAL_TIERS = {"low": 25, "normal": 50, "high": 75, "reserved": 100}
HOUR = 3600
USUAL_CLASSES: dict[str, dict[str, Any]] = {
    "training": {"tier": "normal", "time_limit_seconds": 24 * HOUR, "max_retries": 1},
    "experiment": {"tier": "normal", "time_limit_seconds": 4 * HOUR, "is_default": True},
    "preprocessing": {"tier": "low", "time_limit_seconds": 8 * HOUR, "max_retries": 2},
    "batch-inference": {"tier": "low", "time_limit_seconds": 8 * HOUR, "max_retries": 2},
    "serving": {"tier": "reserved", "max_retries": 3, "sharing": DeviceSharing.NEVER},
    "interactive": {"tier": "normal", "time_limit_seconds": 4 * HOUR},
}


def make_usual_classes() -> None:
    """Store them; what is there already stays as it is (3 queries)."""
    PriorityTier.objects.bulk_create(
        (
            PriorityTier(slug=slug, name=slug.capitalize(), priority=priority)
            for slug, priority in USUAL_TIERS.items()
        ),
        ignore_conflicts=True,
    )
    tiers = {tier.slug: tier for tier in PriorityTier.objects.all()}
    JobClass.objects.bulk_create(
        (
            JobClass(
                slug=slug,
                name=slug.replace("-", " ").capitalize(),
                order=order,
                **{**said, "tier": tiers[said["tier"]]},
            )
            for order, (slug, said) in enumerate(USUAL_CLASSES.items())
        ),
        ignore_conflicts=True,
    )
