"""The project as a Django app: accounts, tokens and the pages that belong to no other app."""

from django.apps import AppConfig

from chamber import lookups


class ChamberConfig(AppConfig):
    """Name and label of the app."""

    name = "chamber"

    def ready(self) -> None:
        """Have ids looked up as arrays, and sessions say when they were last used from their first moment."""
        from chamber import idle

        lookups.register()
        idle.register()
