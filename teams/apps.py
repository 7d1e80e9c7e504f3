"""The organisation's tree, its members, capacity pools and the audit trail."""

from django.apps import AppConfig


class TeamsConfig(AppConfig):
    """Name and label of the app."""

    name = "teams"
