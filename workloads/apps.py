"""What users submit, its attempts and its events."""

from django.apps import AppConfig


class WorkloadsConfig(AppConfig):
    """Name and label of the app."""

    name = "workloads"
