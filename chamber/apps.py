"""The project as a Django app: accounts, tokens and the pages that belong to no other app."""

from django.apps import AppConfig

from chamber import lookups


class ChamberConfig(AppConfig):
    """Name and label of the app."""

    name = "chamber"

    def ready(self) -> None:
        """Have ids looked up as arrays, and sessions note from their first moment what is noted of them."""
        from chamber import idle, reauthentication

        lookups.register()
        idle.register()
        reauthentication.register()
