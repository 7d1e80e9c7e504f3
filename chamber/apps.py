"""The project as a Django app: accounts, tokens and the pages that belong to no other app."""

from django.apps import AppConfig


class ChamberConfig(AppConfig):
    """Name and label of the app."""

    name = "chamber"
