"""Snapshot, decide, apply: who runs, where, and who yields."""

from django.apps import AppConfig


class SchedulingConfig(AppConfig):
    """Name and label of the app."""

    name = "scheduling"
