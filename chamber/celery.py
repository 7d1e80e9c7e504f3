"""The Celery application of the production way to run; `chamber worker` and `chamber beat` start it."""

import os
from typing import Any

from celery import Celery, Task
from celery.signals import setup_logging

from chamber.transactions import tried_again

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chamber.settings")


class Duty(Task):  # type: ignore[misc]  # celery has no types
    """A task that is done again where its transaction and somebody else's were in each other's way."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Do it."""
        return tried_again(self.name, lambda: super(Duty, self).__call__(*args, **kwargs))


app = Celery("chamber", task_cls=Duty)
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@setup_logging.connect  # type: ignore[untyped-decorator]  # celery has no types
def _keep_logging(**_: Any) -> None:
    """Leave logging as the settings made it: Celery configures its own only where nobody listens here."""
