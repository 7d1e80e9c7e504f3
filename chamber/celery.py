"""The Celery application of the production way to run; `celery -A chamber worker`, `celery -A chamber beat`."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chamber.settings")

app = Celery("chamber")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
