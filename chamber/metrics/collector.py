"""The collector: all families, read when Prometheus asks. What fails leaves out its own part and says so."""

import logging
from collections.abc import Iterator

from django.db import DatabaseError
from django.utils import timezone
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from chamber import __version__
from chamber.metrics import audit, history, mails, processes, requests, sign_ins, tables, use

logger = logging.getLogger(__name__)


class DeploymentCollector(Collector):
    """Everything that is known of a deployment, from its database and its Redis, whichever process is asked."""

    def collect(self) -> Iterator[Metric]:
        """Return all families (16 queries); without the database, those that need none."""
        yield InfoMetricFamily("chamber_build", "The version that answers.", value={"version": __version__})
        try:
            names, now = tables.LabelNames.read(), timezone.now()
            families = [*tables.read(names, now), *use.read(names, now), *history.read(names), *audit.read()]
        except DatabaseError as error:
            logger.warning("The database does not answer, /metrics goes without what it tells: %s", error)
            families = []
        yield GaugeMetricFamily(
            "chamber_database_up", "1 while the database answers, else 0.", value=int(bool(families))
        )
        yield from families
        yield from processes.read()
        yield from requests.read()
        yield from mails.read()
        yield from sign_ins.read()
